package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Build builds a program from a package of this repository, which is named by its path from the root, as the image has it:
// without cgo, which also starts sooner.
func Build(ctx context.Context, pkg, to string, flags ...string) error {
	build := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-buildvcs=false", "-trimpath", "-o", to}, flags, []string{pkg})...)
	build.Dir = Root()
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w: %s", pkg, err, output)
	}
	return nil
}

// BuildOnce is Build for a program that many tests need: it is kept in bin/, where go build sees that it need not be linked
// again, which takes ten times as long as to see that. What is built later does not change the copy of this one.
func BuildOnce(ctx context.Context, pkg, to string, flags ...string) (err error) {
	dir := filepath.Join(Root(), "bin", "built")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making folder: %w", err)
	}
	kept := filepath.Join(dir, strings.NewReplacer("./", "", "/", "-").Replace(strings.Join(append(flags, pkg), "")))
	lock, err := os.OpenFile(kept+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("locking %s: %w", kept, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", kept, err)
	}
	if err := Build(ctx, pkg, kept, flags...); err != nil {
		return err
	}
	return copyProgram(kept, to)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("copying program: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copying program: %w", err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copying program: %w", err)
	}
	return nil
}
