package env

import (
	"runtime"
	"sync"
	"syscall"
)

// processAttributes puts a child into its own process group, so that Ctrl-C reaches only the parent,
// which stops the children in order; and lets the kernel end it when the parent is killed outright.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

var forks = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread() // and never unlock: see forkFromLastingThread
		for f := range work {
			f()
		}
	}()
	return work
})

// forkFromLastingThread runs a fork on one thread that lives as long as this process. The kernel
// sends the parent death signal when the forking THREAD ends, and the Go runtime ends threads.
func forkFromLastingThread(start func() error) error {
	result := make(chan error)
	forks() <- func() { result <- start() }
	return <-result
}
