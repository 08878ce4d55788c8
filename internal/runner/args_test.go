package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

func environment(parameters string) func(string) string {
	return func(name string) string {
		return map[string]string{EnvParameters: parameters, EnvNode: "node-2", EnvManagerNode: "node-1", EnvManagerNamespace: "labs"}[name]
	}
}

var full = Task{
	Operation: v1alpha1.OperationShutdown, Plan: "shop/nights", Target: "web", Type: "workloadscaler", Cycle: "c1", Execution: "nights-web-1",
	Attempt: 2, Namespaces: []string{"a", "b"}, RestorePoint: "shop/nights-web", Kubeconfig: "/etc/target/kubeconfig", Hub: "7d1f", ManagerNode: "node-1", ManagerNamespace: "labs", Node: "node-2", Deadline: 29 * time.Minute,
	Parameters: json.RawMessage(`{"password":"canary"}`),
}

func TestArgs(t *testing.T) {
	for name, change := range map[string]func(*Task){
		"everything":    func(*Task) {},
		"no namespaces": func(t *Task) { t.Namespaces = nil },
		"no kubeconfig": func(t *Task) { t.Kubeconfig = "" },
		"no parameters": func(t *Task) { t.Parameters = nil },
		"odd names":     func(t *Task) { t.Target, t.Kubeconfig = "--type=x", "a b=c" },
	} {
		task := full
		change(&task)
		got, err := ParseTask(task.Args(), environment(string(task.Parameters)))
		if diff := cmp.Diff(task, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		if strings.Contains(strings.Join(task.Args(), " "), "canary") {
			t.Errorf("%s: parameters are arguments", name)
		}
	}
}

func TestMistakenArgs(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Task)
		says   string
	}{
		"operation":     {func(t *Task) { t.Operation = "Sleep" }, `--operation: "Sleep" is none; write Shutdown or WakeUp`},
		"plan":          {func(t *Task) { t.Plan = "nights" }, `--plan: "nights" is not namespace/name`},
		"restore point": {func(t *Task) { t.RestorePoint = "a/b/c" }, `--restore-point: "a/b/c" is not namespace/name`},
		"target":        {func(t *Task) { t.Target = "" }, "--target: it must not be empty"},
		"type":          {func(t *Task) { t.Type = "" }, "--type: it must not be empty"},
		"cycle":         {func(t *Task) { t.Cycle = "" }, "--cycle: it must not be empty"},
		"execution":     {func(t *Task) { t.Execution = "" }, "--execution: it must not be empty"},
		"attempt":       {func(t *Task) { t.Attempt = 0 }, "--attempt: 0 is less than 1"},
		"deadline":      {func(t *Task) { t.Deadline = 0 }, "--deadline: 0s is too short"},
		"namespaces":    {func(t *Task) { t.Namespaces = []string{"a", ""} }, `--namespaces: "" is not a namespace's name`},
		"parameters":    {func(t *Task) { t.Parameters = json.RawMessage(`{"password":"canary"`) }, "$LABKEEPER_PARAMETERS: it is not JSON"},
	} {
		task := full
		test.change(&task)
		_, err := ParseTask(task.Args(), environment(string(task.Parameters)))
		if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: it is %v", name, err)
		}
	}
	for _, args := range [][]string{append(full.Args(), "more"), append(full.Args(), "--more"), append(full.Args(), "--attempt=x")} {
		if _, err := ParseTask(args, environment("")); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if _, err := ParseTask([]string{"--help"}, environment("")); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: it is %v", err)
	}
	var usage bytes.Buffer
	Usage(&usage)
	for _, arg := range full.Args() {
		if name, _, _ := strings.Cut(arg, "="); !strings.Contains(usage.String(), strings.TrimPrefix(name, "-")+" ") {
			t.Errorf("the usage does not tell of %s", name)
		}
	}
}

// What is read is written and read as the same.
func FuzzParseTask(f *testing.F) {
	f.Add(strings.Join(full.Args(), "\x00"), string(full.Parameters))
	f.Add("--operation\x00WakeUp", "")
	f.Fuzz(func(t *testing.T, args, parameters string) {
		task, err := ParseTask(strings.Split(args, "\x00"), environment(parameters))
		if err != nil {
			return
		}
		again, err := ParseTask(task.Args(), environment(parameters))
		if diff := cmp.Diff(task, again); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

// However many namespaces a target has, a process starts with them, and knows all.
func TestManyNamespaces(t *testing.T) {
	task := full
	task.Namespaces = nil
	for i := range 2*maxNamespaces + 1 {
		task.Namespaces = append(task.Namespaces, fmt.Sprintf("%s-%06d", strings.Repeat("n", 56), i))
	}
	got, err := ParseTask(task.Args(), environment(string(task.Parameters)))
	if err != nil || !slices.Equal(got.Namespaces, task.Namespaces) {
		t.Errorf("%d of %d namespaces, %v", len(got.Namespaces), len(task.Namespaces), err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("runners run on Linux")
	}
	if err := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^$", "--"}, task.Args()...)...).Run(); err != nil {
		t.Error(err)
	}
}

// A process starts with the longest parameters that there may be, and with none that are longer.
func TestMaxParameters(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("runners run on Linux")
	}
	for more, starts := range []bool{true, false} {
		command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
		command.Env = []string{EnvParameters + "=" + strings.Repeat("x", MaxParameters+more)}
		if err := command.Run(); (err == nil) != starts {
			t.Errorf("%d more than the most: %v", more, err)
		}
	}
}
