package workloadscaler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/labkeeper/labkeeper/internal/executor/cluster"
)

// group is an item of includedGroups: a kind by its resource, or by kind and group, then without a version.
type group struct {
	gvr  schema.GroupVersionResource
	kind schema.GroupKind
}

// field of a kind that puts its objects to sleep.
type field struct {
	// path of what is kept and brought back.
	path []string
	// within is what of it is set, to asleep.
	within []string
	asleep any
}

var (
	replicas = field{path: []string{"spec", "replicas"}, asleep: int64(0)}
	suspend  = field{path: []string{"spec", "suspend"}, asleep: true}
	paused   = field{path: []string{"metadata", "annotations", "autoscaling.keda.sh/paused-replicas"}, asleep: "0"}
	scaleUp  = field{path: []string{"spec", "behavior"}, within: []string{"scaleUp", "selectPolicy"}, asleep: "Disabled"}
)

// kind is how the objects of one are read and written.
type kind struct {
	gvr schema.GroupVersionResource
	// name of it, without the group; empty until an object is seen.
	name  string
	field field
	// scaled: the field is how many pods there are, and written by subresource scale.
	scaled bool
	// patched: it is written by a patch all the same. Of a CRD nobody tells who has written by subresource scale.
	patched bool
	// foreign: where replicas are is known to subresource scale alone.
	foreign bool
}

// is says whether a kind is written so, with its group or without.
func (k kind) is(text string) bool {
	return text == k.name || text == k.name+"."+cmp.Or(k.gvr.Group, core)
}

// applied says whether 0 replicas are applied to its subresource scale, which runners of before may not patch.
func (k kind) applied() bool { return k.scaled && !k.patched && !k.foreign }

var (
	apps          = schema.GroupVersion{Group: "apps", Version: "v1"}
	deployments   = kind{gvr: apps.WithResource("deployments"), name: "Deployment", field: replicas, scaled: true}
	statefulSets  = kind{gvr: apps.WithResource("statefulsets"), name: "StatefulSet", field: replicas, scaled: true}
	replicaSets   = kind{gvr: apps.WithResource("replicasets"), name: "ReplicaSet", field: replicas, scaled: true}
	rollouts      = kind{gvr: schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}, name: "Rollout", field: replicas, scaled: true, patched: true}
	cronJobs      = kind{gvr: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "cronjobs"}, name: "CronJob", field: suspend}
	scaledObjects = kind{gvr: schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}, name: "ScaledObject", field: paused}
	autoscalers   = kind{gvr: schema.GroupVersionResource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}, name: "HorizontalPodAutoscaler", field: scaleUp}

	// named are those that includedGroups names by their kinds.
	named = []kind{deployments, statefulSets, replicaSets, rollouts, cronJobs}
	// implied are looked after with their workloads.
	implied = []kind{scaledObjects, autoscalers}
)

// known is the kind of a resource, whatever the version.
func known(gvr schema.GroupVersionResource) kind {
	for _, k := range slices.Concat(named, implied) {
		if k.gvr.GroupResource() == gvr.GroupResource() {
			return k
		}
	}
	return kind{gvr: gvr, field: replicas, scaled: true, foreign: true}
}

// parseGroup reads an item of includedGroups, or says what is wrong with it.
func parseGroup(text string) (g group, problem string) {
	for _, k := range implied {
		if k.is(text) || parseResource(text).GroupResource() == k.gvr.GroupResource() {
			return group{}, fmt.Sprintf("a %s is looked after with its workload; remove it", k.name)
		}
	}
	for _, k := range slices.Concat(named, []kind{replicationControllers}) {
		if k.is(text) {
			return group{gvr: k.gvr}, ""
		}
	}
	if parts := strings.Split(text, "/"); len(parts) == 3 && parts[1] != "" && parts[2] != "" {
		return group{gvr: known(parseResource(text)).gvr}, ""
	}
	if name, in, found := strings.Cut(text, "."); found && name != "" && in != "" && !strings.Contains(text, "/") {
		return group{kind: schema.GroupKind{Group: in, Kind: name}}, ""
	}
	return group{}, fmt.Sprintf("%q is none of Deployment, StatefulSet, ReplicaSet, ReplicationController, CronJob and Rollout; write another as Kind.group or group/version/resource", text)
}

// unscalable is why what an item of includedGroups names can be scaled in no cluster; empty if it may.
func unscalable(text string) string {
	g, problem := parseGroup(text)
	if problem != "" {
		return "" // it cannot be read at all
	}
	in, resource := g.kind.Group, g.gvr.Resource
	if resource != "" {
		in = g.gvr.Group
	}
	switch {
	case resource != strings.ToLower(resource):
		return fmt.Sprintf("%q names no resource, which is plural and in lower case, as in apps/v1/deployments; write that, or Kind.group", text)
	case resource == "" && !unicode.IsUpper(rune(g.kind.Kind[0])):
		return fmt.Sprintf("%q names no kind, which begins with a capital letter, as in Deployment.apps; write that, or group/version/resource", text)
	case slices.Contains(builtIn, in) && known(g.gvr).name == "" && resource != replicationControllers.gvr.Resource:
		return fmt.Sprintf("%q cannot be scaled; remove it", text)
	}
	return ""
}

// builtIn are the groups of which all is known that can be scaled: what is named, and replicationControllers.
var builtIn = []string{"", core, apps.Group, cronJobs.gvr.Group}

// replicationControllers are named like others, though their group has no name, and are scaled as kinds are of which nothing is known.
var replicationControllers = kind{gvr: schema.GroupVersionResource{Version: "v1", Resource: "replicationcontrollers"}, name: "ReplicationController"}

// core is how the group without a name is written.
const core = "core"

// parseResource reads group/version/resource.
func parseResource(text string) schema.GroupVersionResource {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) != 3 {
		return schema.GroupVersionResource{}
	}
	if parts[0] == core {
		parts[0] = ""
	}
	return schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]}
}

func resourceText(gvr schema.GroupVersionResource) string {
	return cmp.Or(gvr.Group, core) + "/" + gvr.Version + "/" + gvr.Resource
}

// resolve finds the resource of a kind that is written by kind and group, in the version that the cluster prefers.
func resolve(g group, server discovery.DiscoveryInterface) (kind, error) {
	if g.gvr.Resource != "" {
		return known(g.gvr), nil
	}
	gvr, served, err := cluster.Find(g.kind, server)
	if err == nil && !served {
		err = errors.New("the cluster does not serve it; install it, or remove it from includedGroups")
	}
	if err != nil {
		return kind{}, fmt.Errorf("finding kind %s: %w", g.kind, err)
	}
	return known(gvr), nil
}

// read is the value of a field in an object; nil where there is none.
func (f field) read(object *unstructured.Unstructured) any {
	value, _, _ := unstructured.NestedFieldNoCopy(object.Object, f.path...)
	return value
}

// isAsleep says whether a value is the one that sleeping gives.
func (f field) isAsleep(value any) bool {
	return equal(encode(f.by(value)), encode(f.asleep))
}

// by is what of a value puts to sleep; nil where there is none.
func (f field) by(value any) any {
	if len(f.within) > 0 {
		of, _ := value.(map[string]any)
		value, _, _ = unstructured.NestedFieldNoCopy(of, f.within...)
	}
	return value
}

// set is the merge patch that gives the field a value; nil takes it away.
func (f field) set(value any) map[string]any { return nest(value, f.path...) }

// sleep is the merge patch that puts an object to sleep.
func (f field) sleep() map[string]any { return nest(f.asleep, slices.Concat(f.path, f.within)...) }

func nest(value any, path ...string) map[string]any {
	for _, key := range slices.Backward(path[1:]) {
		value = map[string]any{key: value}
	}
	return map[string]any{path[0]: value}
}
