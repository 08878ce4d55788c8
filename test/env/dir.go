package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// dirPrefix begins the folder's name; the process id of its owner follows.
const dirPrefix = "labkeeper-env-"

// makeDir makes the folder of a control plane and locks it for as long as this process lives.
func makeDir() (string, *os.File, error) {
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", nil, fmt.Errorf("creating folder: %w", err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("locking %s: %w", dir, err), os.RemoveAll(dir))
	}
	return dir, lock, nil
}

// lockDir takes the lock that the kernel releases when the process ends.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// sweep removes the folders of control planes whose process was killed before it could. Errors are
// not worth a failed start: the folder may be another user's, or another sweep was faster.
func sweep() {
	dirs, err := filepath.Glob(filepath.Join(os.TempDir(), dirPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range dirs {
		if abandoned(dir) {
			_ = os.RemoveAll(dir)
		}
	}
}

// abandoned says whether a folder's owner is gone. The process id alone would mistake an owner in
// another container that shares the temporary folder; the lock alone one that has not locked yet.
func abandoned(dir string) bool {
	owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
	pid, err := strconv.Atoi(owner)
	if err != nil || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	lock, err := lockDir(dir)
	if err != nil {
		return false
	}
	return lock.Close() == nil
}
