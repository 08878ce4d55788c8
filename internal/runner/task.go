package runner

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// Task is what a runner is told to do: the flags of "manager runner", and the environment of its pod.
type Task struct {
	// Operation to carry out.
	Operation v1alpha1.Operation
	// Plan as namespace/name, and Target by its name.
	Plan, Target string
	// Type is the executor.
	Type string
	// Cycle of the plan, and its turn, by a name that no other has, be it of another plan of this name: between two turns to sleep
	// there was a day, whether or not anything was woken in it.
	Cycle string
	// Execution is the name of the Job. It is the fence: the ConfigMap of the restore point carries the one that may
	// write to it (AnnotationExecution), and a runner that another has taken over from writes nothing any more.
	Execution string
	// Attempt at the operation, from 1.
	Attempt int
	// Namespaces of the target.
	Namespaces []string
	// RestorePoint is the ConfigMap of the restore point as namespace/name.
	RestorePoint string
	// Kubeconfig is the path of a file that reaches the cluster of the target; empty is the runner's own.
	Kubeconfig string
	// Hub is the UID of Namespace kube-system in the manager's own cluster, which Kubeconfig may reach, too. Empty: only
	// what is reached without a kubeconfig is known to be that cluster.
	Hub string
	// ManagerNode is the name of the node that the manager is on, which is not put to sleep, and Node of the one that the runner is on;
	// empty is none that is known.
	ManagerNode, Node string
	// ManagerNamespace is the one that the manager runs in, where nothing is put to sleep, nor in that of RestorePoint; empty is none
	// that is known.
	ManagerNamespace string
	// Deadline after which it gives up, keeps what it knows and says what is missing.
	Deadline time.Duration
	// Parameters of the target: JSON, in the environment (EnvParameters).
	Parameters json.RawMessage
}

const (
	// EnvParameters is the environment variable with the parameters of the target.
	EnvParameters = "LABKEEPER_PARAMETERS"
	// MaxParameters is how many bytes fit into it: Linux starts no process with a variable of more than 128 KiB, its name,
	// the = and the end included.
	MaxParameters = 128<<10 - len(EnvParameters) - 2
	// EnvNode is the environment variable with the name of the node that the runner is on.
	EnvNode = "LABKEEPER_NODE"
	// EnvManagerNode is that of the node that the manager is on: no flag, which a runner of another version would not take.
	EnvManagerNode = "LABKEEPER_MANAGER_NODE"
	// EnvManagerNamespace is that of the namespace that the manager runs in: no flag either, and an older manager does not set it.
	EnvManagerNamespace = "LABKEEPER_MANAGER_NAMESPACE"
	// AnnotationExecution of the ConfigMap of a restore point is the execution that may write to it.
	AnnotationExecution = "hibernator.ardikabs.com/execution"
	// KeyPoint is the key in binaryData of the restore point (internal/restore). A ConfigMap without it is that of a
	// target of which nothing was ever changed.
	KeyPoint = "point"
	// KeyResult is the key in data of the Result.
	KeyResult = "result"
	// TerminationMessage is the file that a pod's termination message is read from.
	TerminationMessage = "/dev/termination-log"
	// EnvTerminationMessage is the environment variable with another path of that file.
	EnvTerminationMessage = "LABKEEPER_TERMINATION_MESSAGE"
)

// Result is what came of a task: JSON of at most 4 KiB, in the ConfigMap of the restore point and in the termination
// message of the pod.
type Result struct {
	// Execution that it is the result of.
	Execution string             `json:"execution"`
	Operation v1alpha1.Operation `json:"operation"`
	// Completed says that everything is as the operation wants it. A Result that is not Completed may be tried again.
	Completed bool `json:"completed"`
	// Reason in CamelCase why it is not: Interrupted, DeadlineExceeded, InvalidParameters, RestorePointLost,
	// RestorePointTooLarge, Superseded, OtherCluster, Forbidden, NotSettled, Failed.
	Reason string `json:"reason,omitempty"`
	// Message for people.
	Message string `json:"message,omitempty"`
	// Resources of the target, and Done of them.
	Resources int `json:"resources"`
	Done      int `json:"done"`
	// Left are those that a wake-up left as somebody else has made them, with why; cut where there are many.
	Left []string `json:"left,omitempty"`
	// LeftCount is how many there are of them; Encode counts them before it cuts.
	LeftCount int `json:"leftCount,omitempty"`
	// FinishedAt is when.
	FinishedAt metav1.Time `json:"finishedAt"`
}
