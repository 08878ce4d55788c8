package k8scluster

import (
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

const (
	// latest and soonest are when one that is Ready is asked again.
	latest, soonest = 10 * time.Minute, 8 * time.Minute
	// delay is how soon one is looked at again that is not: a server may be back at once, and so may a right to read its Secret.
	delay = time.Second
)

// interval is when one that is Ready is asked again: another time for each, and always the same.
func interval(uid types.UID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid))
	return soonest + time.Duration(h.Sum32()%uint32((latest-soonest)/time.Second))*time.Second
}

// fresh is how long what is known of a K8SCluster needs not be asked; 0 is that it must be now.
func fresh(c *v1alpha1.K8SCluster, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	last := c.Status.LastValidated
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != c.Generation || last == nil || now.Before(last.Time) {
		return 0
	}
	return max(0, last.Add(interval(c.UID)).Sub(now))
}

// again is when to look again at a K8SCluster of which this is the status.
func again(c *v1alpha1.K8SCluster, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	switch ready.Status {
	case metav1.ConditionTrue:
		return fresh(c, now)
	case metav1.ConditionUnknown:
		return 0 // only another spec changes that
	}
	return kube.Again(now.Sub(ready.LastTransitionTime.Time), delay)
}

// report writes into the status what the pass has seen. It is pure.
func report(s *scope, err error) {
	c, st := s.owner, &s.owner.Status
	if st.ObservedGeneration != c.Generation {
		st.LastValidated = nil // that was of another spec
	}
	step := readiness(s, err)
	conditions.Set(&st.Conditions, step, c.Generation, s.now)
	st.ObservedGeneration, st.ClusterType, st.Version = c.Generation, clusterType(c), s.seen.Version
	st.Ready, st.Message = step.Status == metav1.ConditionTrue, conditions.Line(step.Message)
	if st.Ready {
		at := metav1.NewTime(s.now.Truncate(time.Second))
		st.LastValidated = &at
	}
}

// readiness is the condition Ready.
func readiness(s *scope, err error) conditions.Step {
	switch {
	case err != nil:
		return conditions.False(v1alpha1.ConditionReady, kube.Reason(err), kube.Message(err))
	case s.seen.Refused != nil:
		return conditions.False(v1alpha1.ConditionReady, s.seen.Refused.Reason, s.seen.Refused.Message)
	case s.seen.Asked:
		return conditions.True(v1alpha1.ConditionReady, v1alpha1.ReasonValidated, "Its server answers and takes the credentials")
	}
	return conditions.Step{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNoChecker,
		Message: fmt.Sprintf("Nothing here can reach a cluster of type %s yet, so that a HibernatePlan with a target in it does not start; one by its kubeconfig (spec.k8s) can be used", clusterType(s.owner)),
	}
}

func clusterType(c *v1alpha1.K8SCluster) string {
	switch {
	case c.Spec.EKS != nil:
		return "eks"
	case c.Spec.GKE != nil:
		return "gke"
	}
	return "k8s"
}

// happened are the events between two statuses.
func happened(before, after *v1alpha1.K8SCluster) (out []kube.Event) {
	for _, c := range conditions.Changed(before.Status.Conditions, after.Status.Conditions) {
		kind := corev1.EventTypeNormal
		if c.Status == metav1.ConditionFalse {
			kind = corev1.EventTypeWarning
		}
		out = append(out, kube.Event{Type: kind, Reason: c.Reason, Message: c.Message})
	}
	return out
}
