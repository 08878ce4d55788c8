package schedule

import (
	"fmt"
	"strings"
)

// InvalidError says what is wrong with one field of a Spec.
type InvalidError struct {
	// Path of the field, as in the API: timezone, offHours[0].start, offHours[0].daysOfWeek[2],
	// exceptions[1].validUntil, exceptions[1].windows[0].endCron.
	Path string
	// Exception is the name of the exception that the field belongs to; mostly empty.
	Exception string
	// Problem is the rest of a sentence that begins with the field.
	Problem string
}

// Error returns `offHours[1].start: "25:00" is not a time of day; write HH:MM`, for an exception with
// a name in front: `exception easter: exceptions[0].validUntil: is not after validFrom`.
func (e *InvalidError) Error() string {
	if e.Exception != "" {
		return fmt.Sprintf("exception %s: %s: %s", e.Exception, e.Path, e.Problem)
	}
	return e.Path + ": " + e.Problem
}

// InvalidErrors is everything that is wrong with a Spec, in the order of its fields. It is never
// empty. errors.As finds the first InvalidError.
type InvalidErrors []*InvalidError

// problemsShown is how many problems a message names: it ends up in a condition, whose message is
// limited to 32 KiB.
const problemsShown = 20

// Error returns the problems in one line, separated by semicolons. Of more than 20 it names the first
// 20 and the number of the others.
func (e InvalidErrors) Error() string {
	var b strings.Builder
	for i, problem := range e {
		if i > 0 {
			b.WriteString("; ")
		}
		if i == problemsShown {
			fmt.Fprintf(&b, "(%d more)", len(e)-i)
			break
		}
		b.WriteString(problem.Error())
	}
	return b.String()
}

// Unwrap returns the problems one by one.
func (e InvalidErrors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, problem := range e {
		errs[i] = problem
	}
	return errs
}
