package experimentdeployment

import (
	"context"
	"errors"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/internal/twin"
)

// reviewer refuses at once what can never be acted on, and what its author may not do himself: a twin runs the pods
// that he asks for, beside its source (o3). That must be certain, so that what cannot be asked is refused; of the
// rest, what cannot be read or is only missing so far is let through with a warning.
type reviewer struct {
	*Reconciler
}

var _ admission.Validator[*v1alpha1.ExperimentDeployment] = reviewer{}

// ValidateCreate reviews a new ExperimentDeployment.
func (r reviewer) ValidateCreate(ctx context.Context, owner *v1alpha1.ExperimentDeployment) (admission.Warnings, error) {
	if err := r.allowed(ctx, owner); err != nil {
		return nil, err
	}
	return r.review(ctx, owner)
}

// ValidateUpdate reviews a changed spec.
func (r reviewer) ValidateUpdate(ctx context.Context, before, owner *v1alpha1.ExperimentDeployment) (admission.Warnings, error) {
	if owner.DeletionTimestamp != nil || equality.Semantic.DeepEqual(before.Spec, owner.Spec) {
		return nil, nil
	}
	if err := r.allowed(ctx, owner); err != nil {
		return nil, err
	}
	return kube.ReviewChange(before, owner, func(o *v1alpha1.ExperimentDeployment) (admission.Warnings, error) { return r.review(ctx, o) })
}

// ValidateDelete lets every deletion through.
func (reviewer) ValidateDelete(context.Context, *v1alpha1.ExperimentDeployment) (admission.Warnings, error) {
	return nil, nil
}

// allowed is an error unless the user of the request may create a workload of the source's kind beside it.
func (r reviewer) allowed(ctx context.Context, owner *v1alpha1.ExperimentDeployment) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("reading who asks: %w", err)
	}
	gvk := twin.Kinds[owner.Spec.SourceRef.Kind]
	user, extra := request.UserInfo, map[string]authorizationv1.ExtraValue{}
	for name, value := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(value)
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, Groups: user.Groups, UID: user.UID, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: sourceNamespace(owner), Verb: "create", Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s",
		},
	}}
	if err := r.Live.Create(ctx, review); err != nil {
		log.FromContext(ctx).Error(err, "Asking what a user may do")
		return errors.New("spec.sourceRef: the API server did not say whether you may create pods there; try again")
	}
	if !review.Status.Allowed {
		return fmt.Errorf("spec.sourceRef: %s may not create %s in namespace %s, where the twin would be; a Role there must let you",
			user.Username, review.Spec.ResourceAttributes.Resource, sourceNamespace(owner))
	}
	return nil
}

// review is what a pass would say of the ExperimentDeployment.
func (r reviewer) review(ctx context.Context, owner *v1alpha1.ExperimentDeployment) (warnings admission.Warnings, refusal error) {
	s := &scope{Reconciler: r.Reconciler, owner: owner.DeepCopy(), now: r.Clock.Now()}
	if err := s.observe(ctx); err != nil {
		log.FromContext(ctx).Error(err, "Reviewing ExperimentDeployment")
		return admission.Warnings{"the ExperimentDeployment was not reviewed: " + conditions.Line(err.Error())}, nil
	}
	p := s.facts(nil).plan()
	for _, step := range append(p.Steps, p.Others...) {
		switch {
		case step.Reason == v1alpha1.ReasonInvalidOverride:
			return nil, fmt.Errorf("%s: %s", step.Reason, step.Message)
		case step.Type == v1alpha1.ConditionAccepted && !holds(step), step.Type == v1alpha1.ConditionSourceFound && !holds(step),
			step.Type == v1alpha1.ConditionWarnings && holds(step):
			warnings = append(warnings, fmt.Sprintf("%s: %s", step.Reason, step.Message))
		}
	}
	return warnings, nil
}

// setupWebhook serves the reviews.
func setupWebhook(mgr ctrl.Manager, r *Reconciler) error {
	return builder.WebhookManagedBy(mgr, &v1alpha1.ExperimentDeployment{}).WithValidator(reviewer{r}).Complete()
}
