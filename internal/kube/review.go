package kube

import "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

// ReviewChange reviews what an object has become. One that would have been refused before is let through with a warning:
// who changes something else, or mends one of two, must not have to mend all at once.
func ReviewChange[T any](before, after T, review func(T) (admission.Warnings, error)) (admission.Warnings, error) {
	warnings, refusal := review(after)
	if refusal == nil {
		return warnings, nil
	}
	if _, known := review(before); known != nil {
		return append(warnings, refusal.Error()), nil
	}
	return warnings, refusal
}
