//go:build !linux

package target

import "syscall"

// groupAttr puts a command into a process group of its own.
func groupAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// groupAlive reports whether a process group that takes signals has a living member: here it has.
func groupAlive(int) bool { return true }
