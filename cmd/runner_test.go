package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/env/testenv"
)

func TestRunnerExits(t *testing.T) {
	message := filepath.Join(t.TempDir(), "message")
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	getenv := func(name string) string {
		return map[string]string{runner.EnvTerminationMessage: message, runner.EnvParameters: `{"password":"canary"}`}[name]
	}
	task := runner.Task{Operation: v1alpha1.OperationWakeUp, Plan: "shop/nights", Target: "web", Type: "none", Cycle: "c1", Execution: "e1",
		Attempt: 1, RestorePoint: "shop/nights-web", Deadline: time.Minute}
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"help":       {[]string{"--help"}, 0, "-restore-point"},
		"flags":      {[]string{"--operation=Sleep"}, 2, "--operation"},
		"no cluster": {task.Args(), 1, ""},
	} {
		var out bytes.Buffer
		if code := runRunner(context.Background(), test.args, getenv, &out, &out); code != test.code || !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: it is %d: %s", name, code, out.String())
		}
		if strings.Contains(out.String(), "canary") {
			t.Errorf("%s: it tells of parameters: %s", name, out.String())
		}
	}
	var result runner.Result
	content, err := os.ReadFile(message)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &result); err != nil || result.Completed || result.Reason != runner.ReasonFailed || result.Execution != "e1" {
		t.Errorf("the termination message is %s: %v", content, err)
	}
}

// The binary finds its cluster, and tells the result in both places.
func TestRunner(t *testing.T) {
	cp := testenv.Start(t)
	t.Setenv("KUBECONFIG", cp.Kubeconfig())
	c := testenv.Client(t, cp)
	point := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nights-web", Annotations: map[string]string{runner.AnnotationExecution: "e1"}}}
	if err := c.Create(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	message := filepath.Join(t.TempDir(), "message")
	getenv := func(name string) string { return map[string]string{runner.EnvTerminationMessage: message}[name] }
	task := runner.Task{Plan: "default/nights", Target: "web", Type: "none", Cycle: "c1", Execution: "e1", Attempt: 1, RestorePoint: "default/nights-web", Deadline: time.Minute}
	for operation, want := range map[v1alpha1.Operation]struct {
		code   int
		reason string
	}{
		v1alpha1.OperationWakeUp:   {0, ""},
		v1alpha1.OperationShutdown: {1, runner.ReasonInvalidParameters},
	} {
		task.Operation = operation
		if code := runRunner(t.Context(), task.Args(), getenv, io.Discard, io.Discard); code != want.code {
			t.Errorf("%s: it is %d", operation, code)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(point), point); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(message)
		if err != nil || string(content) != point.Data[runner.KeyResult] {
			t.Errorf("%s: told are %s and %s, %v", operation, content, point.Data[runner.KeyResult], err)
		}
		var result runner.Result
		if err := json.Unmarshal(content, &result); err != nil || result.Reason != want.reason || result.Completed != (want.code == 0) {
			t.Errorf("%s: it is %s, %v", operation, content, err)
		}
	}
}

// main1 is the environment variable by which the binary of the tests is that of the manager.
const main1 = "LABKEEPER_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(main1) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// A runner that is told to stop, as by a node that is drained, ends what it has in hand, and tells how far it has come, in both places.
func TestRunnerIsToldToStop(t *testing.T) {
	cp := testenv.Start(t)
	c := testenv.Client(t, cp)
	point := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nights-web", Annotations: map[string]string{runner.AnnotationExecution: "e1"}}}
	if err := c.Create(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	message := filepath.Join(t.TempDir(), "message")
	task := runner.Task{Operation: v1alpha1.OperationShutdown, Plan: "default/nights", Target: "web", Type: "noop", Cycle: "c1", Execution: "e1", Attempt: 1,
		RestorePoint: "default/nights-web", Deadline: time.Minute}
	command := exec.CommandContext(t.Context(), os.Args[0], append([]string{"runner"}, task.Args()...)...)
	command.Env = append(os.Environ(), main1+"=1", "KUBECONFIG="+cp.Kubeconfig(), runner.EnvTerminationMessage+"="+message, runner.EnvParameters+`={"resources": 60, "delaySeconds": 1}`)
	logs, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		if strings.Contains(lines.Text(), `"n":1,"of":60`) { // it is in the middle of it
			break
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, logs)
	_ = command.Wait() // what it has come to is its exit code
	if code := command.ProcessState.ExitCode(); code != 1 {
		t.Errorf("its exit code is %d", code)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(point), point); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(message)
	if err != nil || string(content) != point.Data[runner.KeyResult] {
		t.Errorf("told are %s and %s, %v", content, point.Data[runner.KeyResult], err)
	}
	var result runner.Result
	if err := json.Unmarshal(content, &result); err != nil || result.Reason != runner.ReasonInterrupted || result.Resources != 60 || result.Done > 5 {
		t.Errorf("it is %s, %v", content, err)
	}
}
