package main

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// ticks is how many times a second Linux counts CPU time, on all platforms of Go.
const ticks = 100

// cpuSeconds is the CPU time of a process; 0 if it ended.
func cpuSeconds(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticks
}

// memory is one line of /proc/PID/status in MiB.
func memory(pid int, line string) float64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, ok := strings.Cut(string(text), line+":")
	if !ok {
		return 0
	}
	kilobytes, _ := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	return kilobytes / 1024
}

// connections is how many TCP connections the process has to the address.
func connections(pid int, address string) float64 {
	u, err := url.Parse(address)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(u.Port())
	remote := ":" + strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
	own := map[string]bool{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, f := range files {
		if target, err := os.Readlink(f); err == nil {
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				own[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	n := 0.0
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile("/proc/net/" + table)
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) > 9 && strings.HasSuffix(f[2], remote) && f[3] == "01" && own[f[9]] {
				n++
			}
		}
	}
	return n
}
