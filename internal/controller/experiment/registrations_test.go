package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// existingTarget is one on the cluster of a Secret.
func existingTarget(name, secret string) v1alpha1.Target {
	target := targetOf(name, v1alpha1.ClusterExisting)
	target.Cluster.KubeconfigSecret = &v1alpha1.SecretKey{Name: secret, Key: "config"}
	return target
}

// other is a kubeconfig of the same cluster with other credentials.
func other(name string) client.Object {
	secret := staging(strings.Replace(kubeconfig, "canary-token", "canary-"+name, 1))
	secret.Name = name
	return secret
}

// registeredOnce says whether Argo CD knows each address by one set of credentials, and which Secrets there are.
func (l *lab) registeredOnce() (once bool, secrets []string) {
	l.t.Helper()
	configs := map[string]string{}
	once = true
	for _, secret := range l.list(argocd.SecretGVK) {
		server, _ := secretValue(&secret, "server")
		config, _ := secretValue(&secret, "config")
		before, known := configs[string(server)]
		once = once && (!known || before == string(config))
		configs[string(server)] = string(config)
		secrets = append(secrets, secret.GetName())
	}
	return once, secrets
}

// Of two targets that register one cluster in one pass, with different credentials, the first in the spec does.
func TestTwoTargetsRegisterOneCluster(t *testing.T) {
	l := newLab(t, experimentOf(existingTarget("app", "staging"), existingTarget("loadgen", "theirs")), staging(kubeconfig), other("theirs"), nginx(), template())
	for range 4 {
		l.mustReconcile()
		l.play()
	}
	if once, secrets := l.registeredOnce(); !once || len(secrets) != 1 || !strings.Contains(secrets[0], "tutorial-app") {
		t.Errorf("registered are %v", secrets)
	}
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if m := l.message(v1alpha1.ConditionClustersReady); !strings.HasPrefix(m, "Target loadgen: ") || !strings.Contains(m, "Secret argocd/cluster-tutorial-app") {
		t.Errorf("it says %q", m)
	}
	for _, app := range l.list(argocd.ApplicationGVK) {
		if app.GetLabels()[v1alpha1.LabelTarget] != "app" {
			t.Errorf("there is %s", kube.Describe(&app))
		}
	}
}

// A kubeconfig that is late is looked for as soon as ever, whatever of the same Experiment is looked at later.
func TestLateKubeconfigBesideATakenName(t *testing.T) {
	l := newLab(t, experimentOf(existingTarget("a", "late"), existingTarget("b", "staging"), existingTarget("c", "theirs")),
		staging(kubeconfig), other("theirs"), nginx(), template())
	l.mustReconcile()
	l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	if wait := l.pass(); wait != secretDelay {
		t.Errorf("it looks again after %s", wait)
	}
}

// So is a Workflow that the cache does not have, whose end nobody tells.
func TestUnseenWorkflowBesideADisconnectedCluster(t *testing.T) {
	l := newLab(t, onExisting(staging(kubeconfig))...)
	l.until(v1alpha1.PhaseRunning)
	l.reconciler.Foreign = without{l.client, "Workflow"}
	l.disconnect("ComparisonError", "the server has asked for the client to provide credentials")
	if wait := l.pass(); wait != leftoverDelay {
		t.Errorf("it looks again after %s", wait)
	}
}

// meanwhile is a live client of a pass in which something happens after cluster Secrets were listed.
type meanwhile struct {
	client.Client
	happens func()
}

func (m *meanwhile) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	err := m.Client.List(ctx, list, opts...)
	if happens := m.happens; happens != nil && list.GetObjectKind().GroupVersionKind().Kind == "SecretList" {
		m.happens = nil
		happens()
	}
	return err
}

// meeting is two Experiments, tutorial and second, that register one cluster with different credentials, each by a manager.
type meeting struct {
	*lab
	managers map[string]*Reconciler
}

// newMeeting is of so many managers, and both have begun.
func newMeeting(t *testing.T, managers int) *meeting {
	t.Helper()
	second := experimentOf(existingTarget("app", "theirs"))
	second.Name, second.UID = "second", "22222222-2222-3333-4444-555555555555"
	l := newLab(t, experimentOf(existingTarget("app", "staging")), staging(kubeconfig), other("theirs"), nginx(), template())
	l.create(second)
	l.reconciler.Gate = kube.NewGate(2)
	beside := l.reconciler
	if managers == 2 {
		l.reconciler.Options.WatchNamespaces = []string{"lab"}
		beside = &Reconciler{
			Client: l.client, Foreign: l.client, Live: l.client, Kinds: l.kinds, Recorder: l.recorder, Clock: l.clock,
			Gate: kube.NewGate(1), memory: newMemory(), Options: l.reconciler.Options,
		}
	}
	m := &meeting{l, map[string]*Reconciler{"tutorial": l.reconciler, "second": beside}}
	m.pass("second")
	m.pass("tutorial")
	return m
}

// pass looks at one of the two. By one manager Argo CD never knows the cluster twice.
func (m *meeting) pass(name string) {
	m.t.Helper()
	e := &v1alpha1.Experiment{}
	if err := m.client.Get(m.t.Context(), types.NamespacedName{Namespace: "lab", Name: name}, e); err != nil {
		m.t.Fatal(err)
	}
	if _, err := m.managers[name].Reconcile(m.t.Context(), e); err != nil && !kube.Conflict(err) {
		m.t.Fatal(err)
	}
	if once, secrets := m.registeredOnce(); !once && m.managers["second"] == m.managers["tutorial"] {
		m.t.Fatalf("after a pass over %s Argo CD knows the cluster twice: %v", name, secrets)
	}
}

// winner is the one that is registered, which only one is, and has an Application, which the other has not.
func (m *meeting) winner() string {
	m.t.Helper()
	once, secrets := m.registeredOnce()
	apps := m.list(argocd.ApplicationGVK)
	if !once || len(secrets) != 1 || len(apps) != 1 {
		m.t.Fatalf("registered are %v, and there are %d Applications", secrets, len(apps))
	}
	name := strings.Split(secrets[0], "-")[1]
	if owner := apps[0].GetAnnotations()[v1alpha1.AnnotationOwner]; owner != "lab/"+name {
		m.t.Fatalf("%s is registered, and the Application is that of %s", name, owner)
	}
	return name
}

// blinded is a live client that cannot list cluster Secrets once, at a time.
type blinded struct {
	client.Client
	lists, at int
}

func (b *blinded) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind().Kind == "SecretList" {
		if b.lists++; b.lists == b.at {
			return errors.New("the API server is away")
		}
	}
	return b.Client.List(ctx, list, opts...)
}

// Who cannot look whether another has registered the cluster, too, keeps what it has registered, deploys nothing, and looks again.
func TestRegistrationThatCannotBeLookedAt(t *testing.T) {
	for name, met := range map[string]bool{"alone": false, "beside another": true} {
		t.Run(name, func(t *testing.T) {
			m := newMeeting(t, 2)
			m.reconciler.Live = &meanwhile{&blinded{Client: m.client, at: 2}, func() {
				if met {
					m.pass("second")
				}
			}}
			if _, err := m.reconciler.Reconcile(t.Context(), m.get()); err == nil {
				t.Error("it has not looked")
			}
			_, secrets := m.registeredOnce()
			deployed := slices.ContainsFunc(m.list(argocd.ApplicationGVK), func(app unstructured.Unstructured) bool {
				return app.GetAnnotations()[v1alpha1.AnnotationOwner] == "lab/tutorial"
			})
			if deployed || len(secrets) != map[bool]int{false: 1, true: 2}[met] {
				t.Fatalf("registered are %v, and it is deployed: %t", secrets, deployed)
			}
			uid := m.list(argocd.SecretGVK)[0].GetUID()
			for range 4 {
				m.pass("tutorial")
				if met {
					m.pass("second")
				}
			}
			m.winner()
			if now := m.list(argocd.SecretGVK)[0].GetUID(); !met && now != uid {
				t.Error("it was registered anew")
			}
		})
	}
}

// Two Experiments register one cluster at the same moment, with different credentials: only one of them does, and nothing of the
// other is deployed; when that is gone, the other is registered.
func TestTwoExperimentsRegisterOneCluster(t *testing.T) {
	for name, managers := range map[string]int{"one manager": 1, "two managers": 2} {
		t.Run(name, func(t *testing.T) {
			m := newMeeting(t, managers)
			met := false
			m.reconciler.Live = &meanwhile{m.client, func() { met = true; m.pass("second") }}
			m.pass("tutorial")
			if once, secrets := m.registeredOnce(); !met || !once || len(secrets) != 1 {
				t.Fatalf("they met: %t, and registered are %v", met, secrets)
			}
			for range 4 {
				m.pass("tutorial")
				m.pass("second")
			}
			loser := map[string]string{"tutorial": "second", "second": "tutorial"}[m.winner()]
			m.experiment.Name = loser
			m.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)

			m.delete(argocd.SecretGVK)
			m.later(2 * time.Minute)
			m.settle(func() bool { return false })
			if _, secrets := m.registeredOnce(); !slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(s, loser) }) {
				t.Errorf("%s is not registered, when the other is gone: %v", loser, secrets)
			}
		})
	}
}

// stopped is a live client of a manager that is stopped when it has written a cluster Secret.
type stopped struct {
	client.Client
	gone bool
}

var errStopped = errors.New("the manager is gone")

func (s *stopped) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if s.gone {
		return errStopped
	}
	s.gone = kindOf(o) == "Secret"
	return s.Client.Create(ctx, o, opts...)
}

func (s *stopped) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if s.gone {
		return errStopped
	}
	return s.Client.List(ctx, list, opts...)
}

func (s *stopped) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if s.gone {
		return errStopped
	}
	return s.Client.Delete(ctx, o, opts...)
}

// Of two managers that register one cluster at the same moment one is stopped before it looks again: who comes after it takes that
// back, and nothing of what the other has deployed, also where its cache does not have that.
func TestStoppedBeforeItLooksAgain(t *testing.T) {
	m := newMeeting(t, 2)
	dies := &stopped{Client: m.client}
	m.reconciler.Live = &meanwhile{dies, func() { m.pass("second") }}
	e := m.get()
	if _, err := m.reconciler.Reconcile(t.Context(), e); err == nil || !dies.gone {
		t.Fatalf("the manager was not stopped: %v", err)
	}
	if once, secrets := m.registeredOnce(); once || len(secrets) != 2 {
		t.Fatalf("registered are %v, want both", secrets)
	}
	m.managers["second"].Foreign = without{m.client, "Application"}
	m.pass("second")
	if _, secrets := m.registeredOnce(); len(secrets) != 2 {
		t.Fatalf("the one whose Application is there has taken its Secret back: %v", secrets)
	}
	m.reconciler.Live, m.reconciler.registrations.all = m.client, nil
	m.pass("tutorial")
	if winner := m.winner(); winner != "second" {
		t.Errorf("registered is %s, which has nothing deployed", winner)
	}
	m.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
	m.pass("tutorial")
	m.winner()
}

// unwritten is a live client that fails to write cluster Secrets.
type unwritten struct {
	client.Client
	err error
}

func (u unwritten) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if kindOf(o) == "Secret" {
		return u.err
	}
	return u.Client.Create(ctx, o, opts...)
}

// An Experiment that errs in every pass has no address that another could register, unless what came of its write is not known.
func TestErringHoldsNoAddress(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "cluster-tutorial-app", errors.New("exceeded quota"))
	for name, test := range map[string]struct {
		err   error
		waits bool
	}{
		"refused": {refused, false},
		"lost":    {errors.New("connection reset by peer"), true},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeeting(t, 1)
			errs := func() {
				m.reconciler.Live = unwritten{m.client, test.err}
				m.experiment.Name = "tutorial"
				if _, err := m.reconciler.Reconcile(t.Context(), m.get()); err == nil {
					t.Fatal("it does not err")
				}
				m.reconciler.Live = m.client
			}
			registered := func() bool {
				m.pass("second")
				return len(m.list(argocd.SecretGVK)) > 0
			}
			errs()
			if got := registered(); got == test.waits {
				t.Fatalf("the other is registered: %t", got)
			}
			if !test.waits {
				return
			}
			if m.later(timeout); !registered() {
				t.Error("the other is not registered when the write has had its time")
			}
		})
	}
}

// A registration that was not made holds nobody up for longer than its pass may take.
func TestRegistrationsThatAreNotMade(t *testing.T) {
	credentials := func(token string) argocd.Credentials {
		c, err := argocd.ParseKubeconfig([]byte(strings.Replace(kubeconfig, "canary-token", token, 1)), argocd.Untrusted)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	named := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "argocd", Name: name} }
	mine := registering{named("a"), "a", "lab/a/config", credentials("a"), epoch.Add(timeout), false}
	theirs := registering{named("b"), "b", "lab/b/config", credentials("b"), epoch.Add(time.Hour), false}
	for name, test := range map[string]struct {
		happens func(*registrations)
		after   time.Duration
		clashes bool
	}{
		"at the same moment": {func(*registrations) {}, 0, true},
		"given up":           {func(r *registrations) { r.giveUp(mine.secret) }, 0, false},
		"ended":              {func(r *registrations) { r.end("a") }, 0, false},
		"another's end":      {func(r *registrations) { r.end("b") }, 0, true},
		"its time is over":   {func(*registrations) {}, timeout, false},
		"the same again":     {func(r *registrations) { r.begin(mine, epoch) }, 0, true},
		"in doubt":           {func(r *registrations) { r.doubt(mine.secret); r.begin(mine, epoch); r.end("a") }, 0, true},
		"in doubt for long": {func(r *registrations) {
			r.doubt(mine.secret)
			later := mine
			later.until = later.until.Add(timeout)
			r.begin(later, epoch)
			r.end("a")
		}, timeout, false},
	} {
		r := &registrations{}
		if _, clashes := r.begin(mine, epoch); clashes {
			t.Fatalf("%s: the first clashes", name)
		}
		test.happens(r)
		if clash, clashes := r.begin(theirs, epoch.Add(test.after)); clashes != test.clashes || clashes && clash != mine.secret {
			t.Errorf("%s: it clashes: %t, with %s", name, clashes, clash)
		}
	}
	same, elsewhere := theirs, theirs
	same.credentials = mine.credentials
	elsewhere.credentials.Server = "https://203.0.113.99"
	rotated := theirs
	rotated.source = mine.source
	for name, other := range map[string]registering{"the same credentials": same, "another server": elsewhere, "the same kubeconfig": rotated} {
		r := &registrations{}
		r.begin(mine, epoch)
		if _, clashes := r.begin(other, epoch); clashes {
			t.Errorf("%s: it clashes", name)
		}
	}
}

// selected is a live client that keeps by which labels cluster Secrets were listed, and since when the server may have known them.
type selected struct {
	client.Client
	all *[]string
	// restored: the server has been put back to a time before that.
	restored bool
}

func (s selected) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if list.GetObjectKind().GroupVersionKind().Kind == "SecretList" {
		o := (&client.ListOptions{}).ApplyOptions(opts)
		asked := o.LabelSelector.String()
		if o.Raw != nil {
			asked += fmt.Sprintf(" %s %s", o.Raw.ResourceVersionMatch, o.Raw.ResourceVersion)
		}
		if *s.all = append(*s.all, asked); o.Raw != nil && s.restored {
			return apierrors.NewTimeoutError("Too large resource version", 1)
		}
	}
	return s.Client.List(ctx, list, opts...)
}

// That there is none at an address is believed of what the server has at hand, if that is all that this manager has written. What there
// is, is that of this moment.
func TestRegistrationsAtHand(t *testing.T) {
	const atHand, now = "NotOlderThan 7", ""
	for name, test := range map[string]struct {
		seen     string
		others   []string // managers' namespaces
		there    bool
		restored bool
		asked    []string
		after    string // is known
	}{
		"none":              {seen: "7", asked: []string{atHand}},
		"another's":         {seen: "7", there: true, asked: []string{atHand, now}},
		"nothing is known":  {asked: []string{now}},
		"the server is not": {seen: "7", restored: true, asked: []string{atHand, now}},
		"several managers":  {seen: "7", others: []string{"lab"}, asked: []string{now, now}}, // once more afterwards
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE)), nginx(), template())
			if test.there {
				theirs := registrationOf(t, "theirs", strings.Replace(kubeconfig, "canary-token", "canary-other", 1))
				theirs.SetLabels(map[string]string{
					"argocd.argoproj.io/secret-type": "cluster", v1alpha1.LabelExperimentUID: "99999999-2222-3333-4444-555555555555",
					labelServer: serverLabel("https://203.0.113.10"),
				})
				l.create(theirs)
			}
			l.reconciler.Options.WatchNamespaces = test.others
			l.reconciler.labelled.Store(true)
			l.reconciler.registrations.saw(test.seen)
			var all []string
			l.reconciler.Live = selected{l.client, &all, test.restored}
			for range 20 {
				if l.mustReconcile(); len(all) > 0 {
					break
				}
				l.play()
			}
			if len(all) != len(test.asked) {
				t.Fatalf("asked for %q", all)
			}
			for i, want := range test.asked {
				if !strings.Contains(all[i], labelServer+"="+serverLabel("https://203.0.113.10")) || strings.Contains(all[i], "NotOlderThan") != (want != "") || !strings.HasSuffix(all[i], want) {
					t.Errorf("asked for %q, want those of the server, %s", all[i], want)
				}
			}
			if test.there {
				l.expect(v1alpha1.ConditionClustersReady, metav1.ConditionFalse, v1alpha1.ReasonNameTaken)
				return
			}
			written := l.read(argocd.SecretGVK, "argocd", l.list(argocd.SecretGVK)[0].GetName())
			if seen := l.reconciler.registrations.version(); test.seen == "" && seen != written.GetResourceVersion() {
				t.Errorf("%s is known of %s", seen, written.GetResourceVersion())
			}
		})
	}
}

// All that Experiments have registered are listed until it is known that each tells its server by a label, and then those of the server.
func TestRegistrationsOfOldVersionsAreListed(t *testing.T) {
	l := newLab(t, experimentOf(targetOf("a", v1alpha1.ClusterGKE), targetOf("b", v1alpha1.ClusterGKE)), nginx(), template())
	old := registrationOf(t, "old", strings.Replace(kubeconfig, "203.0.113.10", "203.0.113.99", 1))
	old.SetLabels(map[string]string{"argocd.argoproj.io/secret-type": "cluster", v1alpha1.LabelExperimentUID: "99999999-2222-3333-4444-555555555555"})
	l.create(old)
	var all []string
	l.reconciler.Live = selected{l.client, &all, false}
	l.until(v1alpha1.PhaseReady)
	wide := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return strings.Contains(s, labelServer) })
	if len(wide) != 2 || len(all) != 2 || l.reconciler.labelled.Load() {
		t.Errorf("with one of an old version they are listed by %q", all)
	}
	l.deleteObject(old)
	all = nil
	l.delete(argocd.ApplicationGVK)
	l.tick(l.play)
	if len(all) != 3 || strings.Contains(all[0], labelServer) || !strings.Contains(all[1], labelServer+"="+serverLabel("https://203.0.113.10")) ||
		!strings.Contains(all[1], "NotOlderThan") || strings.Contains(all[2], "NotOlderThan") { // the first has its own there
		t.Errorf("when that is gone they are listed by %q", all)
	}
}
