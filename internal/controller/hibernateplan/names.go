package hibernateplan

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

const (
	// maxName leaves room for what a Job's controller appends for its pods.
	maxName  = 57
	maxLabel = 63
)

// names are those of what a plan makes, all of it in the manager's namespace.
type names struct {
	namespace string
	plan      *v1alpha1.HibernatePlan
	cycle     *v1alpha1.Cycle
	// secret says whether a target is reached by credentials of a connector; nil is that none is.
	secret map[string]bool
	// namespaces of the targets in the manager's own cluster.
	namespaces map[string][]string
}

func (n names) in(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: n.namespace, Name: name}
}

// job is that of an attempt: the same whoever asks, and another for each. What the Job needs has its name, too.
func (n names) job(e *execution) types.NamespacedName {
	return n.in(kube.ChildName(maxName, n.plan.UID, n.plan.Name, e.Target, fmt.Sprint(n.cycle.ID), fmt.Sprint(n.cycle.Turn),
		strings.ToLower(string(e.Operation)), fmt.Sprint(e.Attempts)))
}

// point is the restore point of a target. It goes by names, and not by the UID of the plan: a plan that was deleted and
// created again must find it.
func (n names) point(target string) types.NamespacedName {
	return n.in(kube.ChildName(maxLabel, types.UID(n.plan.Namespace+"/"+n.plan.Name), "restore", n.plan.Name, target))
}

// role is that of a target, which lets its runners write its restore point.
func (n names) role(target string) types.NamespacedName {
	return n.in(kube.ChildName(maxLabel, n.plan.UID, "runner", n.plan.Name, target))
}

// log is where the logs of a target are kept.
func (n names) log(target string) types.NamespacedName {
	return n.in(kube.ChildName(maxLabel, n.plan.UID, "log", n.plan.Name, target))
}

// revision is the plan as a cycle began with it.
func (n names) revision(cycle int64) types.NamespacedName {
	return n.in(kube.ChildName(maxLabel, n.plan.UID, "cycle", n.plan.Name, fmt.Sprint(cycle)))
}

func (n names) credentials(target string) bool { return n.secret[target] }

// keyLabel is the label by which the restore points of a plan are found, whatever its UID.
func keyLabel(plan types.NamespacedName) string {
	return kube.LabelValue(plan.Namespace + "." + plan.Name)
}

// split reads a list that join has written; an empty text is an empty list.
func split(list string) []string {
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func join(list []string) string { return strings.Join(list, ",") }
