package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// parent marks the run of this test binary that starts a child and waits to be
// killed.
const parent = "E2E_PROCESS_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parent) == "" {
		os.Exit(m.Run())
	}
	child, err := Run("sleep", os.Getenv(parent), "60")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(child.PID())
	<-child.Done()
}

func TestChildDiesWithItsParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), parent+"="+filepath.Join(t.TempDir(), "log"))
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(line)
	if !running(pid) {
		t.Fatalf("%q is not a running child", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	deadline := time.Now().Add(30 * time.Second)
	for running(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("child %s has outlived its parent", pid)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// running reports whether the process exists and is not just waiting to be
// reaped by the process that inherited it.
func running(pid string) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return false
	}
	_, state, found := strings.Cut(string(stat), ") ")
	return found && !strings.HasPrefix(state, "Z")
}

func TestStopEndsAProcess(t *testing.T) {
	child, err := Run("sleep", filepath.Join(t.TempDir(), "log"), "60")
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Stop(); err != nil {
		t.Error(err)
	}
	if running(fmt.Sprint(child.PID())) {
		t.Error("still running after Stop")
	}
	if err := child.Stop(); err != nil {
		t.Errorf("stopping again: %v", err)
	}
}
