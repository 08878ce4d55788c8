package integration_test

import (
	"cmp"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// newStage is a fresh namespace in which the outsides do not take the held steps. What is in
// it is taken down when the node it is called in ends.
func (l *lab) newStage(holds ...hold) *stage {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "lab-"}}
	Expect(l.client.Create(background(), namespace)).To(Succeed())
	s := &stage{lab: l, namespace: namespace.Name, kubeconfig: kubeconfig(""), held: map[hold]bool{}}
	s.hold(holds...)
	l.world.mu.Lock()
	l.world.stages[s.namespace] = s
	l.world.mu.Unlock()
	DeferCleanup(func() {
		s.release()
		Expect(s.client.DeleteAllOf(background(), &v1alpha1.Experiment{}, client.InNamespace(s.namespace))).To(Succeed())
	})
	return s
}

// create creates an Experiment and returns it with its UID.
func (s *stage) create(e *v1alpha1.Experiment) *v1alpha1.Experiment {
	GinkgoHelper()
	e.Namespace = s.namespace
	Expect(s.client.Create(background(), e)).To(Succeed())
	return e
}

// get reads an Experiment now.
func (s *stage) get(e *v1alpha1.Experiment) *v1alpha1.Experiment {
	GinkgoHelper()
	now := &v1alpha1.Experiment{}
	Expect(s.client.Get(background(), client.ObjectKeyFromObject(e), now)).To(Succeed())
	return now
}

// edit changes an Experiment as a person does.
func (s *stage) edit(e *v1alpha1.Experiment, change func(*v1alpha1.Experiment)) error {
	before := s.get(e)
	after := before.DeepCopy()
	change(after)
	return s.client.Patch(background(), after, client.MergeFrom(before))
}

// reaches waits for a phase.
func (s *stage) reaches(e *v1alpha1.Experiment, phase v1alpha1.Phase) *v1alpha1.Experiment {
	GinkgoHelper()
	var now *v1alpha1.Experiment
	Eventually(func(g Gomega) {
		now = s.get(e)
		g.Expect(now.Status.Phase).To(Equal(phase), "conditions: %s", said(now))
	}).Should(Succeed())
	return now
}

// says waits until a condition is False, or for the reasons of success True, with a reason
// and a message that has these words.
func (s *stage) says(e *v1alpha1.Experiment, conditionType, reason string, words ...string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now := s.get(e)
		c := meta.FindStatusCondition(now.Status.Conditions, conditionType)
		g.Expect(c).NotTo(BeNil(), "no condition %s", conditionType)
		g.Expect(c.Reason).To(Equal(reason), "conditions: %s", said(now))
		g.Expect(c.ObservedGeneration).To(Equal(now.Generation))
		for _, word := range words {
			g.Expect(c.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
}

func said(e *v1alpha1.Experiment) string {
	var out string
	for _, c := range e.Status.Conditions {
		out += fmt.Sprintf("\n  %s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message)
	}
	return out
}

// gone waits until the Experiment is.
func (s *stage) gone(e *v1alpha1.Experiment) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		now := &v1alpha1.Experiment{}
		err := s.client.Get(background(), client.ObjectKeyFromObject(e), now)
		g.Expect(client.IgnoreNotFound(err)).To(Succeed())
		g.Expect(err != nil || now.UID != e.UID).To(BeTrue(), "it is still there: %s", said(now))
	}).Should(Succeed())
}

// delete asks for the deletion.
func (s *stage) delete(e *v1alpha1.Experiment) {
	GinkgoHelper()
	Expect(s.client.Delete(background(), e)).To(Succeed())
}

// The names of an Experiment's children, as documented: hashes of the UID and the target.

func (s *stage) claim(e *v1alpha1.Experiment, target string) types.NamespacedName {
	return types.NamespacedName{Namespace: e.Namespace, Name: kube.ChildName(29, e.UID, e.Name, target)}
}

func (s *stage) application(e *v1alpha1.Experiment, target string) types.NamespacedName {
	return types.NamespacedName{Namespace: argoCDNamespace, Name: kube.ChildName(53, e.UID, e.Name, target)}
}

func (s *stage) clusterSecret(e *v1alpha1.Experiment, target string) types.NamespacedName {
	return types.NamespacedName{Namespace: argoCDNamespace, Name: "cluster-" + s.claim(e, target).Name}
}

func (s *stage) workflow(e *v1alpha1.Experiment) types.NamespacedName {
	return types.NamespacedName{Namespace: workflowNamespace, Name: kube.ChildName(63, e.UID, e.Name, "validation")}
}

// object reads an outside object now.
func (s *stage) object(resource schema.GroupVersionResource, key types.NamespacedName) *unstructured.Unstructured {
	GinkgoHelper()
	u, err := s.dynamic.Resource(resource).Namespace(key.Namespace).Get(background(), key.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return u
}

// exists waits until an outside object does.
func (s *stage) exists(resource schema.GroupVersionResource, key types.NamespacedName) {
	GinkgoHelper()
	Eventually(func() error {
		_, err := s.dynamic.Resource(resource).Namespace(key.Namespace).Get(background(), key.Name, metav1.GetOptions{})
		return err
	}).Should(Succeed())
}

// say lets an outside write a status, once its object is there.
func (s *stage) say(resource schema.GroupVersionResource, key types.NamespacedName, status func(*unstructured.Unstructured) map[string]any, subresource ...string) {
	GinkgoHelper()
	s.exists(resource, key)
	Eventually(func() error {
		u := s.object(resource, key)
		return s.patch(resource, u, map[string]any{"status": status(u)}, subresource...)
	}).Should(Succeed())
}

// children are all objects with the Experiment's UID, in every namespace.
func (s *stage) children(e *v1alpha1.Experiment) []unstructured.Unstructured {
	GinkgoHelper()
	var all []unstructured.Unstructured
	for _, resource := range []schema.GroupVersionResource{claims, secrets, applications, workflows, namespaces} {
		list, err := s.dynamic.Resource(resource).List(background(), metav1.ListOptions{LabelSelector: v1alpha1.LabelExperimentUID + "=" + string(e.UID)})
		Expect(err).NotTo(HaveOccurred())
		all = append(all, list.Items...)
	}
	return all
}

// role says what a child is to its Experiment.
func role(u *unstructured.Unstructured) string {
	if target := u.GetLabels()[v1alpha1.LabelTarget]; target != "" {
		return u.GetKind() + " " + target
	}
	return u.GetKind()
}

// eventsOf are the events of the Experiment, the oldest first.
func (s *stage) eventsOf(e *v1alpha1.Experiment) []eventsv1.Event {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(s.client.List(background(), list, client.InNamespace(s.namespace))).To(Succeed())
	events := slices.DeleteFunc(list.Items, func(event eventsv1.Event) bool { return event.Regarding.UID != e.UID })
	slices.SortFunc(events, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	return events
}

// history is what happened to the objects of the stage, in order.
func (s *stage) history() []entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedStableFunc(slices.Values(s.journal), func(a, b entry) int { return cmp.Compare(a.version, b.version) })
}

// phases are those that the Experiment went through.
func (s *stage) phases(e *v1alpha1.Experiment) []v1alpha1.Phase {
	var phases []v1alpha1.Phase
	for _, entry := range s.history() {
		phase, found, _ := unstructured.NestedString(entry.object.Object, "status", "phase")
		if entry.object.GetUID() == e.UID && found {
			phases = append(phases, v1alpha1.Phase(phase))
		}
	}
	return slices.Compact(phases)
}

// wentThrough waits for the journal, which hears of the last phase later than whoever asks for it, to have these.
func (s *stage) wentThrough(e *v1alpha1.Experiment, phases ...v1alpha1.Phase) {
	GinkgoHelper()
	Eventually(func() []v1alpha1.Phase { return s.phases(e) }).Should(Equal(phases))
}

// life is the version at which an object appeared (created), at which its deletion was asked
// for (ending) and at which it was gone (ended); 0 for what has not happened.
func (s *stage) life(match func(*unstructured.Unstructured) bool) (created, ending, ended int64) {
	for _, entry := range s.history() {
		if !match(entry.object) {
			continue
		}
		if entry.verb == watch.Added {
			created = entry.version
		}
		if ending == 0 && (entry.object.GetDeletionTimestamp() != nil || entry.verb == watch.Deleted) {
			ending = entry.version
		}
		if entry.verb == watch.Deleted {
			ended = entry.version
		}
	}
	return created, ending, ended
}

// isChild matches the Experiment's child with a role.
func isChild(e *v1alpha1.Experiment, name string) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool {
		return u.GetLabels()[v1alpha1.LabelExperimentUID] == string(e.UID) && role(u) == name
	}
}

func isExperiment(e *v1alpha1.Experiment) func(*unstructured.Unstructured) bool {
	return func(u *unstructured.Unstructured) bool { return u.GetUID() == e.UID }
}

// hubNamespace is what a target of the Experiment has to itself on the hub.
func (s *stage) hubNamespace(e *v1alpha1.Experiment, target string) string {
	return kube.ChildName(63, e.UID, e.Name, target)
}

// registration is what Argo CD calls the cluster of a target.
func (s *stage) registration(e *v1alpha1.Experiment, target string) string {
	claim := s.object(claims, s.claim(e, target))
	return kube.ChildName(53, claim.GetUID(), claim.GetName())
}
