//go:build linux && node

package nodes

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/programs"
)

// leaves marks the run of this test binary that starts a cluster and waits to be killed.
const leaves = "E2E_NODES_LEAVES"

func TestMain(m *testing.M) {
	if os.Getenv(leaves) == "" {
		os.Exit(m.Run())
	}
	os.Exit(Isolated{Inside: func(folder string) int {
		options := FromEnvironment(os.Getenv(leaves), folder)
		options.Nodes, options.Images = 1, options.Images[1:]
		if _, err := Start(context.Background(), options); err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println(folder)
		select {}
	}}.Run())
}

// TestNothingIsLeftAfterAKill kills the program outside, which can then end nothing itself.
func TestNothingIsLeftAfterAKill(t *testing.T) {
	root, err := programs.Root()
	if err != nil {
		t.Fatal(err)
	}
	before := Left("/nodes-not-yet")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), leaves+"="+root)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	folder := strings.TrimSpace(line)
	if err != nil || !strings.HasPrefix(folder, "/") {
		t.Fatalf("no cluster was started: %q, %v", line, err)
	}
	if groups := Left(folder); !strings.Contains(groups, cgroups(folder)) {
		t.Fatalf("the node has no control group, so that nothing can be left:\n%s", groups)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	end := time.Now().Add(3 * time.Minute)
	for {
		_, gone := os.Stat(folder)
		after := Left(folder)
		alive, _ := exec.Command("pgrep", "-af", folder).Output() // fails where there is none
		if os.IsNotExist(gone) && after == before && len(alive) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the folder: %v; processes: %s\nbefore:\n%s\nafter:\n%s", gone, alive, before, after)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
