package machine

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// Host is what a measurement was taken on.
type Host struct {
	Cores       int    `json:"cores"`
	CPU         string `json:"cpu"`
	MemoryBytes string `json:"memory"`
	Kernel      string `json:"kernel"`
	// LoadAverage is that of the start.
	LoadAverage string `json:"load_average"`
}

// Versions are what was measured.
type Versions struct {
	// Commit of the repository, with "-dirty" where files differ from it.
	Commit     string `json:"commit"`
	Go         string `json:"go"`
	Kubernetes string `json:"kubernetes"`
}

// ThisHost reads what the machine is. What cannot be read stays empty.
func ThisHost() Host {
	return Host{
		Cores:       runtime.NumCPU(),
		CPU:         field("/proc/cpuinfo", "model name"),
		MemoryBytes: field("/proc/meminfo", "MemTotal"),
		Kernel:      content("/proc/sys/kernel/osrelease"),
		LoadAverage: content("/proc/loadavg"),
	}
}

// Commit is the commit that is checked out in a folder.
func Commit(dir string) string {
	git := func(args ...string) string {
		command := exec.Command("git", args...)
		command.Dir = dir
		out, err := command.Output()
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out))
	}
	commit := git("rev-parse", "HEAD")
	if commit != "" && git("--no-optional-locks", "status", "--porcelain") != "" {
		commit += "-dirty"
	}
	return commit
}

func content(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// field is the value of the first line "name : value".
func field(path, name string) string {
	for line := range strings.SplitSeq(content(path), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
