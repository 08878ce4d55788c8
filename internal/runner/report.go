package runner

import "github.com/go-logr/logr"

// Progress is what a run has come to with one resource.
type Progress struct {
	// Key of the resource, which is the Nth, from 1, Of so many.
	Key   string
	N, Of int
	// Did is what was done, in words; where it was left as it was found, Left says why, and where it failed, Err.
	Did, Left string
	Err       error
}

// Reporter is told how a run goes on, by the run itself, which waits for it. What the run comes to is its Result.
type Reporter interface {
	Report(p Progress)
}

// logReporter writes a line for each resource.
type logReporter struct{ log logr.Logger }

// Report is that of Reporter.
func (l logReporter) Report(p Progress) {
	at := []any{"key", p.Key, "n", p.N, "of", p.Of}
	switch {
	case p.Err != nil:
		l.log.Error(p.Err, "Failed", at...)
	case p.Left != "":
		l.log.Info("Left as it was found", append(at, "why", p.Left)...)
	default:
		l.log.Info(p.Did, at...)
	}
}
