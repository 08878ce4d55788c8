package hibernateplan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/lru"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/runner"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// The namespace of a plan is deleted, and with it the connector (inCluster) beside the plan. What sleeps in another
// namespace must wake.
func TestBereftOfItsOwnCluster(t *testing.T) {
	shop := granting("shop")
	n := newBroadNight(t, true, shop)
	if in := n.complete(); in != "shop,team" {
		t.Fatalf("asleep in %q", in)
	}
	n.leave()
	if err := n.client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem, UID: "hub"}}); err != nil {
		t.Fatal(err)
	}
	n.passes(6)
	if jobs := jobsOf(t, n.client); len(jobs) == 1 {
		return
	}
	e := n.plan.Status.Executions[0]
	t.Errorf("no Job wakes what sleeps in %v: %s", e.Namespaces, e.Message)
	clock := n.of.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(defaultDeadline))
	goes(t, n.of, n.client, n.plan)
	if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(n.plan), n.plan); err != nil {
		t.Errorf("after its deadline the plan has gone, and left shop asleep")
	}
}

// restored is the plan after it was forced away and brought back from a backup, with a status: it has another UID.
func (n *broadNight) restored(status v1alpha1.HibernatePlanStatus) {
	n.Helper()
	restored := n.plan.DeepCopy()
	restored.ResourceVersion, restored.UID, restored.CreationTimestamp = "", "restored", metav1.NewTime(noon.Add(time.Hour))
	n.plan.Finalizers = nil
	if err := errors.Join(n.client.Update(n.Context(), n.plan), n.client.Delete(n.Context(), n.plan), n.client.Create(n.Context(), restored)); err != nil {
		n.Fatal(err)
	}
	restored.Status = status
	if err := n.client.Status().Update(n.Context(), restored); err != nil {
		n.Fatal(err)
	}
	n.plan = restored
}

// fromBackup is what a plan is brought back with, and what becomes of it.
type fromBackup struct {
	status  *v1alpha1.HibernatePlanStatus
	deleted bool
	// waking: it was about to wake.
	waking bool
}

// A status that came with a backup names what is another plan's, or knows of no sleep. What sleeps must wake, and the plan be able to go,
// whatever its manager has in mind of the former one.
func TestStatusFromABackup(t *testing.T) {
	awake := v1alpha1.HibernatePlanStatus{Cycles: 1, Targets: 1, History: []v1alpha1.CycleSummary{{ID: 1, StartedAt: metav1.NewTime(noon.Add(-time.Hour))}}}
	for name, test := range map[string]fromBackup{
		"of the night, and it wakes": {}, "of the night, and it goes": {deleted: true},
		"of the morning, and it wakes": {waking: true}, "of the morning, and it goes": {waking: true, deleted: true},
		"of the day, and it wakes": {status: &awake}, "of the day, and it goes": {status: &awake, deleted: true},
	} {
		for _, manager := range []string{"another manager", "the same"} {
			t.Run(name+", "+manager, func(t *testing.T) {
				n := newBroadNight(t, false, granting("shop"))
				n.comesBack(test)
				if manager != "the same" {
					n.of.revisions, n.of.lonely = lru.New(9), lru.New(9)
				}
				n.endsOf(test)
			})
		}
	}
}

// comesBack has the plan sleep, and brings it back from a backup.
func (n *broadNight) comesBack(test fromBackup) {
	n.Helper()
	n.complete()
	if test.waking {
		n.morning()
		job, _ := n.job()
		if err := n.client.Delete(n.Context(), job); err != nil {
			n.Fatal(err)
		}
	}
	status := n.plan.Status
	if test.status != nil {
		status = *test.status.DeepCopy()
	}
	n.restored(status)
}

// endsOf sees the plan wake its target, and go where it is to.
func (n *broadNight) endsOf(test fromBackup) {
	n.Helper()
	if test.deleted {
		if err := n.client.Delete(n.Context(), n.plan); err != nil {
			n.Fatal(err)
		}
	} else if !test.waking {
		n.morning()
	}
	if test.waking { // what the attempt needed is the former plan's, and so it is another one
		n.later()
	}
	job, in := n.job()
	if in != "shop,team" {
		n.Errorf("it is woken in %q", in)
	}
	revision := &appsv1.ControllerRevision{}
	if at := (client.ObjectKey{Namespace: "system", Name: n.plan.Status.CurrentCycle.PlanRevision}); n.client.Get(n.Context(), at, revision) != nil || !marks.Owns(n.plan, revision) {
		n.Errorf("its cycle goes by %s, which is not its own", at)
	}
	complete(n.T, n.client, n.plan, "a", job)
	if test.deleted {
		goes(n.T, n.of, n.client, n.plan)
		return
	}
	n.passes(6)
	if n.plan.Status.CurrentCycle != nil || n.plan.Status.Asleep > 0 {
		n.Errorf("it is %+v", n.plan.Status)
	}
	if points, err := (&scope{Reconciler: n.of, owner: n.plan}).restorePoints(n.Context()); err != nil || len(points) > 0 {
		n.Errorf("%d restore points are left, %v", len(points), err)
	}
}

// whole is an executor that acts on what has no namespace, as that of NodePools does.
type whole struct{ anything }

func (whole) Parse(json.RawMessage) (executor.Parameters, error) { return whole{}, nil }
func (whole) Needs() executor.Needs {
	return executor.Needs{Cluster: true, ClusterRole: "labkeeper-runner-whole"}
}

// NodePools have no namespace that the ledger could tell of: that no credentials are kept of them says that they were put to sleep in the
// manager's own cluster, and they wake there when the connector to that has gone with its namespace.
func TestBereftOfTheOwnClusterOfNodePools(t *testing.T) {
	for name, may := range map[string]bool{"the namespace may act on the cluster": true, "and may no more": false} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
			n.of.Options.Executors, n.of.Options.ClusterNamespaces = executor.Registry{"noop": whole{}}, []string{"team"}
			n.complete()
			if !n.plan.Status.Executions[0].Asleep {
				t.Fatalf("it is not asleep: %+v", n.plan.Status)
			}
			n.leave()
			if !may {
				n.of.Options.ClusterNamespaces = nil
				if n.passes(6); len(jobsOf(t, n.client)) > 0 || !n.plan.Status.Executions[0].Asleep {
					t.Errorf("it acts on a cluster on which it may not: %+v", n.plan.Status.Executions[0])
				}
				return
			}
			job, _ := n.job()
			if volumes := job.Spec.Template.Spec.Volumes; len(volumes) > 0 {
				t.Errorf("its runner has %v", volumes)
			}
			bindings := &rbacv1.ClusterRoleBindingList{}
			if err := n.client.List(t.Context(), bindings); err != nil || len(bindings.Items) != 1 || bindings.Items[0].Subjects[0].Name != job.Name {
				t.Errorf("its runner may do %+v: %v", bindings.Items, err)
			}
			complete(t, n.client, n.plan, "a", job)
			goes(t, n.of, n.client, n.plan)
			if err := n.client.List(t.Context(), bindings); err != nil || len(bindings.Items) > 0 {
				t.Errorf("left behind: %+v, %v", bindings.Items, err)
			}
		})
	}
}

// newClusterNight is one of a plan with NodePools, which sleep, and whose namespace may act on the whole cluster no more.
func newClusterNight(t *testing.T) *broadNight {
	t.Helper()
	n := newBroadNight(t, false, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	n.of.Options.Executors, n.of.Options.ClusterNamespaces = executor.Registry{"noop": whole{}}, []string{"team"}
	n.complete()
	if !n.plan.Status.Executions[0].Asleep {
		t.Fatalf("it is not asleep: %+v", n.plan.Status)
	}
	n.of.Options.ClusterNamespaces = nil
	return n
}

// refused says whether a plan says that it may not act on the cluster, and does not.
func (n *broadNight) refused() bool {
	n.Helper()
	n.passes(6)
	return find(n.plan.Status.Conditions, v1alpha1.ConditionScheduled).Reason == v1alpha1.ReasonNotGranted && len(jobsOf(n.T, n.client)) == 0
}

// What credentials of a connector have put to sleep does not wake in the manager's own cluster without leave: whoever has the server that
// those are for has it say which cluster it is, and what it has.
func TestNoClusterByWhatAConnectorHasSaid(t *testing.T) {
	n := newClusterNight(t)
	point := &corev1.ConfigMap{}
	at := names{namespace: "system", plan: n.plan}.point("a")
	if err := n.client.Get(t.Context(), at, point); err != nil {
		t.Fatal(err)
	}
	point.Annotations[annotationConnector] = ""
	if err := n.client.Update(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	n.morning()
	if n.passes(6); len(jobsOf(t, n.client)) > 0 || !n.plan.Status.Executions[0].Asleep || !strings.Contains(n.plan.Status.Executions[0].Message, "--hibernate-cluster-from") {
		t.Errorf("it acts on a cluster on which it may not: %+v", n.plan.Status.Executions[0])
	}
}

// What a plan has put to sleep wakes when its namespace may act on the whole cluster no more, as what sleeps in a namespace does whose
// owner has taken that back, and is not put to sleep again.
func TestGrantOfTheClusterIsTakenBack(t *testing.T) {
	n := newClusterNight(t)
	n.morning()
	job, _ := n.job()
	bindings := &rbacv1.ClusterRoleBindingList{}
	if err := n.client.List(t.Context(), bindings); err != nil || len(bindings.Items) != 1 || bindings.Items[0].Subjects[0].Name != job.Name {
		t.Errorf("its runner may do %+v: %v", bindings.Items, err)
	}
	complete(t, n.client, n.plan, "a", job)
	n.passes(6)
	n.plan.Spec.Override.State = v1alpha1.OverrideHibernated
	if err := errors.Join(n.client.Update(t.Context(), n.plan), n.client.List(t.Context(), bindings)); err != nil || len(bindings.Items) > 0 {
		t.Errorf("left behind: %+v, %v", bindings.Items, err)
	}
	if !n.refused() || n.plan.Status.CurrentCycle != nil {
		t.Errorf("it is put to sleep again: %+v", n.plan.Status)
	}
}

// One that is created again, and has only found them asleep, may not wake them: its namespace may not act on the cluster.
func TestGrantOfTheClusterOfWhatWasLeft(t *testing.T) {
	n := newClusterNight(t)
	n.plan.Finalizers = nil
	again := asleepNow()
	again.UID, again.Spec.Override.State = "uid-2", v1alpha1.OverrideAwake
	if err := errors.Join(n.client.Update(t.Context(), n.plan), n.client.Delete(t.Context(), n.plan), n.client.Create(t.Context(), again)); err != nil {
		t.Fatal(err)
	}
	if n.plan = again; !n.refused() || n.plan.Status.Asleep != 1 {
		t.Errorf("it acts on a cluster on which it may not: %+v", n.plan.Status)
	}
	n.of.Options.ClusterNamespaces = []string{"team"}
	n.later()
	n.complete()
	if n.passes(6); n.plan.Status.CurrentCycle != nil {
		t.Errorf("it may act there again, and does not: %+v", n.plan.Status)
	}
}

// A plan is created under the name of one whose finalizer was taken off while a runner of it acts.
func TestFormerRunner(t *testing.T) {
	plan := asleepNow()
	r, c := newReconciler(t, plan)
	job := theJob(t, r, c, plan)
	capture(t, c)
	// its runner acts
	job.Status.Active, job.Status.Ready = 1, ptr.To[int32](1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	if err := errors.Join(c.Status().Update(t.Context(), job), c.Create(t.Context(), pod)); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(plan), plan); err != nil {
		t.Fatal(err)
	}
	plan.Finalizers = nil
	if err := errors.Join(c.Update(t.Context(), plan), c.Delete(t.Context(), plan)); err != nil {
		t.Fatal(err)
	}
	again := asleepNow()
	again.UID, again.ResourceVersion = "uid-2", ""
	again.Spec.Override.State = v1alpha1.OverrideAwake
	if err := c.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, again = pass(t, r, again)
	}
	if jobs := jobsOf(t, c); len(jobs) > 1 {
		point := &corev1.ConfigMap{}
		_ = c.Get(t.Context(), names{namespace: "system", plan: again}.point("a"), point)
		t.Errorf("Jobs %s and %s act on target a at the same time, restore point is that of %s", jobs[0].Name, jobs[1].Name, point.Annotations[runner.AnnotationExecution])
	}
	job.Status.Active, job.Status.Ready = 0, nil
	job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
	pod.Status.Phase = corev1.PodFailed
	if err := errors.Join(c.Status().Update(t.Context(), job), c.Status().Update(t.Context(), pod)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, again = pass(t, r, again)
	}
	if jobs := jobsOf(t, c); len(jobs) != 2 {
		t.Errorf("its runner has ended, and there are %d Jobs", len(jobs))
	}
}

// What a plan of the name has left asleep is told of, also where nothing begins.
func TestLeftIsToldOf(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.HibernatePlanSpec){
		"suspended": func(s *v1alpha1.HibernatePlanSpec) { s.Suspend = true },
		"dry run":   func(s *v1alpha1.HibernatePlanSpec) { s.DryRun = true },
		"invalid":   func(s *v1alpha1.HibernatePlanSpec) { s.Targets = append(s.Targets, s.Targets[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 2))
			w.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			w.until(noon.Add(9 * time.Hour))
			w.plan.DeletionTimestamp = ptr.To(metav1.NewTime(w.now))
			w.until(w.now)
			again := newPlan(v1alpha1.StrategyParallel, 2)
			again.UID = types.UID("uid-2")
			change(&again.Spec)
			w.plan, w.done, w.log = again, false, nil
			w.until(noon.Add(72 * time.Hour)) // by day, three days later
			if len(w.asleep) != 2 {
				t.Fatalf("asleep %v", w.asleep)
			}
			told := slices.ContainsFunc(w.log, func(line string) bool { return strings.Contains(line, "left asleep") })
			for _, c := range w.plan.Status.Conditions {
				told = told || strings.Contains(c.Message, "left asleep")
				if strings.Contains(c.Message, "Nothing of the plan is asleep") || strings.Contains(c.Message, "0 targets are asleep") {
					t.Errorf("a and b are asleep, and %s says: %s", c.Type, c.Message)
				}
			}
			if w.plan.Status.Phase == v1alpha1.PhaseActive {
				t.Error("it is Active, as if everything were awake")
			}
			if !told {
				t.Errorf("nobody is told:\n%s\n%+v", strings.Join(w.log, "\n"), w.plan.Status.Conditions)
			}
		})
	}
}

// A shutdown that has put everything to sleep and failed all the same; its restore point is emptied.
func TestEmptiedAfterAFailure(t *testing.T) {
	plan := asleepNow()
	plan.Spec.Behavior.Retries = ptr.To[int32](0)
	r, c := newReconciler(t, plan)
	job := theJob(t, r, c, plan)
	say := func(job *batchv1.Job, completed bool, resources int) {
		t.Helper()
		point := &corev1.ConfigMap{}
		if err := c.Get(t.Context(), names{namespace: "system", plan: plan}.point("a"), point); err != nil {
			t.Fatal(err)
		}
		point.Data[runner.KeyResult] = fmt.Sprintf(`{"execution":%q,"completed":%v,"reason":"NotSettled","message":"waiting for 3 resources","resources":%d,"done":%d}`, job.Name, completed, resources, resources)
		job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}
		if err := errors.Join(c.Update(t.Context(), point), c.Status().Update(t.Context(), job)); err != nil {
			t.Fatal(err)
		}
	}
	say(job, false, 3) // three sleep, a pod does not go
	for range 4 {
		_, plan = pass(t, r, plan)
	}
	// somebody puts an empty ConfigMap in the place of the restore point: a runner then has nothing to do, and is done
	plan.Spec.Override.State = v1alpha1.OverrideAwake
	if err := c.Update(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	say(theJob(t, r, c, plan), true, 0)
	for range 6 {
		_, plan = pass(t, r, plan)
	}
	if st := plan.Status; st.CurrentCycle == nil || st.Asleep != 1 {
		t.Errorf("three workloads sleep, and the plan is %s, %d asleep, history %+v, Ready %+v", st.Phase, st.Asleep, st.History, find(st.Conditions, v1alpha1.ConditionReady))
	}
}

// The manager was down all night; nothing was put to sleep. The cycle is no success.
func TestTakenBackIsToldOf(t *testing.T) {
	w := newWorld(t, newPlan(v1alpha1.StrategyParallel, 4))
	w.now = noon.Add(8 * time.Hour)
	w.pass(-1)
	w.now = noon.Add(20 * time.Hour)
	w.settle()
	w.awake()
	if h := w.plan.Status.History; len(h) != 1 || !strings.Contains(h[0].Message, "a") {
		t.Errorf("nothing was put to sleep (%d Jobs), and the history says %+v", len(w.ran), h)
	}
}

// givenUp is a plan that was given up at its deadline while the pod of its last attempt does not end: its node does not answer.
func givenUp(t *testing.T, plan *v1alpha1.HibernatePlan) (*Reconciler, client.Client, *batchv1.Job, *corev1.Pod) {
	t.Helper()
	plan.Spec.Deletion = &v1alpha1.Deletion{Deadline: &metav1.Duration{Duration: time.Minute}}
	r, c := newReconciler(t, append(away(plan), plan)...)
	job := theJob(t, r, c, plan)
	capture(t, c)
	job.Status.Active, job.Status.Ready = 1, ptr.To[int32](1)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Finalizers: []string{"test/lost-node"}, Labels: map[string]string{batchv1.JobNameLabel: job.Name}}, Spec: job.Spec.Template.Spec}
	if err := errors.Join(c.Status().Update(t.Context(), job), c.Create(t.Context(), pod)); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodRunning
	if err := errors.Join(c.Status().Update(t.Context(), pod), c.Delete(t.Context(), plan)); err != nil {
		t.Fatal(err)
	}
	_, plan = pass(t, r, plan)
	clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(clock.Now().Add(2 * time.Minute)) // its runner has 27 min more, or what else it was given
	goes(t, r, c, plan)
	return r, c, job, pod
}

// createdAgain is a plan of the same name that is to wake what that one has left, and that was looked at some times.
func createdAgain(t *testing.T, r *Reconciler, c client.Client, plan *v1alpha1.HibernatePlan) *v1alpha1.HibernatePlan {
	t.Helper()
	again := asleepNow()
	again.UID, again.ResourceVersion = "uid-2", ""
	again.Spec.Targets[0].ConnectorRef = plan.Spec.Targets[0].ConnectorRef
	again.Spec.Override.State = v1alpha1.OverrideAwake
	if err := c.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		_, again = pass(t, r, again)
	}
	return again
}

// The same where nobody has taken a finalizer off: the plan was given up, and is created again.
func TestFormerRunnerOfOneGivenUp(t *testing.T) {
	plan := asleepNow()
	r, c, job, pod := givenUp(t, plan)
	createdAgain(t, r, c, plan)
	alive := c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && pod.Status.Phase == corev1.PodRunning
	if jobs := jobsOf(t, c); len(jobs) > 0 && alive {
		t.Errorf("Job %s acts beside the pod of %s, which has its kubeconfig", jobs[0].Name, job.Name)
	}
}

// As TestFormerRunnerOfOneGivenUp, where the former plan gave its runners six hours, and the one that is created after it says nothing of
// that. The pod says it.
func TestFormerRunnerWithLongerDeadline(t *testing.T) {
	plan := asleepNow()
	plan.Spec.Runner = &v1alpha1.RunnerTemplate{ActiveDeadline: &metav1.Duration{Duration: 6 * time.Hour}}
	r, c, job, pod := givenUp(t, plan)
	if err := errors.Join(c.Delete(t.Context(), pod), c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)); err != nil { // with its Job
		t.Fatal(err)
	}
	clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
	clock.SetTime(pod.DeletionTimestamp.Add(40 * time.Minute))
	again := createdAgain(t, r, c, plan)
	if jobs := jobsOf(t, c); len(jobs) > 0 {
		t.Errorf("Job %s acts beside pod %s of %s, whose arguments are %v", jobs[0].Name, pod.Name, job.Name, pod.Spec.Containers[0].Args)
	}
	clock.SetTime(pod.DeletionTimestamp.Add(6*time.Hour + lostAfter))
	for range 5 {
		_, again = pass(t, r, again)
	}
	if jobs := jobsOf(t, c); len(jobs) != 1 {
		t.Errorf("its deadline is over, and there are %d Jobs", len(jobs))
	}
}

// The Job of a former plan says itself how long its runner may act, whatever the plan that there is now says.
func TestFormerJobWithLongerDeadline(t *testing.T) {
	plan, n := attempting(v1alpha1.OperationWakeUp, "a")
	point := pointOf(n, "a", "former")
	point.Annotations[annotationPlanUID] = "former"
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "system", Name: "former", Finalizers: []string{"foregroundDeletion"}, DeletionTimestamp: ptr.To(metav1.NewTime(noon.Add(-2 * time.Hour))),
	}}
	for deadline, acts := range map[time.Duration]bool{3 * time.Hour: true, time.Hour: false, 0: false} {
		job.Spec.ActiveDeadlineSeconds = nil
		if deadline > 0 {
			job.Spec.ActiveDeadlineSeconds = ptr.To(int64(deadline / time.Second))
		}
		c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(job.DeepCopy()).Build()
		s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
		if got, err := s.formerActs(t.Context(), &sight{point: point}); err != nil || got != acts {
			t.Errorf("%s, told to end two hours ago: it acts: %v, %v", deadline, got, err)
		}
	}
}

// A pod that is left of a Job that somebody has deleted, and has not started, is waited for as long as its Job would have been: no other acts
// beside it, and when it starts after that it has no rights any more, and may not write to the restore point.
func TestPodThatIsLeftOfItsJob(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	job, _ := n.job()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "left", Labels: map[string]string{batchv1.JobNameLabel: job.Name}, CreationTimestamp: metav1.NewTime(noon)},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable"}}},
	}
	if err := errors.Join(n.client.Create(t.Context(), pod), n.client.Delete(t.Context(), job)); err != nil {
		t.Fatal(err)
	}
	n.at(noon.Add(defaultActiveDeadline + lostAfter - time.Second))
	if n.passes(4); len(jobsOf(t, n.client)) > 0 || n.point().Annotations[runner.AnnotationExecution] != job.Name {
		t.Fatalf("another may act beside it: %+v", n.plan.Status.Executions)
	}
	n.at(noon.Add(defaultActiveDeadline + lostAfter))
	n.passes(4)
	if e := n.plan.Status.Executions[0]; running(&e) || !strings.Contains(e.Message, "pod system/left") || !strings.Contains(e.Message, "Unschedulable") {
		t.Errorf("it says %s %q", e.State, e.Message)
	}
	var accounts corev1.ServiceAccountList
	if err := n.client.List(t.Context(), &accounts); err != nil || len(accounts.Items) > 0 {
		t.Errorf("it may act by %d accounts, %v", len(accounts.Items), err)
	}
	n.later()
	if next, _ := n.job(); next.Name == job.Name || n.point().Annotations[runner.AnnotationExecution] != next.Name {
		t.Errorf("%s is to act, and %s may write", next.Name, n.point().Annotations[runner.AnnotationExecution])
	}
}

// The runner of a former plan is on a node that does not answer: its pod stays, whatever is said of it, and is waited for by the
// deadline that it was given, a longer one than the plan's own, and no longer.
func TestFormerRunnerOnALostNode(t *testing.T) {
	const deadline = 6 * time.Hour
	told := noon.Add(-deadline - lostAfter)
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodUnknown, corev1.PodPending} {
		for name, told := range map[string]time.Time{"it may act": told.Add(time.Second), "it has had its time": told} {
			for of, job := range map[string]*batchv1.Job{
				"a Job that is gone":    nil,
				"a Job that is deleted": {ObjectMeta: metav1.ObjectMeta{Finalizers: []string{"foregroundDeletion"}, DeletionTimestamp: ptr.To(metav1.NewTime(told))}},
				"a Job that is told to end": {Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{
					{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(told)},
				}}},
			} {
				t.Run(fmt.Sprintf("%s, of %s, %s", phase, of, name), func(t *testing.T) {
					plan, n := attempting(v1alpha1.OperationWakeUp, "a")
					point := pointOf(n, "a", "former")
					point.Annotations[annotationPlanUID] = "former"
					pod := &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{
							Namespace: "system", Name: "p", Labels: map[string]string{batchv1.JobNameLabel: "former"},
							Finalizers: []string{"test/lost-node"}, DeletionTimestamp: ptr.To(metav1.NewTime(told)),
						},
						Spec:   corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Args: runner.Task{Deadline: deadline - grace}.Args()}}},
						Status: corev1.PodStatus{Phase: phase},
					}
					objects := []client.Object{point, pod}
					if job != nil {
						job = job.DeepCopy()
						job.Namespace, job.Name = "system", "former"
						job.Spec.ActiveDeadlineSeconds = ptr.To(int64(deadline / time.Second))
						objects = append(objects, job)
					}
					c := fakes.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
					s := &scope{Reconciler: &Reconciler{Client: c, Live: c, Options: Options{Namespace: "system"}}, owner: plan, now: noon}
					if err := s.observeAttempts(t.Context()); err != nil {
						t.Fatal(err)
					}
					acts := name == "it may act"
					p := facts{plan: plan, seen: s.seen, registry: registry, namespace: "system", now: noon}.decide()
					if s.seen.Held[only(plan)] != acts || (len(p.Launch) == 0) != acts {
						t.Errorf("held: %v, launched: %v", s.seen.Held, p.Launch)
					}
					if acts && (s.seen.Stops != time.Second || p.Wait > time.Second) {
						t.Errorf("it is looked at in %s, by %s", p.Wait, s.seen.Stops)
					}
				})
			}
		}
	}
}

// A backup brings the restore point of a former night back over that of this one. Nothing is made what it was by then, until the right one
// is put back; a plan that is created in the place of this one wakes it by what there is.
func TestPointOfAFormerCycle(t *testing.T) {
	for name, again := range map[string]bool{"and the right one": false, "and the plan is created again": true} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, false, granting("shop"))
			bringBack := func(former *corev1.ConfigMap) {
				t.Helper()
				now := n.point()
				now.Labels, now.Annotations, now.Data, now.BinaryData = former.Labels, former.Annotations, former.Data, former.BinaryData
				if err := n.client.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			n.complete()
			former := n.point()
			n.morning()
			n.complete()
			n.passes(6)
			n.wants(v1alpha1.OverrideHibernated)
			n.complete()
			right := n.point()
			bringBack(former)
			n.morning()
			n.passes(6)
			if e := n.plan.Status.Executions[0]; len(jobsOf(t, n.client)) > 0 || !e.Asleep || !strings.Contains(e.Message, "of cycle 1, and it sleeps by that of cycle 2") {
				t.Fatalf("%d Jobs, and it says %+v", len(jobsOf(t, n.client)), e)
			}
			if again {
				n.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
				if err := errors.Join(n.client.Update(t.Context(), n.plan), n.client.Delete(t.Context(), n.plan)); err != nil {
					t.Fatal(err)
				}
				goes(t, n.of, n.client, n.plan)
				n.plan = createdAgain(t, n.of, n.client, n.plan)
			} else {
				bringBack(right)
				n.later()
			}
			n.complete()
			if n.passes(6); n.plan.Status.CurrentCycle != nil {
				t.Errorf("it goes on: %+v", n.plan.Status)
			}
		})
	}
}

// says has the runner of the only Job leave a restore point with some content, and end.
func (n *broadNight) says(content string, completed bool) {
	n.Helper()
	job, _ := n.job()
	n.write(content)
	complete(n.T, n.client, n.plan, "a", job)
	if point := n.point(); !completed {
		point.Data[runner.KeyResult] = fmt.Sprintf(`{"execution":%q,"resources":1}`, job.Name)
		if err := n.client.Update(n.Context(), point); err != nil {
			n.Fatal(err)
		}
	}
	n.passes(4)
}

// write has somebody write something into the restore point.
func (n *broadNight) write(content string) {
	n.Helper()
	point := n.point()
	point.BinaryData = map[string][]byte{runner.KeyPoint: []byte(content)}
	if err := n.client.Update(n.Context(), point); err != nil {
		n.Fatal(err)
	}
}

// What has been brought back over a restore point is seen also where nothing but its content tells: it is a copy of the same cycle, from
// before the last attempt, or does not say of which cycle it is, or is that of another plan of the name.
func TestPointThatWasBroughtBack(t *testing.T) {
	for name, change := range map[string]func(point *corev1.ConfigMap){
		"of the same cycle":     func(*corev1.ConfigMap) {},
		"without its cycle":     func(point *corev1.ConfigMap) { delete(point.Labels, v1alpha1.LabelCycle) },
		"of a plan before":      func(point *corev1.ConfigMap) { point.Annotations[annotationPlanUID] = "uid-0" },
		"of which nothing says": func(point *corev1.ConfigMap) { point.BinaryData = nil },
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, false, granting("shop"))
			bringBack := func(former *corev1.ConfigMap) {
				t.Helper()
				now := n.point()
				now.Labels, now.Annotations, now.Data, now.BinaryData = former.Labels, former.Annotations, former.Data, former.BinaryData
				if err := n.client.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
			}
			n.says("three replicas", false)
			former := n.point()
			change(former)
			n.later()
			n.says("five replicas", true)
			right := n.point()
			bringBack(former)
			n.morning()
			n.passes(6)
			if e := n.plan.Status.Executions[0]; len(jobsOf(t, n.client)) > 0 || !e.Asleep || !strings.Contains(e.Message, "Its restore point is not as the last attempt has left it: put its ConfigMap back") {
				t.Fatalf("%d Jobs, and it says %+v", len(jobsOf(t, n.client)), e)
			}
			bringBack(right)
			n.later()
			n.says("five replicas, woken", true)
			if n.passes(6); n.plan.Status.CurrentCycle != nil {
				t.Errorf("it goes on: %+v", n.plan.Status)
			}
		})
	}
}

// Whoever has been told that a restore point is not as it was left may have it taken as it is; and of one that has less in it than sleeps
// nothing keeps the right one from being put back.
func TestPointThatIsTaken(t *testing.T) {
	t.Run("as it is", func(t *testing.T) {
		n := newBroadNight(t, false, granting("shop"))
		n.says("five replicas", true)
		n.write("by hand")
		n.morning()
		n.passes(6)
		if e := n.plan.Status.Executions[0]; !strings.Contains(e.Message, "to wake it by this one, annotate the plan with "+v1alpha1.AnnotationRetryNow) {
			t.Fatalf("it says %q", e.Message)
		}
		n.plan.Annotations = map[string]string{v1alpha1.AnnotationRetryNow: "1"}
		if err := n.client.Update(t.Context(), n.plan); err != nil {
			t.Fatal(err)
		}
		if n.says("by hand, woken", true); n.plan.Status.CurrentCycle != nil {
			t.Errorf("it goes on: %+v", n.plan.Status)
		}
	})
	t.Run("when it has less in it", func(t *testing.T) {
		n := newBroadNight(t, false, granting("shop"))
		n.says("five replicas", true)
		n.plan.Status.Executions[0].Resources, n.plan.Status.Executions[0].RestoreChecksum = 10, "" // as of a manager that kept none
		if err := n.client.Status().Update(t.Context(), n.plan); err != nil {
			t.Fatal(err)
		}
		n.write("less")
		n.morning()
		n.says("less", true)
		if e := n.plan.Status.Executions[0]; !strings.Contains(e.Message, "of the 10 resources that were put to sleep; put ConfigMap") {
			t.Fatalf("it says %+v", e)
		}
		n.write("five replicas")
		n.later()
		n.job()
	})
}

// dropJob has somebody delete the Job that there is.
func (n *broadNight) dropJob() {
	n.Helper()
	job, _ := n.job()
	if err := n.client.Delete(n.Context(), job); err != nil {
		n.Fatal(err)
	}
}

// A status that came with a backup may be older than the restore point, which the plan of before has gone on with.
func TestPointOfAnOlderStatus(t *testing.T) {
	n := newBroadNight(t, false, granting("shop"))
	n.says("five replicas", true)
	n.write("five replicas, of which one is awake")
	n.restored(*n.plan.Status.DeepCopy())
	n.morning()
	n.says("awake", true)
	if n.passes(6); n.plan.Status.CurrentCycle != nil {
		t.Errorf("it goes on: %+v", n.plan.Status)
	}
}

// The runner of an attempt may have written to the restore point, and not said how it has ended: what it has left is gone by.
func TestPointOfARunnerThatWasKilled(t *testing.T) {
	for name, end := range map[string]func(n *broadNight){
		"which has failed":           func(n *broadNight) { n.fail() },
		"whose Job somebody deletes": func(n *broadNight) { n.dropJob() },
		"whose Job somebody deletes, and none can be made any more": func(n *broadNight) {
			n.dropJob()
			clock := n.of.Options.Clock.(*clocktesting.FakePassiveClock)
			clock.SetTime(clock.Now().Add(patience))
			n.of.Live = interceptor.NewClient(n.client, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if o.GetObjectKind().GroupVersionKind() == jobGVK {
					return apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, o.GetName(), errors.New("exceeded quota"))
				}
				return c.Create(ctx, o, opts...)
			}})
			n.passes(1)
			if e := n.plan.Status.Executions[0]; e.State != v1alpha1.ExecutionPending || !strings.Contains(e.Message, "exceeded quota") {
				n.Fatalf("it has not ended: %+v", e)
			}
			n.of.Live = n.client
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBroadNight(t, false, granting("shop"))
			n.says("three replicas", false)
			n.later()
			n.job()
			n.write("three replicas, asleep")
			end(n)
			n.later()
			n.says("asleep", true)
			n.morning()
			n.says("awake", true)
			if n.passes(6); n.plan.Status.CurrentCycle != nil {
				t.Errorf("it goes on: %+v", n.plan.Status)
			}
		})
	}
}

// play ends the Jobs of a plan until nothing is to be done: those that wake some target fail.
func (n *broadNight) play(never string) {
	n.Helper()
	for range 8 {
		n.passes(2)
		for _, job := range jobsOf(n.T, n.client) {
			target := job.Labels[v1alpha1.LabelTarget]
			switch {
			case len(job.Status.Conditions) > 0:
			case target == never && job.Labels[v1alpha1.LabelOperation] == "wakeup":
				job.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}
				if err := n.client.Status().Update(n.Context(), &job); err != nil {
					n.Fatal(err)
				}
			default:
				complete(n.T, n.client, n.plan, target, &job)
			}
		}
	}
}

// drop is what takes a restore point away for good.
func (n *broadNight) drop(point types.NamespacedName) {
	n.Helper()
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: point.Namespace, Name: point.Name}}
	err := n.client.Delete(n.Context(), o)
	if err == nil {
		err = n.client.Patch(n.Context(), o, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))
	}
	if client.IgnoreNotFound(err) != nil {
		n.Fatal(err)
	}
}

// sleeping are the targets of a plan that are asleep.
func (n *broadNight) sleeping() (all string) {
	for i := range n.plan.Status.Executions {
		if e := &n.plan.Status.Executions[i]; e.Asleep {
			all += e.Target
		}
	}
	return all
}

// The restore point of a target is lost, or no good, for ever, and its plan goes on by what it was in that night. What its condition says
// is to be run has it go on by what it is now, and what else sleeps by then wakes.
func TestWayOut(t *testing.T) {
	for name, gone := range map[string]bool{"it is gone": true, "it is no good": false} {
		t.Run(name, func(t *testing.T) {
			plan := newPlan(v1alpha1.StrategyParallel, 2)
			plan.Finalizers, plan.Spec.Behavior.Retries = []string{v1alpha1.Finalizer}, ptr.To[int32](0)
			plan.Spec.Override = &v1alpha1.Override{State: v1alpha1.OverrideHibernated}
			r, c := newReconciler(t, plan)
			n := &broadNight{t, plan, r, c}
			n.play("")
			lost := names{namespace: "system", plan: plan}.point("b")
			if gone {
				n.drop(lost)
			}
			n.morning()
			n.play("b")
			said := find(n.plan.Status.Conditions, v1alpha1.ConditionReady).Message
			for _, command := range []string{
				"kubectl patch hplan night -n team --type merge -p '{\"spec\":{\"deletionPolicy\":\"Leave\"}}'; kubectl delete hplan night -n team; ",
				"kubectl delete cm " + lost.Name + " -n system --wait=false; kubectl patch cm " + lost.Name + " -n system --type merge -p '{\"metadata\":{\"finalizers\":null}}'; ",
			} {
				if !strings.Contains(said, command) {
					t.Errorf("it does not say %s: %s", command, said)
				}
			}
			n.plan.Spec.Targets = append(n.plan.Spec.Targets, v1alpha1.Target{Name: "c", Type: "noop"})
			n.wants(v1alpha1.OverrideHibernated)
			if n.play("b"); n.sleeping() != "ab" || n.plan.Status.Cycles != 1 {
				t.Fatalf("asleep %s, in cycle %d", n.sleeping(), n.plan.Status.Cycles)
			}
			again := n.plan.DeepCopy()
			n.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			if err := errors.Join(c.Update(t.Context(), n.plan), c.Delete(t.Context(), n.plan)); err != nil {
				t.Fatal(err)
			}
			goes(t, r, c, n.plan)
			n.drop(lost)
			again.UID, again.ResourceVersion, again.Status = "uid-2", "", v1alpha1.HibernatePlanStatus{}
			again.Spec.Override.State = v1alpha1.OverrideAwake
			if err := c.Create(t.Context(), again); err != nil {
				t.Fatal(err)
			}
			n.plan = again
			if n.play(""); n.sleeping() != "" || n.plan.Status.CurrentCycle != nil {
				t.Errorf("asleep %s: %+v", n.sleeping(), n.plan.Status)
			}
			n.wants(v1alpha1.OverrideHibernated)
			if n.play(""); n.sleeping() != "abc" {
				t.Errorf("asleep %s: %+v", n.sleeping(), n.plan.Status)
			}
		})
	}
}

// What is to be run is told as a whole, however long names are, and however much has failed for however long a reason; and who has another
// restore point than the one that a target sleeps by is not told to throw that away.
func TestWayOutIsWhole(t *testing.T) {
	plan := newPlan(v1alpha1.StrategyParallel, 1)
	plan.Name, plan.Namespace, plan.Status.CurrentCycle = strings.Repeat("night", 5), strings.Repeat("team", 5), &v1alpha1.Cycle{Operation: v1alpha1.OperationWakeUp}
	for i := range 20 {
		plan.Status.Executions = append(plan.Status.Executions, execution{
			Target: fmt.Sprintf("%s-%d", strings.Repeat("target", 5), i), Operation: v1alpha1.OperationWakeUp, State: v1alpha1.ExecutionFailed, Asleep: true, Attempts: 4,
			Message: cut("waking up 3 of 4 resources" + strings.Repeat(": and so on", 50)), RestoreConfigMapRef: "labkeeper-system/" + strings.Repeat("p", maxLabel),
		})
	}
	said := conditions.Line(view{status: &plan.Status, owner: plan}.failure())
	for _, text := range []string{
		"and 17 more has failed 4 times: waking up 3 of 4 resources: and so on", "kubectl annotate hplan ", "kubectl patch hplan ", "kubectl delete hplan ",
		"; where its restore point will never do, wake it by hand, and kubectl delete cm ", "kubectl patch cm ", "; and create the plan again",
	} {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q: %s", text, said)
		}
	}
}

// The first attempt was made and acts; then the manager's namespace is emptied, as by a deletion that is forced through: after the
// minute in which that is recorded, and before, where the same manager has made it.
func TestCapturedOnce(t *testing.T) {
	for _, after := range []time.Duration{keptAfter, time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			plan := asleepNow()
			r, c := newReconciler(t, plan)
			job := theJob(t, r, c, plan)
			_, plan = pass(t, r, plan) // the manager sees the Job run
			clock := r.Options.Clock.(*clocktesting.FakePassiveClock)
			clock.SetTime(clock.Now().Add(after))
			for range 2 {
				_, plan = pass(t, r, plan)
			}
			point := &corev1.ConfigMap{}
			if err := c.Get(t.Context(), names{namespace: "system", plan: plan}.point("a"), point); err != nil {
				t.Fatal(err)
			}
			point.Finalizers = nil
			if err := errors.Join(c.Update(t.Context(), point), c.Delete(t.Context(), point), c.Delete(t.Context(), job)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_, plan = pass(t, r, plan)
			}
			if jobs := jobsOf(t, c); len(jobs) > 0 {
				t.Errorf("its restore point is gone, and %s captures what sleeps: %+v", jobs[0].Name, find(plan.Status.Conditions, v1alpha1.ConditionReady))
			}
			if e := plan.Status.Executions[0]; !e.Kept || !e.Asleep || !strings.Contains(e.Message, "Its restore point, ConfigMap") {
				t.Errorf("it says %+v", e)
			}
		})
	}
}

// Another manager takes over in the first minute of an attempt, of which the ledger does not know yet whether it was made: so that what
// sleeps is not captured, it looks what the runner was granted, wherever that is, and only without any of it makes the Job.
func TestCapturedOnceByTwoManagers(t *testing.T) {
	jobAndPoint := func(o client.Object) bool {
		_, job := o.(*batchv1.Job)
		_, point := o.(*corev1.ConfigMap)
		return job || point
	}
	emptied := func(o client.Object) bool { return o.GetNamespace() == "system" }
	for name, test := range map[string]struct {
		of   executor.Executor
		away bool
		made bool
		lost func(client.Object) bool
	}{
		"Job and restore point are gone":                    {of: anything{}, made: true, lost: jobAndPoint},
		"the manager's namespace is emptied":                {of: spaced{}, made: true, lost: emptied},
		"it is, and the target has no namespace":            {of: whole{}, made: true, lost: emptied},
		"it is, and the target is in another cluster":       {of: spaced{}, away: true, made: true, lost: emptied},
		"nothing was made, for another cluster":             {of: spaced{}, away: true},
		"nothing was made":                                  {of: spaced{}},
		"nothing was made, and the target has no namespace": {of: whole{}},
		"nothing was made, and it needs nothing anywhere":   {of: anything{}},
	} {
		t.Run(name, func(t *testing.T) {
			plan := asleepNow()
			shop := granting("shop")
			objects := []client.Object{plan, shop}
			if test.away {
				objects = append(objects, away(plan)...)
			}
			first, c := newReconciler(t, objects...)
			first.Options.Executors, first.Options.ClusterNamespaces = executor.Registry{"noop": test.of}, []string{"team"}
			if _, plan = pass(t, first, plan); !running(&plan.Status.Executions[0]) || len(jobsOf(t, c)) > 0 {
				t.Fatalf("%+v", plan.Status.Executions)
			}
			if test.made {
				theJob(t, first, c, plan)
				lose(t, c, test.lost)
			}
			second, _ := newReconciler(t)
			second.Client, second.Live, second.Options = c, c, first.Options
			for range 4 {
				_, plan = pass(t, second, plan)
			}
			if e := plan.Status.Executions[0]; len(jobsOf(t, c)) > 0 == test.made || e.Kept != (test.made || test.away) {
				t.Errorf("%d Jobs, and it says %+v", len(jobsOf(t, c)), e)
			}
		})
	}
}

// looks has the plan looked at some times, and returns what the last pass has failed at.
func (n *broadNight) looks(times int) (err error) {
	n.Helper()
	for range times {
		if err := n.client.Get(n.Context(), client.ObjectKeyFromObject(n.plan), n.plan); err != nil {
			n.Fatal(err)
		}
		_, err = n.of.Reconcile(n.Context(), n.plan)
	}
	return err
}

// wokenBesideAnOldPoint is a plan of two targets that wake one after the other: over the restore point of the first, which is awake, a
// backup has brought the one of before it was woken.
func wokenBesideAnOldPoint(t *testing.T) *broadNight {
	t.Helper()
	n := newBroadNight(t, false, granting("shop"))
	n.plan.Spec.Targets = append([]v1alpha1.Target{{Name: "b", Type: "noop"}}, n.plan.Spec.Targets...) // the last one wakes first
	n.plan.Spec.Execution.Strategy.MaxConcurrency = ptr.To[int32](1)
	n.wants(v1alpha1.OverrideHibernated)
	n.play("")
	old := n.point()
	n.morning()
	job, _ := n.job()
	complete(t, n.client, n.plan, "a", job)
	for range 4 {
		if _, n.plan = pass(t, n.of, n.plan); spent(&n.plan.Status.Executions[1]) {
			break
		}
	}
	if e := n.plan.Status.Executions[1]; !spent(&e) {
		t.Fatalf("by %s, it is %+v", job.Name, e)
	}
	point := n.point()
	point.Annotations = old.Annotations
	if err := n.client.Update(t.Context(), point); err != nil {
		t.Fatal(err)
	}
	return n
}

// Between the end of a wake-up and its release, a backup brings the restore point of before back. It is told of, and keeps nothing else from
// waking: it goes when somebody has deleted it, and stays when a plan goes that leaves what it has.
func TestPointThatIsBackBeforeItsRelease(t *testing.T) {
	for name, test := range map[string]struct {
		then  func(*broadNight)
		stays bool
	}{
		"it is deleted": {func(n *broadNight) {
			if err := n.client.Delete(n.Context(), n.point()); err != nil {
				n.Fatal(err)
			}
		}, false},
		"the deadline of the plan passes": {func(n *broadNight) {
			n.of.Options.Clock.(*clocktesting.FakePassiveClock).SetTime(noon.Add(defaultDeadline))
		}, true},
		"the plan leaves it": {func(n *broadNight) {
			n.plan.Spec.DeletionPolicy = v1alpha1.DeletionLeave
			if err := n.client.Update(n.Context(), n.plan); err != nil {
				n.Fatal(err)
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := wokenBesideAnOldPoint(t)
			_ = n.looks(6) // as it is expected to fail
			for _, job := range jobsOf(t, n.client) {
				complete(t, n.client, n.plan, job.Labels[v1alpha1.LabelTarget], &job)
			}
			err := n.looks(6)
			ready := find(n.plan.Status.Conditions, v1alpha1.ConditionReady)
			if point := client.ObjectKeyFromObject(n.point()).String(); n.sleeping() != "" || err == nil || !strings.Contains(ready.Message, "Target a is awake, and its restore point ConfigMap "+point) {
				t.Fatalf("asleep are %q, and it says %s: %s", n.sleeping(), ready.Reason, ready.Message)
			}
			if err := n.client.Delete(t.Context(), n.plan); err != nil {
				t.Fatal(err)
			}
			if _ = n.looks(3); n.plan.Status.DeletingSince == nil {
				t.Fatalf("its deletion is not recorded: %+v", n.plan.Status)
			}
			test.then(n)
			goes(t, n.of, n.client, n.plan)
			if err := n.client.Get(t.Context(), names{namespace: "system", plan: n.plan}.point("a"), &corev1.ConfigMap{}); (err == nil) != test.stays {
				t.Errorf("the restore point: %v", err)
			}
		})
	}
}

// lose takes away what attempts have made, whatever holds it.
func lose(t *testing.T, c client.Client, which func(client.Object) bool) {
	t.Helper()
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &rbacv1.ClusterRoleBindingList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			if !which(o) {
				return nil
			}
			o.SetFinalizers(nil)
			return errors.Join(c.Update(t.Context(), o), c.Delete(t.Context(), o))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
