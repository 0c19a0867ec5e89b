package auditor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// Result is what a command printed and how it ended.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Command runs the binary to its end, for at most MaxWait. An exit code other
// than 0 is a result, not an error.
func Command(ctx context.Context, binary string, args ...string) (Result, error) {
	return Piped(ctx, nil, binary, args...)
}

// Piped does the same with something to read on the standard input.
func Piped(ctx context.Context, stdin io.Reader, binary string, args ...string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), "GOGC=off") // it ends before collecting garbage pays
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil {
		return Result{}, fmt.Errorf("running %s: %w", cmd, ctx.Err())
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return Result{}, fmt.Errorf("running %s: %w", cmd, err)
	}
	return Result{Stdout: stdout.String(), Stderr: stderr.String(), Code: cmd.ProcessState.ExitCode()}, nil
}
