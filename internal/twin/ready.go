package twin

import (
	"cmp"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/conditions"
)

// Health is how a twin is.
type Health int

const (
	// Progressing: its controller is on its way.
	Progressing Health = iota
	// Ready: every pod that is wanted is there, new, and available.
	Ready
	// Degraded: its controller says that it cannot.
	Degraded
)

// State is what the status of a twin says.
type State struct {
	Health Health
	// Reason in CamelCase, and Message; what a controller says in its own words where it does.
	Reason, Message string
	// Replicas that there are, and how many of them are ready.
	Replicas, ReadyReplicas int64
	// PodsReady: as many pods as are wanted are there, of whatever version, and all that there are are ready, if not for their
	// minReadySeconds yet.
	PodsReady bool
	// Empty: its controller has seen it, made no pod of it yet, and has nothing else to say.
	Empty bool
}

// Reasons of states.
const (
	ReasonReady        = "TwinReady"
	ReasonScaledToZero = "ScaledToZero"
	ReasonProgressing  = "TwinProgressing"
	ReasonNotObserved  = "NotObserved"
	// ReasonPodsRefused: an admission, a quota or a policy refuses its pods (p12).
	ReasonPodsRefused = "PodsRefused"
	// ReasonStuck: it takes longer than its progressDeadlineSeconds; a StatefulSet, which has none, than spec.onUnready says.
	ReasonStuck = "ProgressDeadlineExceeded"
	// ReasonPaused: a Rollout waits for somebody.
	ReasonPaused = "TwinPaused"
	// ReasonDegraded: a Rollout is Degraded.
	ReasonDegraded = "TwinDegraded"
	// ReasonInvalidSpec: the controller of Rollouts refuses the spec, which the API server does not know better (r14).
	ReasonInvalidSpec = "InvalidSpec"
)

// Read is how a twin is by its own status (c8).
func Read(twin *unstructured.Unstructured) State {
	count := func(field string) int64 {
		n, _, _ := unstructured.NestedInt64(twin.Object, "status", field)
		return n
	}
	wanted, said, _ := unstructured.NestedInt64(twin.Object, "spec", "replicas")
	if !said {
		wanted = 1 // which the API server says, too
	}
	s := State{Replicas: count("replicas"), ReadyReplicas: count("readyReplicas"), Health: Progressing, Reason: ReasonProgressing}
	s.Message = fmt.Sprintf("%d of %d pods are new, and %d are available", count("updatedReplicas"), wanted, count("availableReplicas"))
	if observed(twin) < twin.GetGeneration() {
		s.Reason, s.Message = ReasonNotObserved, "Its controller has not seen it yet"
		return s
	}
	s.PodsReady = s.Replicas >= wanted && s.ReadyReplicas == s.Replicas
	if refused, message := condition(twin, "ReplicaFailure", "True"); refused {
		s.Health, s.Reason, s.Message = Degraded, ReasonPodsRefused, cmp.Or(message, "Its pods are refused")
		return s
	}
	settled := count("updatedReplicas") == wanted && count("availableReplicas") == wanted && s.Replicas == wanted
	switch twin.GetKind() {
	case "Rollout":
		return s.ofRollout(twin, wanted)
	case "StatefulSet":
		settled = count("availableReplicas") == wanted && s.Replicas == wanted && upToDate(twin, wanted)
		if s.Replicas < wanted {
			s.Message += WithoutPods(twin)
		}
	default:
		if stuck, message := condition(twin, "Progressing", "False"); stuck {
			s.Health, s.Reason, s.Message = Degraded, ReasonStuck, cmp.Or(message, s.Message)
		}
	}
	if settled {
		return s.ready(wanted)
	}
	s.Empty = s.Health == Progressing && s.Replicas == 0
	return s
}

// WithoutPods is where to look if the pods do not come that a twin is to have: Kubernetes does not say in the status of a StatefulSet
// that they are refused, nor does that of a Rollout without its controller. It is empty where the status says all.
func WithoutPods(twin *unstructured.Unstructured) string {
	at := twin.GetNamespace() + " " + twin.GetName()
	switch kind := twin.GetKind(); {
	case !HasPods(twin):
	case kind == "StatefulSet":
		return "; where pods do not come, kubectl describe statefulset -n " + at + " says why"
	case kind == "Rollout":
		return "; where pods do not come, look whether Argo Rollouts runs, and at kubectl describe rollout -n " + at
	}
	return ""
}

// upToDate says whether as many pods of a StatefulSet are new as its updateStrategy lets be by itself.
func upToDate(twin *unstructured.Unstructured, wanted int64) bool {
	strategy, _, _ := unstructured.NestedString(twin.Object, "spec", "updateStrategy", "type")
	partition, _, _ := unstructured.NestedInt64(twin.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	current, _, _ := unstructured.NestedString(twin.Object, "status", "currentRevision")
	update, _, _ := unstructured.NestedString(twin.Object, "status", "updateRevision")
	if partition > 0 {
		updated, _, _ := unstructured.NestedInt64(twin.Object, "status", "updatedReplicas")
		return current == update || updated >= wanted-partition
	}
	return current == update || strategy == "OnDelete"
}

func (s State) ready(wanted int64) State {
	s.Health, s.Reason, s.Message = Ready, ReasonReady, fmt.Sprintf("%d of %d pods are ready", wanted, wanted)
	if wanted == 0 {
		s.Reason, s.Message = ReasonScaledToZero, "No pods are wanted"
	}
	return s
}

// ofRollout reads the phase that Argo Rollouts gives (r11).
func (s State) ofRollout(twin *unstructured.Unstructured, wanted int64) State {
	if wrong, message := condition(twin, "InvalidSpec", "True"); wrong {
		s.Health, s.Reason, s.Message = Degraded, ReasonInvalidSpec, cmp.Or(message, "Argo Rollouts refuses the spec")
		return s
	}
	phase, _, _ := unstructured.NestedString(twin.Object, "status", "phase")
	message, _, _ := unstructured.NestedString(twin.Object, "status", "message")
	message = cmp.Or(message, s.Message)
	switch phase {
	case "Healthy":
		return s.ready(wanted)
	case "Degraded":
		s.Health, s.Reason, s.Message = Degraded, ReasonDegraded, message
	case "Paused":
		s.Reason, s.Message = ReasonPaused, message
	}
	return s
}

// observed is the generation that the status speaks of: a string in a Rollout's, where it may also be a hash of
// long ago, which is none.
func observed(twin *unstructured.Unstructured) int64 {
	value, _, _ := unstructured.NestedFieldNoCopy(twin.Object, "status", "observedGeneration")
	switch v := value.(type) {
	case int64:
		return v
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		if err == nil {
			return n
		}
	}
	return 0
}

// condition says whether the status has a condition, and what that says.
func condition(twin *unstructured.Unstructured, conditionType, status string) (bool, string) {
	c := conditions.Of(twin, conditionType)
	message, _ := c["message"].(string)
	return c["status"] == status, message
}
