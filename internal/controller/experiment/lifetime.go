package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
)

const (
	// day is 24 hours whatever the clocks do.
	day = 24 * time.Hour
	// notice is how long before its end an Experiment tells of it.
	notice = time.Hour
	// maxExtension bounds what an annotation can add: nobody pays for a cluster for years by a slip.
	maxExtension = 365 * day
)

// lifetime is how long an Experiment stays.
type lifetime struct {
	// end is when it is deleted.
	end time.Time
	// extension is what the annotation says, as the status shows it; empty without one.
	extension string
	// extended says that the annotation is acted on.
	extended bool
}

// lifetimeOf is an Experiment's: spec.ttlDays from its creation, or spec.ttlAfterFinished from its
// verdict if that is sooner, and what the annotation adds.
func lifetimeOf(e *v1alpha1.Experiment) lifetime {
	l := lifetime{end: e.CreationTimestamp.Add(time.Duration(max(e.Spec.TTLDays, 1)) * day)}
	if after := e.Spec.TTLAfterFinished; after != nil && e.Status.CompletedAt != nil {
		if end := e.Status.CompletedAt.Add(after.Duration); end.Before(l.end) {
			l.end = end
		}
	}
	if value, ok := e.Annotations[v1alpha1.AnnotationExtend]; ok {
		by, err := parseExtension(value)
		l.end, l.extended, l.extension = l.end.Add(by), err == nil, by.String()
		if err != nil {
			l.extension = "ignored: " + err.Error()
		}
	}
	return l
}

// parseExtension reads the annotation. What it cannot read is 0 and an error that says what to write.
func parseExtension(value string) (time.Duration, error) {
	by, err := time.ParseDuration(strings.TrimSpace(value))
	switch {
	case err != nil:
		return 0, errors.New("the annotation " + v1alpha1.AnnotationExtend + " is not a duration such as 24h or 90m")
	case by <= 0 || by > maxExtension:
		return 0, fmt.Errorf("the annotation %s must be more than 0 and at most %s", v1alpha1.AnnotationExtend, maxExtension)
	}
	return by, nil
}

// over says whether the Experiment is to be deleted.
func (l lifetime) over(now time.Time) bool { return !now.Before(l.end) }

// soon says whether its end is near.
func (l lifetime) soon(now time.Time) bool { return !now.Before(l.end.Add(-notice)) }

// wait is how long nothing about it changes.
func (l lifetime) wait(now time.Time) time.Duration {
	if l.soon(now) {
		return l.end.Sub(now)
	}
	return l.end.Add(-notice).Sub(now)
}

// targetEnds are when targets are taken down before their Experiment is, by its verdict: each after what
// depends on it. Those that stay as long are not in it.
func targetEnds(e *v1alpha1.Experiment) map[string]time.Time {
	ends := map[string]time.Time{}
	if e.Status.CompletedAt == nil {
		return ends
	}
	for _, t := range e.Spec.Targets {
		if t.TTLAfterFinished != nil {
			ends[t.Name] = e.Status.CompletedAt.Add(t.TTLAfterFinished.Duration)
		}
	}
	left := []v1alpha1.TargetState{v1alpha1.TargetDeleting, v1alpha1.TargetDeleted}
	for range e.Spec.Targets { // as often as the longest chain is long
		for _, t := range e.Spec.Targets {
			end, ok := ends[t.Name]
			if slices.Contains(left, targetStateOf(e, t.Name)) {
				continue // it goes, or is gone, whatever its end is now
			}
			for _, dependency := range t.Depends {
				if before, has := ends[dependency]; has && !ok {
					delete(ends, dependency)
				} else if has && before.Before(end) {
					ends[dependency] = end
				}
			}
		}
	}
	return ends
}

// leaving are the targets whose time is over and that are not gone yet, in the order of the spec, and when
// the next one's will be; the zero time is never. What was begun is ended, whatever the spec says since.
func leaving(e *v1alpha1.Experiment, now time.Time) (targets []string, next time.Time) {
	if e.DeletionTimestamp != nil || e.Spec.Terminate || e.Status.CompletedAt == nil {
		return nil, next // everything goes, or nothing yet
	}
	ends := targetEnds(e)
	for _, t := range e.Spec.Targets {
		end, ok := ends[t.Name]
		switch state := targetStateOf(e, t.Name); {
		case state == v1alpha1.TargetDeleted:
		case state == v1alpha1.TargetDeleting, ok && !now.Before(end):
			targets = append(targets, t.Name)
		case ok && (next.IsZero() || end.Before(next)):
			next = end
		}
	}
	return targets, next
}

// targetStateOf is a target's state as the status has it; empty where it has none.
func targetStateOf(e *v1alpha1.Experiment, name string) v1alpha1.TargetState {
	if recorded := recordedTarget(e.Status.Targets, name); recorded != nil {
		return recorded.State
	}
	return ""
}
