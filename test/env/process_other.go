//go:build unix && !linux

package env

import "syscall"

// processAttributes puts a child into its own process group, so that Ctrl-C reaches only the parent,
// which stops the children in order. There is no parent death signal here: children of a parent that
// is killed outright stay.
func processAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// forkFromLastingThread is of consequence on Linux only.
func forkFromLastingThread(start func() error) error { return start() }
