package process

import "syscall"

// attributes put a process into a group of its own, away from the terminal's
// Ctrl-C, and have the kernel kill it should we die without stopping it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
