package integration_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

var components = v1alpha1.GroupVersion.WithResource("components")

// atOnce does something n times, as fast as 16 users can.
func atOnce(n int, do func(i int) error) {
	GinkgoHelper()
	var group errgroup.Group
	group.SetLimit(16)
	for i := range n {
		group.Go(func() error { return do(i) })
	}
	Expect(group.Wait()).To(Succeed())
}

// The shared manager has several workers for each kind.
var _ = Describe("Several workers", func() {
	It("count who names which Component, and let none go that is named", func(ctx SpecContext) {
		s := hub.newStage()
		const n = 40
		of := client.MatchingLabels{"run": s.namespace}
		name := func(k int) string { return fmt.Sprintf("%s-%d", s.namespace, k%n) }
		component := func(k int) *v1alpha1.Component {
			return &v1alpha1.Component{
				ObjectMeta: metav1.ObjectMeta{Name: name(k), Labels: of},
				Spec: v1alpha1.ComponentSpec{Type: v1alpha1.ComponentApp, Sources: []v1alpha1.ComponentSource{
					{RepoURL: "https://charts.example.com", Chart: "used", TargetRevision: "1.0.0"},
				}},
			}
		}
		// Nothing of these Experiments is begun.
		user := func(i int, names ...string) *v1alpha1.Experiment {
			t := target("app", v1alpha1.ClusterHub, "", nil)
			t.Components = nil
			for _, app := range slices.Compact(slices.Sorted(slices.Values(names))) {
				t.Components = append(t.Components, v1alpha1.ComponentRef{App: app})
			}
			e := experiment(fmt.Sprintf("user-%d", i), t)
			e.Namespace, e.Spec.Suspend = s.namespace, true
			return e
		}
		DeferCleanup(func(ctx SpecContext) { Expect(hub.client.DeleteAllOf(ctx, &v1alpha1.Component{}, of)).To(Succeed()) })
		atOnce(2*n, func(i int) error {
			if i%2 == 0 {
				return hub.client.Create(ctx, component(i/2))
			}
			return hub.client.Create(ctx, user(i/2, name(i/2), name(3*i/2)))
		})
		s.countsUsers(ctx, of)

		By("naming others while those go that are named no more, but for one that is")
		const kept = 4
		going := func(k int) bool { return k%4 == 0 }
		renamed := func(k int) string {
			if going(k) && k%n != kept {
				k++
			}
			return name(k)
		}
		gone, err := hub.dynamic.Resource(components).Watch(ctx, metav1.ListOptions{LabelSelector: labels.Set(of).String()})
		Expect(err).NotTo(HaveOccurred())
		defer gone.Stop()
		atOnce(2*n, func(i int) error {
			if i%2 == 0 && going(i/2) {
				return hub.client.Delete(ctx, component(i/2))
			}
			if i%2 == 0 {
				return nil
			}
			after := user(i/2, renamed(i/2), renamed(5*(i/2)))
			before := user(i / 2)
			before.Spec.Targets = nil
			return hub.client.Patch(ctx, after, client.MergeFrom(before))
		})
		Eventually(func(g Gomega) {
			var left v1alpha1.ComponentList
			g.Expect(hub.client.List(ctx, &left, of)).To(Succeed())
			g.Expect(left.Items).To(HaveLen(n - n/4 + 1))
		}).Should(Succeed())
		s.countsUsers(ctx, of)
		Expect(s.wentWhileNamed(gone, n/4-1)).To(BeEmpty())

		By("costing nothing any more")
		from := time.Now()
		Consistently(func() (asked []string) {
			for _, r := range hub.requests(from, time.Now()) {
				// Those of the specs before are counted a second after their Experiments go.
				if r.Resource == "components" && r.Verb != "watch" && (r.Name == "" || strings.HasPrefix(r.Name, s.namespace)) {
					asked = append(asked, r.Verb+" "+r.Name)
				}
			}
			return asked
		}).WithTimeout(2 * time.Second).WithPolling(500 * time.Millisecond).Should(BeEmpty())
	})

	It("agree which of too many ScheduleExceptions count", func(ctx SpecContext) {
		d := newDormitory(ctx)
		d.plan(ctx, `
metadata: {name: night}
spec:
  schedule: {timezone: UTC, offHours: [{startCron: "0 0 29 2 *", endCron: "1 0 29 2 *"}]}
  execution: {strategy: {type: Sequential}}
  targets: [{name: a, type: noop}]
`)
		const counting, n = 100, 160
		begins := time.Now().Add(100 * 24 * time.Hour).Truncate(time.Second)
		// Each that comes later goes before those that are there already.
		exception := func(i int) *hibernator.ScheduleException {
			return &hibernator.ScheduleException{
				ObjectMeta: metav1.ObjectMeta{Namespace: d.namespace, Name: fmt.Sprintf("e-%d", i)},
				Spec: hibernator.ScheduleExceptionSpec{
					PlanRef: hibernator.PlanRef{Name: "night"}, Type: hibernator.ExceptionSuspend,
					ValidFrom: metav1.NewTime(begins.Add(-time.Duration(i) * time.Hour)), ValidUntil: metav1.NewTime(begins.Add(time.Hour)),
				},
			}
		}
		agreed := func(left int) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				var all hibernator.ScheduleExceptionList
				g.Expect(d.client.List(ctx, &all, client.InNamespace(d.namespace))).To(Succeed())
				g.Expect(all.Items).To(HaveLen(left))
				slices.SortFunc(all.Items, func(a, b hibernator.ScheduleException) int {
					return cmp.Or(a.Spec.ValidFrom.Compare(b.Spec.ValidFrom.Time), cmp.Compare(a.Name, b.Name))
				})
				var wrong []string
				for i, e := range all.Items {
					want := hibernator.ExceptionPending
					if i >= counting {
						want = hibernator.ExceptionUncounted
					}
					if e.Status.State != want {
						wrong = append(wrong, fmt.Sprintf("%s, the %d. of all, is %q", e.Name, i+1, e.Status.State))
					}
				}
				g.Expect(wrong).To(BeEmpty())
			}).Should(Succeed())
		}
		atOnce(n, func(i int) error { return d.client.Create(ctx, exception(i)) })
		agreed(n)
		By("going, the first of them")
		atOnce(n/2, func(i int) error { return d.client.Delete(ctx, exception(n-1-i)) })
		agreed(n - n/2)
	})
})

// countsUsers waits until each Component says by how many Experiments of the stage it is named.
func (s *stage) countsUsers(ctx context.Context, of client.ListOption) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		var all v1alpha1.ComponentList
		var users v1alpha1.ExperimentList
		g.Expect(s.client.List(ctx, &all, of)).To(Succeed())
		g.Expect(s.client.List(ctx, &users, client.InNamespace(s.namespace))).To(Succeed())
		named := map[string]int32{}
		for _, e := range users.Items {
			for _, ref := range e.Spec.Targets[0].Components {
				named[ref.App]++
			}
		}
		for _, c := range all.Items {
			ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(ready).NotTo(BeNil(), c.Name)
			g.Expect(c.Status.UsedBy).To(Equal(named[c.Name]), c.Name)
			g.Expect(ready.Reason == v1alpha1.ReasonInUse).To(Equal(c.DeletionTimestamp != nil), "%s: %s", c.Name, ready.Reason)
		}
	}).Should(Succeed())
}

// wentWhileNamed are those of so many Components that have gone which an Experiment of the stage named then.
func (s *stage) wentWhileNamed(gone watch.Interface, n int) (out []string) {
	GinkgoHelper()
	for n > 0 {
		var event watch.Event
		Eventually(gone.ResultChan()).Should(Receive(&event))
		if event.Type != watch.Deleted {
			continue
		}
		n--
		u := event.Object.(*unstructured.Unstructured)
		version, err := strconv.ParseInt(u.GetResourceVersion(), 10, 64)
		Expect(err).NotTo(HaveOccurred())
		named := map[string]bool{}
		for _, entry := range s.history() {
			if entry.version < version && entry.object.GetKind() == "Experiment" {
				text, err := entry.object.MarshalJSON()
				Expect(err).NotTo(HaveOccurred())
				named[entry.object.GetName()] = strings.Contains(string(text), `{"app":"`+u.GetName()+`"}`)
			}
		}
		for e, names := range named {
			if names {
				out = append(out, u.GetName()+" has gone while "+e+" named it")
			}
		}
	}
	return out
}
