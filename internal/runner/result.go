package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// Reasons of a [Result] that is not Completed.
const (
	// ReasonInterrupted: it was told to stop.
	ReasonInterrupted = "Interrupted"
	// ReasonDeadlineExceeded: it has taken as long as it may.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonInvalidParameters: the parameters, or the type, of the target are not what its executor takes.
	ReasonInvalidParameters = "InvalidParameters"
	// ReasonRestorePointLost: the restore point is gone, is not as it was written, or is another target's.
	ReasonRestorePointLost = "RestorePointLost"
	// ReasonRestorePointTooLarge: the restore point cannot be kept.
	ReasonRestorePointTooLarge = "RestorePointTooLarge"
	// ReasonSuperseded: another execution has taken over.
	ReasonSuperseded = "Superseded"
	// ReasonOtherCluster: the connector reaches another cluster than the one that the target sleeps in.
	ReasonOtherCluster = "OtherCluster"
	// ReasonForbidden: an API server does not let it.
	ReasonForbidden = "Forbidden"
	// ReasonNotSettled: everything was done, and has not come to where that takes it.
	ReasonNotSettled = "NotSettled"
	// ReasonFailed: anything else.
	ReasonFailed = "Failed"
)

// Failure is an error with the reason that a Result has of it.
type Failure struct {
	Reason string
	Err    error
}

// Error is that of the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap is the cause.
func (f *Failure) Unwrap() error { return f.Err }

// failure is one with a message.
func failure(reason, format string, args ...any) error {
	return &Failure{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// reasonOf is the reason of an error.
func reasonOf(err error) string {
	var told *Failure
	var invalid *executor.InvalidError
	var large *restore.TooLargeError
	var corrupt *restore.CorruptError
	switch {
	case errors.As(err, &told):
		return told.Reason
	case errors.As(err, &invalid):
		return ReasonInvalidParameters
	case errors.As(err, &large):
		return ReasonRestorePointTooLarge
	case errors.As(err, &corrupt):
		return ReasonRestorePointLost
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return ReasonForbidden
	}
	return ReasonFailed
}

const (
	// maxResult is how long a Result may be as JSON, in bytes: a termination message is cut there.
	maxResult = 4096
	// maxMessage, maxTold and maxLeft bound what is in it: bytes of the message, and bytes and number of lines in lists.
	maxMessage, maxTold, maxLeft = 1024, 240, 20
)

// Encode writes the result: JSON of at most 4 KiB, cut where it would be longer.
func (r Result) Encode() ([]byte, error) {
	r.Message, r.LeftCount = cut(r.Message, maxMessage), max(r.LeftCount, len(r.Left))
	left, more := slices.Clone(r.Left), 0
	for i := range left {
		left[i] = cut(left[i], maxTold)
	}
	if len(left) > maxLeft {
		left, more = left[:maxLeft], len(left)-maxLeft
	}
	for {
		r.Left = left
		if more > 0 {
			r.Left = append(slices.Clone(left), fmt.Sprintf("and %d more", more))
		}
		content, err := encoded(r)
		if err != nil || len(content) <= maxResult {
			return content, err
		}
		// What JSON escapes takes up to six times its length.
		switch n := len(left); {
		case n > 0:
			left, more = left[:n-1], more+1
		case r.Message != "":
			r.Message = cut(r.Message, len(r.Message)/2)
		default:
			return nil, fmt.Errorf("encoding result: it takes %d bytes of at most %d", len(content), maxResult)
		}
	}
}

func encoded(r Result) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("encoding result: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// cut is text of at most so many bytes, whole runes, with a sign where something is missing.
func cut(text string, length int) string {
	const sign = "…"
	text = strings.ToValidUTF8(text, "?")
	if len(text) <= length {
		return text
	}
	end := max(length-len(sign), 0)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	if length < len(sign) {
		return ""
	}
	return text[:end] + sign
}

// list tells of many things in a line: sorted, the first of them, and how many more there are.
func list(what []string) string {
	const most = 5
	what = slices.Clone(what)
	slices.Sort(what)
	more := ""
	if n := len(what); n > most {
		what, more = what[:most], fmt.Sprintf("; and %d more", n-most)
	}
	for i := range what {
		what[i] = cut(what[i], maxTold)
	}
	return strings.Join(what, "; ") + more
}

// WriteTerminationMessage writes the result where the message of a pod is read from.
func (r Result) WriteTerminationMessage(path string) error {
	content, err := r.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("writing termination message: %w", err)
	}
	return nil
}

// errDeadline and errInterrupted are why a run stops before its end.
var (
	errDeadline    = &Failure{Reason: ReasonDeadlineExceeded, Err: errors.New("its deadline has passed")}
	errInterrupted = &Failure{Reason: ReasonInterrupted, Err: errors.New("it was told to stop")}
)

// stopped says why ctx is done; nil if it is not.
func stopped(ctx context.Context) error {
	switch {
	case ctx.Err() == nil:
		return nil
	case errors.Is(context.Cause(ctx), errDeadline):
		return errDeadline
	}
	return errInterrupted
}
