package runner

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// Args are the arguments of "manager runner" that [ParseTask] reads the task from. Parameters are not among them:
// everybody who may see a pod sees its arguments.
func (t Task) Args() []string {
	args := []string{
		"--operation=" + string(t.Operation),
		"--plan=" + t.Plan,
		"--target=" + t.Target,
		"--type=" + t.Type,
		"--cycle=" + t.Cycle,
		"--execution=" + t.Execution,
		"--attempt=" + strconv.Itoa(t.Attempt),
		"--restore-point=" + t.RestorePoint,
		"--deadline=" + t.Deadline.String(),
	}
	for part := range slices.Chunk(t.Namespaces, maxNamespaces) {
		args = append(args, "--namespaces="+strings.Join(part, ","))
	}
	if t.Kubeconfig != "" {
		args = append(args, "--kubeconfig="+t.Kubeconfig)
	}
	if t.Hub != "" {
		args = append(args, "--hub="+t.Hub)
	}
	return args
}

// maxNamespaces is how many are in one argument, of 63 bytes at most each: Linux starts no process with one of more than 128 KiB.
const maxNamespaces = 2000

// flags are those of "manager runner".
func flags(t *Task) *flag.FlagSet {
	fs := flag.NewFlagSet("manager runner", flag.ContinueOnError)
	fs.StringVar((*string)(&t.Operation), "operation", "", "What to do: Shutdown or WakeUp.")
	fs.StringVar(&t.Plan, "plan", "", "HibernatePlan of the target, as namespace/name.")
	fs.StringVar(&t.Target, "target", "", "Name of the target in the plan.")
	fs.StringVar(&t.Type, "type", "", "Type of the target.")
	fs.StringVar(&t.Cycle, "cycle", "", "Cycle of the plan, and its turn, by a name that no other has.")
	fs.StringVar(&t.Execution, "execution", "", "Name of the Job. The ConfigMap of the restore point must name it in the annotation "+AnnotationExecution+".")
	fs.IntVar(&t.Attempt, "attempt", 1, "Which attempt at the operation this is, from 1.")
	fs.Func("namespaces", "Comma-separated namespaces of the target, in one flag or in several. Default: it has none.", func(list string) error {
		if list != "" {
			t.Namespaces = append(t.Namespaces, strings.Split(list, ",")...)
		}
		return nil
	})
	fs.StringVar(&t.RestorePoint, "restore-point", "", "ConfigMap of the restore point, as namespace/name. It must exist.")
	fs.StringVar(&t.Kubeconfig, "kubeconfig", "", "File that reaches the cluster of the target, with a token or a client certificate in it. Default: the cluster of the restore point, which KUBECONFIG names outside of a cluster.")
	fs.StringVar(&t.Hub, "hub", "", "UID of Namespace kube-system in the cluster of the restore point, which --kubeconfig may reach, too.")
	fs.DurationVar(&t.Deadline, "deadline", 0, "How long to try, for instance 30m.")
	return fs
}

// Usage writes the flags, and what is read from the environment.
func Usage(w io.Writer) {
	fs := flags(&Task{})
	fs.SetOutput(w)
	fmt.Fprintf(w, "manager runner puts a target of a HibernatePlan to sleep, or wakes it. The manager starts it in Jobs.\n\n"+
		"%s: parameters of the target, as JSON.\n%s, %s: nodes that the runner and the manager are on; the latter is not put to sleep.\n"+
		"%s: namespace that the manager runs in, where nothing is put to sleep.\n%s: file of the result. Default: %s.\n"+
		"Exit code: 0 completed, 1 not completed, 2 mistaken flags.\n\n", EnvParameters, EnvNode, EnvManagerNode, EnvManagerNamespace, EnvTerminationMessage, TerminationMessage)
	fs.PrintDefaults()
}

// ParseTask reads the task from what Args gives and the parameters from the environment. Its error names the flag and
// what to write, and never repeats parameters; it is flag.ErrHelp if help is wanted.
func ParseTask(args []string, getenv func(string) string) (Task, error) {
	var t Task
	fs := flags(&t)
	fs.SetOutput(io.Discard) // the error says it, once
	if err := fs.Parse(args); err != nil {
		return Task{}, err
	}
	if fs.NArg() > 0 {
		return Task{}, fmt.Errorf("unknown argument %q: the runner takes only flags", fs.Arg(0))
	}
	if parameters := getenv(EnvParameters); parameters != "" {
		t.Parameters = json.RawMessage(parameters)
	}
	t.Node, t.ManagerNode, t.ManagerNamespace = getenv(EnvNode), getenv(EnvManagerNode), getenv(EnvManagerNamespace)
	if err := t.check(); err != nil {
		return Task{}, err
	}
	return t, nil
}

// check refuses what could only fail later.
func (t Task) check() error {
	if t.Operation != v1alpha1.OperationShutdown && t.Operation != v1alpha1.OperationWakeUp {
		return fmt.Errorf("--operation: %q is none; write Shutdown or WakeUp", t.Operation)
	}
	for _, f := range []struct{ flag, value string }{
		{"target", t.Target}, {"type", t.Type}, {"cycle", t.Cycle}, {"execution", t.Execution},
	} {
		if f.value == "" {
			return fmt.Errorf("--%s: it must not be empty", f.flag)
		}
	}
	for _, f := range []struct{ flag, value string }{{"plan", t.Plan}, {"restore-point", t.RestorePoint}} {
		if namespace, name, _ := strings.Cut(f.value, "/"); namespace == "" || name == "" || strings.Contains(name, "/") {
			return fmt.Errorf("--%s: %q is not namespace/name", f.flag, f.value)
		}
	}
	if t.Attempt < 1 {
		return fmt.Errorf("--attempt: %d is less than 1", t.Attempt)
	}
	if t.Deadline < time.Second {
		return fmt.Errorf("--deadline: %s is too short; write at least 1s", t.Deadline)
	}
	if i := slices.IndexFunc(t.Namespaces, func(n string) bool { return len(validation.IsDNS1123Label(n)) > 0 }); i >= 0 {
		return fmt.Errorf("--namespaces: %q is not a namespace's name; write a,b", t.Namespaces[i])
	}
	if t.Parameters != nil && !json.Valid(t.Parameters) {
		return errors.New("$" + EnvParameters + ": it is not JSON")
	}
	return nil
}
