package experimentdeployment

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
)

// by is a request of a user.
func by(t *testing.T) context.Context {
	return admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UserInfo: authenticationv1.UserInfo{
		Username: "mallory", UID: "42", Groups: []string{"interns"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"some"}},
	}}})
}

// asks is a lab with everything in it that may be asked about, and what was asked.
func asks(t *testing.T, owner *v1alpha1.ExperimentDeployment, answer func(*authorizationv1.SubjectAccessReview) error) (reviewer, *[]authorizationv1.SubjectAccessReviewSpec) {
	t.Helper()
	l := newLab(t, owner, object(t, web), object(t, db), shop("lab"))
	asked := &[]authorizationv1.SubjectAccessReviewSpec{}
	l.review = func(review *authorizationv1.SubjectAccessReview) error {
		*asked = append(*asked, review.Spec)
		return answer(review)
	}
	return reviewer{l.Reconciler}, asked
}

func allow(review *authorizationv1.SubjectAccessReview) error {
	review.Status.Allowed = true
	return nil
}

func deny(*authorizationv1.SubjectAccessReview) error { return nil }

// o3: whoever asks for a twin must be allowed to create one himself, beside the source, whatever its namespace grants.
func TestAllowed(t *testing.T) {
	in := func(namespace, group, version, resource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: group, Version: version, Resource: resource}
	}
	for name, test := range map[string]struct {
		owner  *v1alpha1.ExperimentDeployment
		source v1alpha1.SourceRef
		asked  authorizationv1.ResourceAttributes
	}{
		"beside it":           {faster(t, `{}`), v1alpha1.SourceRef{Kind: "Deployment", Name: "web"}, in("shop", "apps", "v1", "deployments")},
		"its own namespace":   {faster(t, `{}`), v1alpha1.SourceRef{Kind: "Deployment", Name: "web", Namespace: "shop"}, in("shop", "apps", "v1", "deployments")},
		"o3 in another":       {elsewhere(t), v1alpha1.SourceRef{Kind: "Deployment", Name: "web", Namespace: "shop"}, in("shop", "apps", "v1", "deployments")},
		"o3 one that is none": {elsewhere(t), v1alpha1.SourceRef{Kind: "Deployment", Name: "web", Namespace: "bank"}, in("bank", "apps", "v1", "deployments")},
		"StatefulSet":         {elsewhere(t), v1alpha1.SourceRef{Kind: "StatefulSet", Name: "web", Namespace: "shop"}, in("shop", "apps", "v1", "statefulsets")},
		"Rollout":             {elsewhere(t), v1alpha1.SourceRef{Kind: "Rollout", Name: "web", Namespace: "shop"}, in("shop", "argoproj.io", "v1alpha1", "rollouts")},
	} {
		t.Run(name, func(t *testing.T) {
			test.owner.Spec.SourceRef = test.source
			wanted := []authorizationv1.SubjectAccessReviewSpec{{
				User: "mallory", UID: "42", Groups: []string{"interns"}, Extra: map[string]authorizationv1.ExtraValue{"scopes": {"some"}},
				ResourceAttributes: &test.asked,
			}}
			r, asked := asks(t, test.owner, allow)
			if _, err := r.ValidateCreate(by(t), test.owner); err != nil {
				t.Errorf("allowed it is refused: %v", err)
			}
			if diff := cmp.Diff(wanted, *asked); diff != "" {
				t.Error(diff)
			}
			r, _ = asks(t, test.owner, deny)
			_, err := r.ValidateCreate(by(t), test.owner)
			if err == nil {
				t.Fatal("denied it is let through")
			}
			for _, says := range []string{"spec.sourceRef", "mallory", "create " + test.asked.Resource, "namespace " + test.asked.Namespace} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("it does not say %q: %v", says, err)
				}
			}
		})
	}
}

// o3: what another spec asks for is asked about again; who changes something else, as the manager does, or waits for a
// deletion, need not be allowed anything.
func TestAllowedToChange(t *testing.T) {
	for name, test := range map[string]struct {
		change func(owner *v1alpha1.ExperimentDeployment)
		asked  string
	}{
		"nothing":       {func(*v1alpha1.ExperimentDeployment) {}, ""},
		"its metadata":  {func(o *v1alpha1.ExperimentDeployment) { o.Labels, o.Finalizers = map[string]string{"a": "b"}, nil }, ""},
		"its status":    {func(o *v1alpha1.ExperimentDeployment) { o.Status.Replicas = 3 }, ""},
		"its override":  {func(o *v1alpha1.ExperimentDeployment) { o.Spec.OverrideSpec.Raw = []byte(`{"minReadySeconds":5}`) }, "deployments in shop"},
		"its replicas":  {func(o *v1alpha1.ExperimentDeployment) { o.Spec.Replicas = ptr.To[int32](9) }, "deployments in shop"},
		"o3 the kind":   {func(o *v1alpha1.ExperimentDeployment) { o.Spec.SourceRef.Kind = "StatefulSet" }, "statefulsets in shop"},
		"o3 the source": {func(o *v1alpha1.ExperimentDeployment) { o.Spec.SourceRef.Namespace = "bank" }, "deployments in bank"},
		"o3 home":       {func(o *v1alpha1.ExperimentDeployment) { o.Spec.SourceRef.Namespace = "" }, "deployments in lab"},
		"while it goes": {func(o *v1alpha1.ExperimentDeployment) {
			o.DeletionTimestamp, o.Spec.Replicas = &metav1.Time{Time: epoch}, ptr.To[int32](9)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := elsewhere(t)
			before.Finalizers = []string{v1alpha1.Finalizer}
			after := before.DeepCopy()
			test.change(after)
			for may, answer := range map[bool]func(*authorizationv1.SubjectAccessReview) error{true: allow, false: deny} {
				r, asked := asks(t, before, answer)
				_, err := r.ValidateUpdate(by(t), before, after)
				got := ""
				for _, a := range *asked {
					got += a.ResourceAttributes.Resource + " in " + a.ResourceAttributes.Namespace
				}
				if got != test.asked {
					t.Errorf("asked for %q", got)
				}
				if refused := test.asked != "" && !may; (err != nil) != refused {
					t.Errorf("allowed %v, it is refused: %v", may, err)
				}
			}
		})
	}
}

// o3: that a spec was no good before excuses nobody who is not allowed.
func TestDeniedOneThatWasRefused(t *testing.T) {
	before, after := faster(t, `{"replcas": 1}`), faster(t, `{"replcas": 2}`)
	r, _ := asks(t, before, allow)
	if warnings, err := r.ValidateUpdate(by(t), before, after); err != nil || len(warnings) == 0 {
		t.Errorf("allowed: %v, %v", warnings, err)
	}
	r, _ = asks(t, before, deny)
	if _, err := r.ValidateUpdate(by(t), before, after); err == nil {
		t.Error("denied it is let through")
	}
}

// o3: what cannot be asked is refused, and the API server's reasons are none of the user's business.
func TestNotAsked(t *testing.T) {
	for name, test := range map[string]struct {
		ctx    context.Context
		answer func(*authorizationv1.SubjectAccessReview) error
		says   string
	}{
		"no answer": {by(t), func(review *authorizationv1.SubjectAccessReview) error {
			review.Status.Allowed = true // which nothing vouches for
			return errors.New("etcd-7 is down")
		}, "try again"},
		"not evaluated": {by(t), func(review *authorizationv1.SubjectAccessReview) error {
			review.Status.EvaluationError = "etcd-7 is down"
			return nil
		}, "may not create deployments"},
		"nobody asks": {t.Context(), allow, "who asks"},
	} {
		t.Run(name, func(t *testing.T) {
			owner := faster(t, `{}`)
			changed := faster(t, `{"minReadySeconds": 5}`)
			r, _ := asks(t, owner, test.answer)
			_, created := r.ValidateCreate(test.ctx, owner)
			_, updated := r.ValidateUpdate(test.ctx, owner, changed)
			for _, err := range []error{created, updated} {
				if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "etcd-7") {
					t.Errorf("it is %v", err)
				}
			}
			if _, err := r.ValidateDelete(test.ctx, owner); err != nil {
				t.Errorf("it cannot be deleted: %v", err)
			}
		})
	}
}

// What can never be acted on is refused; what is only missing so far, or cannot be read, is let through with a warning.
func TestReviewed(t *testing.T) {
	for name, test := range map[string]struct {
		owner           *v1alpha1.ExperimentDeployment
		name, namespace string
		unread          bool
		refused         bool
		warns           string
	}{
		"good":        {owner: faster(t, `{}`), name: "web"},
		"a typo":      {owner: faster(t, `{"replcas": 1}`), name: "web", refused: true},
		"no source":   {owner: faster(t, `{}`), name: "nothing", warns: v1alpha1.ReasonSourceNotFound},
		"not granted": {owner: elsewhere(t), name: "web", namespace: "bank", warns: v1alpha1.ReasonNotGranted},
		"not read":    {owner: faster(t, `{"replcas": 1}`), name: "web", unread: true, warns: "was not reviewed"},
	} {
		t.Run(name, func(t *testing.T) {
			test.owner.Spec.SourceRef.Name, test.owner.Spec.SourceRef.Namespace = test.name, test.namespace
			r, _ := asks(t, test.owner, allow)
			if test.unread {
				r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return errors.New("the cache is not there")
					},
				})
			}
			warnings, err := r.ValidateCreate(by(t), test.owner)
			if (err != nil) != test.refused {
				t.Errorf("refused: %v", err)
			}
			if got := strings.Join(warnings, " "); !strings.Contains(got, test.warns) || test.warns == "" && got != "" {
				t.Errorf("it warns of %q", got)
			}
		})
	}
}
