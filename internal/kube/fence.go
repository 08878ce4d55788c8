package kube

import (
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/transport"
)

// Fence keeps a client from changing anything while there is an error. One that stood still, as its machine does when that is
// moved or suspended, goes on in the middle of what it did before its own clocks have told it that its time is over, and
// others may have taken its place.
func Fence(closed func() error) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return fence{func(*http.Request) error { return closed() }, next}
	}
}

type fence struct {
	closed func(*http.Request) error
	next   http.RoundTripper
}

// RoundTrip is that of http.RoundTripper.
func (f fence) RoundTrip(r *http.Request) (*http.Response, error) {
	if changes(r) {
		if err := f.closed(r); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	return f.next.RoundTrip(r)
}

// WrappedRoundTripper is that of net.RoundTripperWrapper.
func (f fence) WrappedRoundTripper() http.RoundTripper { return f.next }

// changes says whether a request changes what others go by. By a POST it is asked, too, who somebody is and what he may do; and
// Events say what has happened, whoever writes them.
func changes(r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	for _, group := range []string{"authentication.k8s.io", "authorization.k8s.io", "events.k8s.io"} {
		if strings.Contains(r.URL.Path, "/apis/"+group+"/") {
			return false
		}
	}
	return true
}

// Elapsed is how long one moment is after another by the clock that says more: where a machine stood still one of its clocks did,
// too, and the other may have been set.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
