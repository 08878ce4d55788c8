package kube

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// sends is a transport that counts what it sends.
type sends int

func (s *sends) RoundTrip(*http.Request) (*http.Response, error) {
	*s++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// What changes something is sent while the fence is open, and everything else always.
func TestFence(t *testing.T) {
	closed := errors.New("closed")
	for _, c := range []struct {
		method, path string
		changes      bool
	}{
		{http.MethodPost, "/apis/argoproj.io/v1alpha1/namespaces/argocd/applications", true},
		{http.MethodPut, "/api/v1/namespaces/a/configmaps/events.k8s.io", true},
		{http.MethodPatch, "/apis/apps/v1/namespaces/a/deployments/web/scale", true},
		{http.MethodDelete, "/apis/batch/v1/namespaces/a/jobs/b", true},
		{http.MethodGet, "/api/v1/namespaces", false},
		{http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", false},
		{http.MethodPost, "/apis/authentication.k8s.io/v1/tokenreviews", false},
		{http.MethodPost, "/apis/events.k8s.io/v1/namespaces/a/events", false},
		{http.MethodPatch, "/apis/events.k8s.io/v1/namespaces/a/events/b.17a", false},
	} {
		for _, state := range []error{nil, closed} {
			var sent sends
			want := map[bool]error{true: state}[c.changes]
			r := httptest.NewRequest(c.method, "https://api.example.com/prefix"+c.path, strings.NewReader("{}"))
			_, err := Fence(func() error { return state })(&sent).RoundTrip(r)
			if !errors.Is(err, want) || sent > 0 != (want == nil) {
				t.Errorf("%s %s is answered %v, and sent %d times, where the fence says %v", c.method, c.path, err, sent, state)
			}
		}
	}
}

// later is a moment of the same time on the wall, by which the monotonic clock, the second field of a time.Time, has gone on.
func later(of time.Time, d time.Duration) time.Time {
	(*struct {
		wall      uint64
		monotonic time.Duration
	})(unsafe.Pointer(&of)).monotonic += d
	return of
}

// The time that has passed is told by the clock that did not stand still.
func TestElapsed(t *testing.T) {
	from := time.Now()
	for name, c := range map[string]struct {
		to   time.Time
		want time.Duration
	}{
		"none":                {from, 0},
		"by both":             {from.Add(time.Minute), time.Minute},
		"by the monotonic":    {later(from, time.Minute), time.Minute},
		"by that on the wall": {later(from.Add(time.Minute), -time.Minute), time.Minute},
	} {
		if got := Elapsed(from, c.to); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
