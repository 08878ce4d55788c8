package kube_test

import (
	"errors"
	"slices"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/labkeeper/labkeeper/internal/kube"
)

func TestReviewChange(t *testing.T) {
	review := func(spec string) (admission.Warnings, error) {
		if spec == "wrong" || spec == "wrong, too" {
			return admission.Warnings{"careful"}, errors.New(spec)
		}
		return admission.Warnings{spec}, nil
	}
	for name, test := range map[string]struct {
		before, after string
		warnings      admission.Warnings
		refused       bool
	}{
		"good":             {"good", "better", admission.Warnings{"better"}, false},
		"mended":           {"wrong", "good", admission.Warnings{"good"}, false},
		"made wrong":       {"good", "wrong", admission.Warnings{"careful"}, true},
		"was wrong before": {"wrong", "wrong, too", admission.Warnings{"careful", "wrong, too"}, false},
	} {
		warnings, err := kube.ReviewChange(test.before, test.after, review)
		if !slices.Equal(warnings, test.warnings) || err != nil != test.refused {
			t.Errorf("%s: %q, %v", name, warnings, err)
		}
	}
}
