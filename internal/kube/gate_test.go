package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// gateLab plays the passes of a controller with a gate, one after another.
type gateLab struct {
	t     *testing.T
	gate  *Gate
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
}

func newGateLab(t *testing.T, width int) *gateLab {
	l := &gateLab{t: t, gate: NewGate(width), queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	t.Cleanup(l.queue.ShutDown)
	if err := l.gate.Start(t.Context(), l.queue); err != nil {
		t.Fatal(err)
	}
	return l
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// object is one that asks.
func object(r reconcile.Request) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
}

// pass plays a pass that comes to a result if it may begin; it says whether it may.
func (l *gateLab) pass(r reconcile.Request, result reconcile.Result, err error) (entered bool) {
	l.t.Helper()
	_, got := l.gate.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		if entered = l.gate.Enter(object(r)); !entered {
			return reconcile.Result{}, nil
		}
		return result, err
	})).Reconcile(l.t.Context(), r)
	if entered && !errors.Is(got, err) {
		l.t.Fatalf("The error %v has become %v", err, got)
	}
	return entered
}

// woken are those that the gate has woken since.
func (l *gateLab) woken() (names []string) {
	for l.queue.Len() > 0 {
		r, _ := l.queue.Get()
		l.queue.Done(r)
		names = append(names, r.String())
	}
	return names
}

func (l *gateLab) expectWoken(want ...string) {
	l.t.Helper()
	if got := l.woken(); !slices.Equal(got, want) {
		l.t.Fatalf("Woken are %v, not %v", got, want)
	}
}

// expectOrder ends what begins, and what is woken by that, one after another.
func (l *gateLab) expectOrder(begins reconcile.Request, want ...string) {
	l.t.Helper()
	var order []string
	for {
		l.pass(begins, reconcile.Result{}, nil)
		woken := l.woken()
		if len(woken) == 0 {
			break
		}
		order = append(order, woken...)
		namespace, name, _ := strings.Cut(woken[0], "/")
		begins = request(namespace, name)
	}
	if !slices.Equal(order, want) {
		l.t.Errorf("They begin in the order %v, not %v", order, want)
	}
}

func TestGateLetsOneAfterAnotherIn(t *testing.T) {
	l := newGateLab(t, 1)
	first, second := request("a", "1"), request("a", "2")
	again := reconcile.Result{RequeueAfter: AtOnce}
	if !l.pass(first, again, nil) {
		t.Fatal("The first one must wait")
	}
	for range 2 { // however often it is looked at
		if l.pass(second, reconcile.Result{}, nil) {
			t.Fatal("The second one may begin while the first goes on")
		}
	}
	l.expectWoken()
	if !l.pass(first, reconcile.Result{}, nil) {
		t.Fatal("The first one must wait in its second pass")
	}
	l.expectWoken("a/2")
	if l.pass(request("a", "3"), reconcile.Result{}, nil) {
		t.Fatal("A third one may begin before the one that was woken")
	}
	if !l.pass(second, reconcile.Result{}, nil) {
		t.Fatal("The second one must wait although it was woken")
	}
	l.expectWoken("a/3")
}

func TestGateTellsHowManyWait(t *testing.T) {
	l := newGateLab(t, 1)
	expect := func(want int) {
		t.Helper()
		text := fmt.Sprintf("# HELP labkeeper_waiting_to_begin Objects that have not begun because as many as may do so at the same time are beginning.\n"+
			"# TYPE labkeeper_waiting_to_begin gauge\nlabkeeper_waiting_to_begin{controller=\"lab\"} %d\n", want)
		if err := testutil.CollectAndCompare(l.gate.Gauge("lab"), strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	expect(0)
	l.pass(request("a", "1"), reconcile.Result{RequeueAfter: AtOnce}, nil)
	expect(0)
	for _, r := range []reconcile.Request{request("a", "2"), request("a", "2"), request("b", "1")} {
		l.pass(r, reconcile.Result{}, nil)
	}
	expect(2)
	l.pass(request("a", "1"), reconcile.Result{}, nil)
	expect(1)
}

func TestGateTakesTurnsBetweenNamespaces(t *testing.T) {
	l := newGateLab(t, 1)
	l.pass(request("a", "0"), reconcile.Result{RequeueAfter: AtOnce}, nil)
	for _, r := range []reconcile.Request{request("a", "1"), request("a", "2"), request("a", "3"), request("b", "1"), request("c", "1"), request("b", "2")} {
		l.pass(r, reconcile.Result{}, nil)
	}
	l.expectOrder(request("a", "0"), "a/1", "b/1", "c/1", "a/2", "b/2", "a/3")
}

// Workers ask in an order that nobody chose.
func TestGateLetsTheOldestInFirst(t *testing.T) {
	l := newGateLab(t, 1)
	first := request("a", "0")
	l.pass(first, reconcile.Result{RequeueAfter: AtOnce}, nil)
	created := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	for _, o := range []struct {
		name    string
		after   time.Duration
		version string
	}{
		{"odd-1", 2 * time.Second, "b"}, {"odd-2", 2 * time.Second, "a"}, // such versions tell nothing
		{"late", time.Second, "90"}, {"third", 0, "103"}, {"first", 0, "99"}, {"second", 0, "101"},
	} {
		asks := object(request("a", o.name))
		asks.CreationTimestamp, asks.ResourceVersion = metav1.NewTime(created.Add(o.after)), o.version
		if l.gate.Enter(asks) {
			t.Fatalf("%s may begin while another does", o.name)
		}
	}
	l.expectOrder(first, "a/first", "a/second", "a/third", "a/late", "a/odd-1", "a/odd-2")
}

func TestGateIsLeftByEveryPass(t *testing.T) {
	for name, leave := range map[string]func(l *gateLab, r reconcile.Request){
		"an error": func(l *gateLab, r reconcile.Request) { l.pass(r, reconcile.Result{}, errors.New("refused")) },
		"an object that is gone": func(l *gateLab, r reconcile.Request) {
			gone := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil })
			_, _ = l.gate.Wrap(gone).Reconcile(l.t.Context(), r)
		},
		"a panic": func(l *gateLab, r reconcile.Request) {
			defer func() { _ = recover() }()
			_, _ = l.gate.Wrap(reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { panic("a bug") })).Reconcile(l.t.Context(), r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newGateLab(t, 1)
			l.pass(request("a", "1"), reconcile.Result{RequeueAfter: AtOnce}, nil)
			l.pass(request("a", "2"), reconcile.Result{}, nil)
			leave(l, request("a", "1"))
			l.expectWoken("a/2")
		})
	}
}

// An object can be let in while the pass goes on in which it had to wait.
func TestGateKeepsThePlaceOfOneThatIsWokenMeanwhile(t *testing.T) {
	for name, waits := range map[string]bool{"when it has been told to wait": true, "before it asks": false} {
		t.Run(name, func(t *testing.T) {
			l := newGateLab(t, 1)
			first, second := request("a", "1"), request("a", "2")
			l.pass(first, reconcile.Result{RequeueAfter: AtOnce}, nil)
			for _, r := range []reconcile.Request{second, request("a", "3")} {
				l.pass(r, reconcile.Result{}, nil)
			}
			meanwhile := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				if waits && l.gate.Enter(object(second)) {
					t.Error("It may begin while the first goes on")
				}
				l.pass(first, reconcile.Result{}, nil)
				if !waits && !l.gate.Enter(object(second)) {
					t.Error("It must wait although it was woken")
				}
				return reconcile.Result{}, nil
			})
			if _, err := l.gate.Wrap(meanwhile).Reconcile(t.Context(), second); err != nil {
				t.Fatal(err)
			}
			if !waits { // it has begun, and the third is next
				l.expectWoken("a/2", "a/3")
				return
			}
			l.expectWoken("a/2")
			if !l.pass(second, reconcile.Result{}, nil) {
				t.Error("It must wait again")
			}
			l.expectWoken("a/3")
		})
	}
}

// One that is deleted while it waits, and created again, waits behind those that are older than it is.
func TestGateForgetsThePlaceOfOneThatIsGone(t *testing.T) {
	l := newGateLab(t, 1)
	first := request("a", "0")
	l.pass(first, reconcile.Result{RequeueAfter: AtOnce}, nil)
	created := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	asks := func(name string, uid types.UID, after time.Duration) {
		o := object(request("a", name))
		o.UID, o.CreationTimestamp = uid, metav1.NewTime(created.Add(after))
		if l.gate.Enter(o) {
			t.Fatalf("%s may begin while another does", name)
		}
	}
	asks("again", "1", 0)
	asks("other", "2", time.Second)
	asks("again", "3", 2*time.Second)
	asks("again", "3", 2*time.Second)
	l.expectOrder(first, "a/other", "a/again")
}

func TestGateIsAsWideAsItIsMade(t *testing.T) {
	l := newGateLab(t, 2)
	again := reconcile.Result{RequeueAfter: AtOnce}
	for i, want := range []bool{true, true, false} {
		if got := l.pass(request("a", string(rune('1'+i))), again, nil); got != want {
			t.Errorf("Object %d: it may begin: %v", i+1, got)
		}
	}
}
