package hibernateplan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/conditions"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// reviewer tells whoever creates or changes a HibernatePlan at once what its conditions would tell later, by the same code:
// what can never be carried out is refused, and of what is only missing so far is warned. Nothing rests on it.
type reviewer struct {
	*Reconciler
}

var _ admission.Validator[*v1alpha1.HibernatePlan] = reviewer{}

// ValidateCreate reviews a new plan.
func (r reviewer) ValidateCreate(ctx context.Context, plan *v1alpha1.HibernatePlan) (admission.Warnings, error) {
	warnings, err := r.review(ctx, plan)
	return append(warnings, r.ended(nil, plan, err)...), err
}

// ValidateUpdate reviews a changed spec.
func (r reviewer) ValidateUpdate(ctx context.Context, before, plan *v1alpha1.HibernatePlan) (admission.Warnings, error) {
	if plan.DeletionTimestamp != nil || equality.Semantic.DeepEqual(before.Spec, plan.Spec) {
		return nil, nil
	}
	warnings, err := kube.ReviewChange(before, plan, func(p *v1alpha1.HibernatePlan) (admission.Warnings, error) { return r.review(ctx, p) })
	return append(warnings, r.ended(before.Spec.Override, plan, err)...), err
}

// review is what there is to say of a spec, whatever it was before.
func (r reviewer) review(ctx context.Context, plan *v1alpha1.HibernatePlan) (admission.Warnings, error) {
	if err := invalid(plan.Spec, r.Options.Executors); err != nil {
		return nil, err
	}
	return r.missing(ctx, plan), nil
}

// ended warns whoever writes an override that does not count any more. One that was there before has ended as it was to.
func (r reviewer) ended(before *v1alpha1.Override, plan *v1alpha1.HibernatePlan, refused error) admission.Warnings {
	hint := hasEnded(plan.Spec.Override, r.Options.Clock.Now())
	if hint == "" || refused != nil || equality.Semantic.DeepEqual(before, plan.Spec.Override) {
		return nil
	}
	return admission.Warnings{hint}
}

// ValidateDelete lets every deletion through.
func (reviewer) ValidateDelete(context.Context, *v1alpha1.HibernatePlan) (admission.Warnings, error) {
	return nil, nil
}

// invalid is what is wrong with a spec, whatever there is beside it.
func invalid(spec v1alpha1.HibernatePlanSpec, registry executor.Registry) error {
	_, err := compile(resolve(spec), registry)
	_, unreadable := timetable(spec.Schedule, nil, nil)
	if err := errors.Join(err, startable(spec), unreadable); err != nil {
		return fmt.Errorf("%s: %s", v1alpha1.ReasonInvalid, oneLine(err))
	}
	return nil
}

// missing is what keeps a plan from beginning as things are.
func (r reviewer) missing(ctx context.Context, plan *v1alpha1.HibernatePlan) admission.Warnings {
	s := &scope{Reconciler: r.Reconciler, owner: plan, now: r.Options.Clock.Now()}
	if err := s.observeReach(ctx); err != nil {
		log.FromContext(ctx).Error(err, "Reviewing HibernatePlan")
		return admission.Warnings{"the HibernatePlan was not reviewed: " + conditions.Line(err.Error())}
	}
	if p := s.seen.Problem; p != nil {
		return admission.Warnings{p.reason + ": " + p.message}
	}
	return nil
}

// exceptionReviewer does the same for ScheduleExceptions.
type exceptionReviewer struct {
	*Exceptions
}

var _ admission.Validator[*v1alpha1.ScheduleException] = exceptionReviewer{}

// ValidateCreate reviews a new exception.
func (r exceptionReviewer) ValidateCreate(ctx context.Context, e *v1alpha1.ScheduleException) (admission.Warnings, error) {
	plan, err := r.planOf(ctx, e)
	all, errs := r.beside(ctx, e)
	if err = errors.Join(err, errs); err != nil {
		log.FromContext(ctx).Error(err, "Reviewing ScheduleException")
		return admission.Warnings{"the ScheduleException was not reviewed: " + conditions.Line(err.Error())}, nil
	}
	e = e.DeepCopy()
	judge(e, plan, nil, r.Clock.Now())
	switch e.Status.State {
	case v1alpha1.ExceptionInvalid:
		return nil, fmt.Errorf("%s: %s", e.Status.State, strings.TrimSuffix(e.Status.Message, countsAllTheTime)) // what is refused does not count
	case v1alpha1.ExceptionDetached:
		return admission.Warnings{string(e.Status.State) + ": " + e.Status.Message}, nil
	case v1alpha1.ExceptionExpired:
		return admission.Warnings{string(e.Status.State) + ": spec.validUntil has passed"}, nil
	}
	all = slices.DeleteFunc(exceptionsOf(plan.Name, all), func(other v1alpha1.ScheduleException) bool { return other.Name == e.Name })
	if _, more := counting(append(all, *e), r.Clock.Now()); more > 0 {
		p := tooMany(more)
		return admission.Warnings{p.reason + ": " + p.message}, nil
	}
	return nil, nil
}

// ValidateUpdate reviews a changed exception.
func (r exceptionReviewer) ValidateUpdate(ctx context.Context, before, e *v1alpha1.ScheduleException) (admission.Warnings, error) {
	if e.DeletionTimestamp != nil || equality.Semantic.DeepEqual(before.Spec, e.Spec) {
		return nil, nil
	}
	return kube.ReviewChange(before, e, func(e *v1alpha1.ScheduleException) (admission.Warnings, error) { return r.ValidateCreate(ctx, e) })
}

// ValidateDelete lets every deletion through.
func (exceptionReviewer) ValidateDelete(context.Context, *v1alpha1.ScheduleException) (admission.Warnings, error) {
	return nil, nil
}

// setupWebhook serves the reviews.
func setupWebhook(mgr ctrl.Manager, r *Reconciler) error {
	return errors.Join(
		builder.WebhookManagedBy(mgr, &v1alpha1.HibernatePlan{}).WithValidator(reviewer{r}).Complete(),
		builder.WebhookManagedBy(mgr, &v1alpha1.ScheduleException{}).WithValidator(exceptionReviewer{&Exceptions{Client: mgr.GetClient(), Clock: r.Options.Clock}}).Complete(),
	)
}
