package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// World is what a reconciler lives in.
type World struct {
	// Kinds are recorded: those of the workloads and of everything that comes of them.
	Kinds []schema.GroupVersionResource
	// Run is the namespace of the run that an object belongs to, or the one beside that; empty if it belongs to none.
	Run func(*unstructured.Unstructured) string
	// Role is what an object is to its owner, the same in every run.
	Role func(*unstructured.Unstructured) string
	// Readable writes out what an object holds in a form that names cannot be masked in; nil if none does.
	Readable func(*unstructured.Unstructured)
	// Owner is the UID of the object that must not go before this one does; empty if there
	// is none.
	Owner func(*unstructured.Unstructured) types.UID
	// Others says whether an object is somebody else's, which the manager writes in no way; nil says it of none.
	Others func(*unstructured.Unstructured) bool
	// Rank orders the phases that an object goes through; ok is false for what has none.
	Rank func(*unstructured.Unstructured) (rank int, ok bool)
	// Cycle tells the passes through the phases apart of a kind that goes through them again
	// by design, for instance by its generation: ranks are compared within one of them. Nil is
	// one cycle for the life of every object.
	Cycle func(*unstructured.Unstructured) string
	// Forbids says why an object must not become what it is from what it was just before, in
	// the same cycle; empty is that it may. Nil allows everything that the rank does.
	Forbids func(before, after *unstructured.Unstructured) string
	// TakesBack says whether an object may say nothing any more of a condition that it has told of the same generation, because
	// what that was about is gone. Nil is that it may not.
	TakesBack func(after *unstructured.Unstructured, condition string) bool
	// Invariants are what must be true whenever something has changed, by name. Each sees all
	// that has happened until then, of all kinds and in the order in which it was stored, and
	// says what is wrong with the last of it; empty is nothing.
	Invariants map[string]func(history []Entry) string
	// Play takes the steps that the outside systems take when they see the state. It is
	// called again after every change, and once more after an error.
	Play func(context.Context, *Stage, State) error
	// QuietWhenLate says that the manager logs no error when its cache is late, either.
	QuietWhenLate bool
	// Secrets are strings that must never be in a log, nor in any object or request that is not
	// of a Secret: see Disguises.
	Secrets []string
	// Sees narrows what managers list and watch, by kind, to what belongs to the run in a namespace, where no flag of theirs
	// does: runs would be in each other's way. Values are those of a query, as labelSelector. Nil narrows nothing.
	Sees func(namespace string) map[schema.GroupResource]url.Values
	// Manager are the arguments of a manager that looks after one namespace.
	Manager func(namespace string) []string
}

// run is the namespace of the run that an object belongs to; empty if it belongs to none.
func (w World) run(u *unstructured.Unstructured) string { return strings.TrimSuffix(w.Run(u), Beside) }

// Disguises are the ways in which a secret of at least eight bytes may be written: as it is, and as
// a part of something that is encoded in base64, which looks different at every third byte.
func Disguises(secret string) []string {
	out := []string{secret}
	for before := range 3 {
		whole := 3 * ((len(secret) + before) / 3) // bytes that the encoding does not share with what follows
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + secret)[:whole])
		out = append(out, encoded[min(1, before)*4:])
	}
	return out
}

// RunNamespace stands for the namespace of a run.
const RunNamespace = "$(run)"

// Beside ends the name, after that of the namespace, of the other one of a workload that has two.
const Beside = "-beside"

// InOther are some objects in the other namespace of a run.
func InOther(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range objects {
		o.SetNamespace(RunNamespace + Beside)
	}
	return objects
}

// inRun is an object of a workload as it is in a run.
func inRun(o *unstructured.Unstructured, namespace string) (*unstructured.Unstructured, error) {
	text, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(bytes.ReplaceAll(text, []byte(RunNamespace), []byte(namespace)))
}

// Half is a half of the modes: every second one. Kills are in both.
type Half int

// The halves.
const (
	NoHalf Half = iota
	FirstHalf
	SecondHalf
)

// of are its modes among all: none of those that there is no half of.
func (h Half) of(modes []Mode) []Mode {
	out := modes[:1:1]
	for i, m := range modes[1:] {
		if i%2 == int(h)-1 {
			out = append(out, m)
		}
	}
	return out
}

// Workload is something that users do.
type Workload struct {
	Name string
	// Objects are applied in their order; those without a namespace go to that of the run, which
	// RunNamespace stands for in their texts.
	Objects []*unstructured.Unstructured
	// Beside says that there is another namespace, too, which is of the run as well: RunNamespace and Beside.
	Beside bool
	// Holds are the steps that the outsides do not take: the World knows them by name.
	Holds []string
	// Args are flags of the manager beside those of the World, in which RunNamespace stands for that as well.
	Args []string
	// Steps are taken one after the other.
	Steps []Step
	// Done says whether what was asked for has come about, once all steps are taken.
	Done func(State) bool
	// Sampled is the half of the modes in which make test plays it: it allows every mode that is possible in its kind, and waits for
	// nobody for seconds.
	Sampled Half
	// Breaks are the names of the invariants that the workload breaks, as it may: one that it does not is a finding.
	Breaks []string
	// Leaves are the roles of objects that outlive their owner: one that does not is a finding, too.
	Leaves []string
	// Logs are words of the errors that the manager logs even when nothing disturbs it.
	Logs []string
}

// Step is something that a user does when he sees something.
type Step struct {
	When func(State) bool
	Do   func(context.Context, *Stage) error
}

// At is a step of several actions at one moment.
func At(when func(State) bool, do ...func(context.Context, *Stage) error) Step {
	return Step{When: when, Do: func(ctx context.Context, s *Stage) error {
		for _, act := range do {
			if err := act(ctx, s); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Stage is where a run takes place.
type Stage struct {
	Namespace string
	Client    client.Client
	// Server is the address of the API server.
	Server   string
	workload Workload
	manager  *manager
	proxy    *proxy
	advance  func(context.Context, time.Duration) error
	due      func(context.Context, time.Duration) error
	tick     func(context.Context, time.Duration) error
	settle   func(context.Context) error

	mu sync.Mutex
	// released are the steps that the workload does not hold any more.
	released map[string]bool
}

// Advance moves the clock of the manager on while it is down: a manager sleeps by the clock of
// the machine, and looks at everything when it starts.
func (s *Stage) Advance(ctx context.Context, d time.Duration) error { return s.advance(ctx, d) }

// Due moves the clock of the manager on to a moment in which something is due, and not further: what is late is not done then.
// A second before, the manager looks, too, when it has nothing to write.
func (s *Stage) Due(ctx context.Context, d time.Duration) error { return s.due(ctx, d) }

// Settle returns when the manager has nothing left to ask for, and one that was put back in time has come back: what it tells of
// before takes the time that it takes, which is no fault of what comes after. Where the API server is to be restarted it waits for nothing.
func (s *Stage) Settle(ctx context.Context) error { return s.settle(ctx) }

// Holds says whether the workload keeps an outside from a step, if only until it releases it.
func (s *Stage) Holds(step string) bool {
	return slices.Contains(s.workload.Holds, step)
}

// Release lets an outside take a step that the workload holds.
func (s *Stage) Release(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.released == nil {
		s.released = map[string]bool{}
	}
	s.released[step] = true
}

// Hold keeps an outside from a step again that the workload holds, and has let it take.
func (s *Stage) Hold(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.released, step)
}

// Held says whether an outside is still kept from a step.
func (s *Stage) Held(step string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Holds(step) && !s.released[step]
}

// Apply creates the objects of the workload.
func (s *Stage) Apply(ctx context.Context) error {
	for _, o := range s.workload.Objects {
		if err := s.Create(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Create creates an object as it is in the run.
func (s *Stage) Create(ctx context.Context, o *unstructured.Unstructured) error {
	u, err := s.there(o)
	if err == nil {
		err = s.Client.Create(ctx, u)
	}
	if err != nil {
		return fmt.Errorf("creating %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// Delete deletes what Create has created.
func (s *Stage) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	u, err := s.there(o)
	if err == nil {
		err = s.Client.Delete(ctx, u)
	}
	if err != nil {
		return fmt.Errorf("deleting %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// Patch changes what Create has created.
func (s *Stage) Patch(ctx context.Context, o *unstructured.Unstructured, patch client.Patch) error {
	u, err := s.there(o)
	if err == nil {
		err = s.Client.Patch(ctx, u, patch)
	}
	if err != nil {
		return fmt.Errorf("changing %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	return nil
}

// there is an object as it is in the run.
func (s *Stage) there(o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	u, err := inRun(o, s.Namespace)
	if err != nil {
		return nil, err
	}
	namespaced, err := s.Client.IsObjectNamespaced(u)
	if namespaced && u.GetNamespace() == "" {
		u.SetNamespace(s.Namespace)
	}
	return u, err
}
