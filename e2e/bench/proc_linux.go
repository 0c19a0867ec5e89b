package main

import (
	"fmt"
	"os"
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
