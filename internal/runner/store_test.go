package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/test/env"
	"github.com/labkeeper/labkeeper/test/env/testenv"
)

// shelf is a ConfigMap on an API server. The runner that reads and writes it may do that, and nothing else.
type shelf struct {
	t     *testing.T
	admin kubernetes.Interface
	api   *flaky
	name  string
}

// flaky is a client of ConfigMaps whose updates can go wrong.
type flaky struct {
	ConfigMaps
	// before an update, and after it; an error of before keeps it from the server.
	before, after func() error
	updates       int
}

func (f *flaky) Update(ctx context.Context, c *corev1.ConfigMap, o metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	f.updates++
	if f.before != nil {
		if err := f.before(); err != nil {
			return nil, err
		}
	}
	written, err := f.ConfigMaps.Update(ctx, c, o)
	if err == nil && f.after != nil {
		if err := f.after(); err != nil {
			return nil, err
		}
	}
	return written, err
}

const namespace = "default"

// newShelf makes a ConfigMap for execution e1.
func newShelf(t *testing.T, cp *env.ControlPlane) *shelf {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	name := strings.ToLower(strings.Map(func(r rune) rune {
		if r == '/' || r == '_' || r == '\'' {
			return '-'
		}
		return r
	}, t.Name()))
	s := &shelf{t: t, admin: admin, name: name}
	s.must(admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: name, Annotations: map[string]string{AnnotationExecution: "e1"}, Labels: map[string]string{"of": "manager"}}}, metav1.CreateOptions{}))
	s.must(admin.RbacV1().Roles(namespace).Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{name}, Verbs: []string{"get", "update"}}}}, metav1.CreateOptions{}))
	s.must(admin.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}}}, metav1.CreateOptions{}))
	s.must(admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))
	path, err := cp.ServiceAccountKubeconfig(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	own, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	s.api = &flaky{ConfigMaps: own.CoreV1().ConfigMaps(namespace)}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // a grant takes a moment
		if _, err = s.api.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			break
		} else if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	if _, err := own.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("it may do more than it needs: %v", err)
	}
	return s
}

func (s *shelf) must(_ any, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shelf) get() *corev1.ConfigMap {
	s.t.Helper()
	c, err := s.admin.CoreV1().ConfigMaps(namespace).Get(s.t.Context(), s.name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *shelf) patch(patch string) {
	s.t.Helper()
	s.must(s.admin.CoreV1().ConfigMaps(namespace).Patch(s.t.Context(), s.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))
}

func (s *shelf) hand(execution string) {
	s.t.Helper()
	s.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, AnnotationExecution, execution))
}

func (s *shelf) store() Store { return NewConfigMapStore(s.api, s.name, "e1") }

// loaded is a store that has read its ConfigMap.
func (s *shelf) loaded() Store {
	s.t.Helper()
	store := s.store()
	s.must(store.Load(s.t.Context()))
	return store
}

func pointOf(keys ...string) *restore.Point {
	p := &restore.Point{Plan: "shop/nights", Target: "all", Executor: "world", Cycle: "c1"}
	for _, key := range keys {
		p.Capture(key, json.RawMessage("3"))
	}
	return p
}

func is(t *testing.T, err error, reason string) {
	t.Helper()
	if err == nil || reasonOf(err) != reason {
		t.Errorf("it is %v, and not %s", err, reason)
	}
}

func TestConfigMapStore(t *testing.T) {
	cp := testenv.Start(t)
	for name, test := range map[string]func(*shelf){
		"round trip":              roundTrip,
		"not there":               notThere,
		"corrupt":                 corrupt,
		"conflict":                conflict,
		"fence":                   fence,
		"another writer":          anotherWriter,
		"lost answer":             lostAnswer,
		"replaced":                replaced,
		"a whole night":           wholeNight,
		"lost flush":              lostFlush,
		"superseded in the night": supersededInTheNight,
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) { test(newShelf(t, cp)) })
	}
}

func roundTrip(s *shelf) {
	store := s.store()
	if p, err := store.Load(s.t.Context()); p != nil || err != nil {
		s.t.Fatalf("it is %v, %v", p, err)
	}
	s.must(nil, store.Save(s.t.Context(), nil, &Result{Execution: "e1", Reason: ReasonFailed}))
	if p, err := store.Load(s.t.Context()); p != nil || err != nil {
		s.t.Fatalf("it is %v, %v", p, err)
	}
	s.must(nil, store.Save(s.t.Context(), pointOf("a", "b"), nil))
	s.must(nil, store.Save(s.t.Context(), nil, &Result{Execution: "e1", Completed: true}))
	p, err := s.store().Load(s.t.Context())
	if err != nil || len(p.Resources) != 2 {
		s.t.Errorf("it is %v, %v", p, err)
	}
	c := s.get()
	if c.Labels["of"] != "manager" || c.Annotations[AnnotationExecution] != "e1" || !strings.Contains(c.Data[KeyResult], `"completed":true`) {
		s.t.Errorf("the ConfigMap is %+v", c)
	}
}

func notThere(s *shelf) {
	store := s.loaded()
	s.must(nil, s.admin.CoreV1().ConfigMaps(namespace).Delete(s.t.Context(), s.name, metav1.DeleteOptions{}))
	is(s.t, store.Save(s.t.Context(), pointOf("a"), nil), ReasonRestorePointLost)
	_, err := s.store().Load(s.t.Context())
	is(s.t, err, ReasonRestorePointLost)
}

func corrupt(s *shelf) {
	s.patch(`{"binaryData":{"point":"YWJj"}}`)
	before := s.get()
	w := newWorld(s.t)
	for _, result := range []Result{s.run(w, w, shutdown), s.run(w, w, wakeUp)} {
		if result.Completed || result.Reason != ReasonRestorePointLost {
			s.t.Errorf("it is %+v", result)
		}
	}
	if !maps.Equal(w.have, newWorld(s.t).have) || s.get().ResourceVersion != before.ResourceVersion {
		s.t.Error("something was touched")
	}
}

func conflict(s *shelf) {
	store := s.loaded()
	s.patch(`{"metadata":{"labels":{"more":"yes"}}}`)
	s.must(nil, store.Save(s.t.Context(), pointOf("a"), nil))
	if c := s.get(); c.Labels["more"] != "yes" || c.BinaryData[KeyPoint] == nil || s.api.updates != 2 {
		s.t.Errorf("after %d updates it is %+v", s.api.updates, c)
	}
	s.api.before = func() error { s.patch(fmt.Sprintf(`{"metadata":{"labels":{"more":"%d"}}}`, s.api.updates)); return nil }
	is(s.t, store.Save(s.t.Context(), pointOf("a"), nil), ReasonFailed) // and not forever
}

func fence(s *shelf) {
	store := s.loaded()
	s.must(nil, store.Save(s.t.Context(), pointOf("a"), nil))
	s.hand("e2")
	before := s.get()
	is(s.t, store.Save(s.t.Context(), pointOf("a", "b"), nil), ReasonSuperseded)
	_, err := s.store().Load(s.t.Context())
	is(s.t, err, ReasonSuperseded)
	if s.get().ResourceVersion != before.ResourceVersion {
		s.t.Error("it was written to")
	}
	s.patch(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, AnnotationExecution))
	_, err = s.store().Load(s.t.Context())
	is(s.t, err, ReasonSuperseded)
}

// A second pod of the same Job has looked later, and must not overwrite what the first has seen.
func anotherWriter(s *shelf) {
	first, second := s.loaded(), s.loaded()
	s.must(nil, first.Save(s.t.Context(), pointOf("a"), nil))
	is(s.t, second.Save(s.t.Context(), pointOf("b"), nil), ReasonSuperseded)
	if p, err := s.store().Load(s.t.Context()); err != nil || p.Resource("a") == nil {
		s.t.Errorf("it is %+v, %v", p, err)
	}
}

// An update that came through, and whose answer did not, is ours.
func lostAnswer(s *shelf) {
	store := s.loaded()
	s.api.after = func() error { return errors.New("connection reset") }
	is(s.t, store.Save(s.t.Context(), pointOf("a"), nil), ReasonFailed)
	s.api.after = nil
	s.must(nil, store.Save(s.t.Context(), pointOf("a", "b"), nil))
	if p, err := s.store().Load(s.t.Context()); err != nil || len(p.Resources) != 2 {
		s.t.Errorf("it is %+v, %v", p, err)
	}
}

// Where somebody has taken the point away, what the runner knows of it is written again.
func replaced(s *shelf) {
	store := s.loaded()
	s.must(nil, store.Save(s.t.Context(), pointOf("a"), nil))
	c := s.get()
	s.must(nil, s.admin.CoreV1().ConfigMaps(namespace).Delete(s.t.Context(), s.name, metav1.DeleteOptions{}))
	c.ObjectMeta = metav1.ObjectMeta{Name: c.Name, Annotations: c.Annotations}
	c.BinaryData = nil
	s.must(s.admin.CoreV1().ConfigMaps(namespace).Create(s.t.Context(), c, metav1.CreateOptions{}))
	s.must(nil, store.Save(s.t.Context(), pointOf("a"), nil))
	if p, err := s.store().Load(s.t.Context()); err != nil || p.Resource("a") == nil {
		s.t.Errorf("it is %+v, %v", p, err)
	}
}

// run runs an operation on a world by the ConfigMap.
func (s *shelf) run(w *world, e executor.Executor, operation v1alpha1.Operation) Result {
	s.t.Helper()
	w.calls = nil
	task := full
	task.Operation, task.Plan, task.Target, task.Type, task.Execution, task.Parameters = operation, "shop/nights", "all", "world", "e1", nil
	return Run(s.t.Context(), task, Deps{Store: s.store(), Executors: executor.Registry{"world": e}, Clock: w.clock})
}

// onShelf is a world whose changes are checked against the ConfigMap.
type onShelf struct {
	*world
	shelf *shelf
	// at is what happens at a change.
	at func(key string)
}

func (w *onShelf) Parse(json.RawMessage) (executor.Parameters, error)              { return w, nil }
func (w *onShelf) Open(context.Context, executor.Session) (executor.Target, error) { return w, nil }

func (w *onShelf) Shutdown(ctx context.Context, captured executor.Captured) (json.RawMessage, error) {
	w.stored = nil
	point, err := restore.Decode(w.shelf.get().BinaryData[KeyPoint])
	if err != nil {
		return nil, err
	}
	if w.stored, err = json.Marshal(point); err != nil { // which the world looks at
		return nil, err
	}
	if w.at != nil {
		w.at(captured.Key)
	}
	return w.world.Shutdown(ctx, captured)
}

func wholeNight(s *shelf) {
	w := &onShelf{world: newWorld(s.t), shelf: s}
	if r := s.run(w.world, w, shutdown); !r.Completed || r.Done != 6 {
		s.t.Fatalf("it is %+v", r)
	}
	var told Result
	if err := json.Unmarshal([]byte(s.get().Data[KeyResult]), &told); err != nil || !told.Completed || told.Done != 6 {
		s.t.Errorf("what is told is %+v, %v", told, err)
	}
	if r := s.run(w.world, w, wakeUp); !r.Completed || r.Done != 6 {
		s.t.Fatalf("it is %+v", r)
	}
	if !maps.Equal(w.have, newWorld(s.t).have) {
		s.t.Errorf("the world is %v", w.have)
	}
	if p, err := s.store().Load(s.t.Context()); err != nil || len(p.Open()) > 0 {
		s.t.Errorf("the point is %+v, %v", p, err)
	}
}

// A flush that fails is no success, whatever was done.
func lostFlush(s *shelf) {
	w := &onShelf{world: newWorld(s.t), shelf: s}
	s.api.before = func() error {
		if s.api.updates > 1 {
			return errors.New("etcdserver: request timed out")
		}
		return nil
	}
	r := s.run(w.world, w, shutdown)
	if r.Completed || r.Reason != ReasonFailed || !strings.Contains(r.Message, "request timed out") {
		s.t.Errorf("it is %+v", r)
	}
	if content, err := r.Encode(); err != nil || !bytes.Contains(content, []byte(`"completed":false`)) {
		s.t.Errorf("the termination message is %s, %v", content, err)
	}
	s.api.before = nil
	if r := s.run(w.world, w, wakeUp); !r.Completed || !maps.Equal(w.have, newWorld(s.t).have) {
		s.t.Errorf("it is %+v, and the world %v", r, w.have)
	}
}

func supersededInTheNight(s *shelf) {
	w := &onShelf{world: newWorld(s.t), shelf: s}
	var version string
	w.at = func(key string) {
		if key == "api" {
			s.hand("e2")
			version = s.get().ResourceVersion
		}
	}
	r := s.run(w.world, w, shutdown)
	if r.Completed || r.Reason != ReasonSuperseded || w.asleep("db") || s.get().ResourceVersion != version {
		s.t.Errorf("it is %+v after %v", r, w.calls)
	}
	s.hand("e1")
	if r := s.run(w.world, w, wakeUp); !r.Completed || !maps.Equal(w.have, newWorld(s.t).have) {
		s.t.Errorf("it is %+v, and the world %v", r, w.have)
	}
}
