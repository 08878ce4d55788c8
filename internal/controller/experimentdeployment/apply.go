package experimentdeployment

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// foreground deletes what a twin has made before the twin, so that one that is gone has no pods.
var foreground = client.PropagationPolicy(metav1.DeletePropagationForeground)

func (s *scope) writer() kube.Writer {
	return kube.Writer{Client: s.Live, Marks: marks, Owner: s.owner}
}

// apply carries the plan out.
func (s *scope) apply(ctx context.Context) error {
	if s.plan.Expire {
		log.FromContext(ctx).Info("Deleting expired ExperimentDeployment")
		return kube.Expire(ctx, s.Client, s.owner)
	}
	if err := s.current(ctx); err != nil {
		return err
	}
	if err := s.pin(ctx); err != nil {
		return err
	}
	if s.contended = s.contend(); s.contended {
		return nil
	}
	if err := s.act(ctx); err != nil || s.plan.Unpin == nil || s.stillPinned() {
		return err
	}
	return s.writer().Delete(ctx, s.plan.Unpin)
}

// pin keeps what the source is. In another namespace than its owner's, where that is forced away, it is found by its twin alone: it is
// made for none that the API server would refuse.
func (s *scope) pin(ctx context.Context) error {
	if s.plan.Pin == nil {
		return nil
	}
	if s.plan.Action == Create && s.plan.Pin.GetNamespace() != s.owner.Namespace {
		if err := s.possible(ctx, s.plan.Twin); err != nil {
			return err
		}
	}
	if err := s.sourceStands(ctx); err != nil {
		return err
	}
	if s.plan.Displaced != nil {
		if err := s.writer().Delete(ctx, s.plan.Displaced); err != nil {
			return err
		}
	}
	_, _, err := s.create(ctx, s.plan.Pin)
	return err
}

// sourceStands is a conflict unless the server has the source as it was looked at, and what that refers to: what is kept of it is never
// changed.
func (s *scope) sourceStands(ctx context.Context) error {
	rests := []*unstructured.Unstructured{s.seen.Source}
	if s.seen.Workload != nil {
		workload := kube.Empty(twin.Kinds["Deployment"])
		workload.SetNamespace(s.seen.Source.GetNamespace())
		workload.SetName(referred(s.seen.Source).name)
		workload.Object["spec"] = s.seen.Workload
		rests = append(rests, workload)
	}
	for _, seen := range rests {
		found, err := kube.Get(ctx, s.Live, seen.GroupVersionKind(), client.ObjectKeyFromObject(seen))
		if err != nil {
			return err
		}
		if found == nil || !equality.Semantic.DeepEqual(found.Object["spec"], seen.Object["spec"]) {
			return fmt.Errorf("keeping the spec of %s: %w", kube.Describe(seen), kube.Stale(seen, "it is not what the cache has"))
		}
	}
	return nil
}

// stillPinned says whether the twin, as it is now, is made of what was kept of its source.
func (s *scope) stillPinned() bool {
	is := s.seen.Twin
	switch s.plan.Action {
	case Create, Update:
		is = s.plan.Twin
	case Delete:
		return false
	}
	return saysPinned(is)
}

// act writes the twin.
func (s *scope) act(ctx context.Context) error {
	log := log.FromContext(ctx)
	switch s.plan.Action {
	case Create:
		log.Info("Creating twin", "twin", kube.Describe(s.plan.Twin))
		return s.make(ctx)
	case Update:
		log.Info("Updating twin", "twin", kube.Describe(s.plan.Twin))
		written, err := s.writer().Update(ctx, s.seen.Twin, s.plan.Twin, s.ours)
		if err == nil {
			s.wrote(written, written.GetResourceVersion() != s.seen.Twin.GetResourceVersion())
		}
		return err
	case Delete:
		if err := s.possible(ctx, s.plan.Next); err != nil {
			return err
		}
		log.Info("Deleting twin", "twin", kube.Describe(s.plan.Twin))
		err := s.writer().Delete(ctx, s.plan.Twin, foreground)
		if err == nil {
			s.tried.Remove(s.owner.UID)
		}
		return err
	}
	return nil
}

// make creates the twin. That it is there wakes nobody; if it is another by then, that is looked at at once.
func (s *scope) make(ctx context.Context) (err error) {
	others := s.made.Write(s.owner.UID, func() (version string) {
		var written *unstructured.Unstructured
		var created bool
		if written, created, err = s.create(ctx, s.plan.Twin); written == nil {
			return ""
		}
		s.wrote(written, created)
		if !created {
			return ""
		}
		return written.GetResourceVersion()
	})
	if others {
		s.plan.lookIn(kube.AtOnce)
	}
	return err
}

// create creates what the cache does not have. It returns a conflict, and what there is, where the server has it already.
func (s *scope) create(ctx context.Context, desired *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	written, created, err := s.writer().Create(ctx, desired)
	if err == nil && !created {
		err = kube.Stale(desired, "it is there already, which the cache has not seen yet")
	}
	return written, created, err
}

// contend says whether the twin must wait to be put right.
func (s *scope) contend() bool {
	if s.plan.Action != Create && s.plan.Action != Update {
		return false
	}
	wait := s.fights.Wait(string(s.owner.UID), content(s.plan.Twin), s.now)
	s.plan.lookIn(wait)
	return wait > 0
}

// current is a conflict if something would be written for an owner that is another by now: not edited, not being deleted,
// or without the record of what was done last, or a twin created of a source that the cache alone still has. A deletion is
// not taken back, so the teardown need not know.
func (s *scope) current(ctx context.Context) error {
	idle := s.plan.Action == Nothing && s.plan.Pin == nil && s.plan.Unpin == nil
	if idle || s.proven || s.owner.DeletionTimestamp != nil {
		return nil
	}
	err := kube.Current(ctx, s.Live, v1alpha1.GroupVersion.WithKind("ExperimentDeployment"), s.owner)
	if err != nil || s.plan.Action != Create {
		return err
	}
	return kube.Still(ctx, s.Live, s.seen.Source)
}

// wrote takes in what the server has now, and whether that is something else than before.
func (s *scope) wrote(written client.Object, changed bool) {
	s.written, s.unchanged = written, !changed
	if changed {
		s.fights.Wrote(string(s.owner.UID), content(s.plan.Twin), s.now)
	}
}

// content tells twins apart by what they are made to be.
func content(wanted *unstructured.Unstructured) string {
	return cmp.Or(wanted.GetAnnotations()[v1alpha1.AnnotationWanted], asItIs)
}

// ours says whether a label or an annotation of the twin is one that only we give it, or that it has from its source.
func (s *scope) ours(name string) bool {
	copied := strings.Split(s.seen.Twin.GetAnnotations()[twin.AnnotationCopied], ",")
	return strings.HasPrefix(name, twin.Group+"/") || name == twin.InstanceID || slices.Contains(copied, name)
}

// possible is an error if the API server would refuse what is to be the next twin; the one that there is, if any, then stays. A quota
// that this uses up, or a webhook that cannot be tried, says nothing of that. It is not tried again at once: where a webhook of
// others hangs, a pass may have no time for what comes after it.
func (s *scope) possible(ctx context.Context, next *unstructured.Unstructured) error {
	if next == nil {
		return nil
	}
	wanted := content(next)
	if last, known := s.tried.Get(s.owner.UID); known && last.(trial).content == wanted && s.now.Sub(last.(trial).at) < believed {
		return nil
	}
	other := next.DeepCopy()
	other.SetName(next.GetName() + "-next") // its own name is taken
	err := s.Live.Create(ctx, other, client.DryRunAll, client.FieldOwner(kube.FieldOwner), client.FieldValidation("Strict"))
	if err != nil && !untried(err) && (s.seen.Twin == nil || !usedUp(err)) {
		return fmt.Errorf("trying %s: %w", kube.Describe(next), err)
	}
	s.tried.Add(s.owner.UID, trial{wanted, s.now})
	return nil
}

// trial is what the API server would have taken, and when.
type trial struct {
	content string
	at      time.Time
}

// believed is for how long a trial says what the API server takes: somebody may change that.
const believed = 5 * time.Minute

// untried says whether an answer to a dry run is of the dry run alone. It has no reason of its own in the API. That the name of the trial
// is taken, by whatever object, the API server says last: it would have taken all else.
func untried(err error) bool {
	return apierrors.IsAlreadyExists(err) || apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run")
}

// usedUp says whether a quota has no room.
func usedUp(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// unpin deletes what was kept of a source.
func unpin(ctx context.Context, writer kube.Writer, at types.NamespacedName) error {
	pin, err := kube.Get(ctx, writer.Client, revisionGVK, at)
	if err != nil || pin == nil || !marks.Owns(writer.Owner, pin) {
		return err
	}
	return writer.Delete(ctx, pin)
}
