//go:build !linux

package process

import "syscall"

// attributes put a process into a group of its own, away from the terminal's
// Ctrl-C.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
