package experiment

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/external/argocd"
	"github.com/labkeeper/labkeeper/internal/external/argoworkflows"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// leftoverDelay is how soon is looked for again what may go without anybody telling: a cluster
// Secret that somebody's finalizer holds, because Secrets are not watched, and an object that the
// server has and the cache does not, because it may go before the cache has seen it.
const leftoverDelay = 2 * time.Second

// secretGone is how soon a cluster Secret is gone that was deleted, which nobody tells. By then
// the cache has seen what else was deleted, too.
const secretGone = 100 * time.Millisecond

// lastLook is how soon an object is looked at that nobody will report the end of.
const lastLook = time.Minute

// teardown takes everything down, in this order: the Workflow; the Applications, while
// their clusters work; the namespaces they had on the hub, the cluster Secrets and the
// clusters. It does not depend on a valid spec, and what it waits for it names.
func (f facts) teardown() Plan {
	p := Plan{Targets: f.experiment.Status.Targets}
	switch {
	case f.experiment.Status.StartedAt == nil:
		p.Done = true
		return p
	case moved(f.experiment, f.names):
		p.Down = []string{"nothing yet: " + f.whereTo()}
		return p
	}
	p.Workflow = f.workflow()
	if f.seen.Workflow != nil {
		f.remove(&p, *f.seen.Workflow)
		p.Wait = f.nextLook(*f.seen.Workflow)
		return p
	}
	if f.later(&p, argoworkflows.WorkflowGVK) {
		return p
	}
	if len(f.seen.Applications) > 0 {
		f.removeApplications(&p)
		for _, app := range f.seen.Applications {
			p.Wait = max(p.Wait, f.nextLook(*app))
		}
		targets := f.targets()
		for _, spec := range f.experiment.Spec.Targets {
			if t := targets[spec.Name]; going(t.app) {
				f.registerAgain(&p, t) // or Argo CD could never delete what it deployed
			}
		}
		return p
	}
	if f.later(&p, argocd.ApplicationGVK) {
		return p
	}
	secrets, clusters := f.seen.Leftovers[argocd.SecretGVK], f.clustersLeft()
	f.remove(&p, f.seen.Leftovers[namespaceGVK]...)
	f.remove(&p, secrets...)
	f.remove(&p, clusters...)
	for _, gvk := range f.seen.Hidden {
		p.Down = append(p.Down, hidden(gvk))
	}
	heard := append(clusters, f.seen.Leftovers[namespaceGVK]...)
	switch {
	case len(p.Down) == 0:
		p.Done = true
	case len(p.Writes) > 0 && len(secrets) > 0:
		p.Wait = secretGone
	case len(secrets) > 0:
		p.Wait = leftoverDelay
	default:
		p.Wait = f.nextLook(heard...)
	}
	return p
}

// clustersLeft are, of every target, the object that stands for its cluster, or when that is gone
// what else it was made by.
func (f facts) clustersLeft() (left []unstructured.Unstructured) {
	for _, t := range f.experiment.Spec.Targets {
		for i, o := range providerOf(t).objects(f.names, t) {
			found := f.seen.Leftovers[o.GroupVersionKind()]
			at := slices.IndexFunc(found, func(l unstructured.Unstructured) bool {
				return keyOf(&l) == keyOf(o)
			})
			if at < 0 {
				continue
			}
			left = append(left, found[at])
			if i == 0 {
				break
			}
		}
	}
	return left
}

// nextLook is how soon children are looked at again whose end would wake nobody: the cache does not
// have them, or somebody has taken off the annotation by which an object names its owner. It is 0
// if there are none.
func (f facts) nextLook(children ...unstructured.Unstructured) time.Duration {
	for _, child := range children {
		if f.seen.Unseen {
			return leftoverDelay
		}
		if child.GetAnnotations()[v1alpha1.AnnotationOwner] != f.experiment.Namespace+"/"+f.experiment.Name {
			return lastLook
		}
	}
	return 0
}

// later says whether objects of a kind which must go first are there that the cache does not
// have, or may be there and cannot be seen.
func (f facts) later(p *Plan, gvk schema.GroupVersionKind) bool {
	if found := f.seen.Leftovers[gvk]; len(found) > 0 {
		f.remove(p, found...)
		p.Wait = leftoverDelay
	}
	if slices.Contains(f.seen.Hidden, gvk) {
		p.Down = append(p.Down, hidden(gvk))
	}
	return len(p.Down) > 0
}

func hidden(gvk schema.GroupVersionKind) string {
	return "what there may be of kind " + gvk.Kind + ", of which the cluster does not serve " + gvk.GroupVersion().String()
}

// removeApplications deletes the Applications that no other target's Application still
// depends on.
func (f facts) removeApplications(p *Plan) {
	for _, t := range f.experiment.Spec.Targets {
		app := f.seen.Applications[t.Name]
		if app == nil {
			continue
		}
		needed := slices.ContainsFunc(f.experiment.Spec.Targets, func(o v1alpha1.Target) bool {
			return f.seen.Applications[o.Name] != nil && slices.Contains(o.Depends, t.Name) && o.Name != t.Name
		})
		if needed {
			p.Down = append(p.Down, kube.Describe(app))
			continue
		}
		f.remove(p, *app)
	}
	if len(p.Writes) == 0 && !f.deleting() {
		// A cycle, which no spec that was begun can have: all at once.
		for _, app := range f.seen.Applications {
			f.remove(p, *app)
		}
	}
}

// deleting says whether the deletion of any Application is under way.
func (f facts) deleting() bool {
	for _, app := range f.seen.Applications {
		if app.GetDeletionTimestamp() != nil {
			return true
		}
	}
	return false
}

// remove plans the deletion of children that are not being deleted yet, and waits for all.
func (f facts) remove(p *Plan, children ...unstructured.Unstructured) {
	for i := range children {
		child := &children[i]
		p.Down = append(p.Down, kube.Describe(child))
		if child.GetDeletionTimestamp() == nil {
			p.Writes = append(p.Writes, Write{
				Action: Delete, Object: child, Known: true,
				Target: child.GetLabels()[v1alpha1.LabelTarget], Condition: v1alpha1.ConditionReady,
			})
		}
	}
}
