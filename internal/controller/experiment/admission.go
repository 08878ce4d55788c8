package experiment

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// reviewer tells whoever creates or changes an Experiment at once what its conditions would tell
// later, by the same code: what can never be acted on is refused, and of what is only missing so far,
// because it may be in the next document of the same file, is warned. Nothing rests on it, so that
// where it cannot be reached, or cannot read something, everything is let through.
type reviewer struct {
	*Reconciler
}

var _ admission.Validator[*v1alpha1.Experiment] = reviewer{}

// ValidateCreate reviews a new Experiment.
func (r reviewer) ValidateCreate(ctx context.Context, e *v1alpha1.Experiment) (admission.Warnings, error) {
	return r.review(ctx, e)
}

// ValidateUpdate reviews a changed spec. It lets through whatever ends an Experiment.
func (r reviewer) ValidateUpdate(ctx context.Context, before, e *v1alpha1.Experiment) (admission.Warnings, error) {
	if e.DeletionTimestamp != nil || e.Spec.Terminate || equality.Semantic.DeepEqual(before.Spec, e.Spec) {
		return nil, nil
	}
	return kube.ReviewChange(before, e, func(e *v1alpha1.Experiment) (admission.Warnings, error) { return r.review(ctx, e) })
}

// ValidateDelete lets every deletion through.
func (reviewer) ValidateDelete(context.Context, *v1alpha1.Experiment) (admission.Warnings, error) {
	return nil, nil
}

// review is what a pass would say of the Experiment before it begins anything.
func (r reviewer) review(ctx context.Context, e *v1alpha1.Experiment) (warnings admission.Warnings, refusal error) {
	e = e.DeepCopy()
	e.Status.Workflow = nil // another may be submitted
	s := &scope{Reconciler: r.Reconciler, experiment: e, names: names{e, r.Options}, now: r.Clock.Now(), review: true}
	s.observeKinds()
	for _, read := range []func(context.Context) error{s.observeNamespace, s.observeComponents, s.observeTemplate, s.observeReferences} {
		if err := read(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Reviewing Experiment")
			return admission.Warnings{"the Experiment was not reviewed: " + conditions.Line(err.Error())}, nil
		}
	}
	f := s.facts()
	_, accepted := f.accept()
	if accepted.Reason == v1alpha1.ReasonDependencyCycle || accepted.Reason == v1alpha1.ReasonInvalidSpec {
		return nil, fmt.Errorf("%s: %s", accepted.Reason, accepted.Message)
	}
	_, resolved := f.resolve()
	clusters, applications, workflow := f.missingKinds()
	if workflow.Reason == v1alpha1.ReasonPending && f.templateMissing() {
		workflow = f.withoutTemplate()
	}
	for _, step := range []conditions.Step{accepted, resolved, clusters, applications, workflow} {
		if !holds(step) && step.Reason != v1alpha1.ReasonPending && step.Reason != v1alpha1.ReasonSuspended {
			warnings = append(warnings, fmt.Sprintf("%s: %s", step.Reason, step.Message))
		}
	}
	warnings = append(append(warnings, f.missingClusters()...), f.goingComponents()...)
	if hint := f.standIn(""); hint != "" && workflow.Reason == v1alpha1.ReasonPending && !f.templateMissing() {
		warnings = append(warnings, hint)
	}
	if extra := f.undeclared(); len(extra) > 0 {
		warnings = append(warnings, "params that no Component declares go to Helm as they are: "+strings.Join(extra, ", "))
	}
	return warnings, nil
}

// setupWebhook serves the reviews.
func setupWebhook(mgr ctrl.Manager, r *Reconciler) error {
	return builder.WebhookManagedBy(mgr, &v1alpha1.Experiment{}).WithValidator(reviewer{r}).Complete()
}
