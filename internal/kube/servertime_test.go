package kube

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"
)

// times is a clock and an API server, which has another.
type times struct {
	now time.Time
	// behind is how far the API server is behind the clock; undated, it does not say.
	behind  time.Duration
	undated bool
	// takes is how long after it was sent a request is answered, and queued how long before that.
	takes, queued time.Duration
	asked         []string
}

func (c *times) Now() time.Time                  { return c.now }
func (c *times) Since(t time.Time) time.Duration { return c.now.Sub(t) }

// set sets the clock.
func (c *times) set(d time.Duration) { c.now = later(c.now.Add(d), -d) }

func (c *times) RoundTrip(r *http.Request) (*http.Response, error) {
	c.asked = append(c.asked, r.Method+" "+r.URL.Path)
	c.now = c.now.Add(c.takes)
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
	if !c.undated {
		response.Header.Set("Date", c.now.Add(-c.behind-c.queued).UTC().Format(http.TimeFormat))
	}
	return response, nil
}

// What changes something is sent while the clocks are near each other, as far as anybody knows, and everything else always.
func TestServerTime(t *testing.T) {
	const prefix = "/k8s/clusters/c-1"
	for name, c := range map[string]struct {
		server times
		// then is what happens after the first answer.
		then func(*times)
		// apart is what is said of the clocks; empty if it is nothing.
		apart string
		// asks: the API server is asked once more, before a change.
		asks bool
	}{
		"alike":                           {},
		"a little apart":                  {server: times{behind: 50 * time.Second}},
		"a little apart, the other way":   {server: times{behind: -50 * time.Second}},
		"ahead":                           {server: times{behind: 2 * time.Hour}, apart: "2h0m0s ahead of", asks: true},
		"behind":                          {server: times{behind: -2 * time.Hour}, apart: "2h0m0s behind", asks: true},
		"not told":                        {server: times{behind: 2 * time.Hour, undated: true}},
		"slowly told":                     {server: times{takes: 10 * time.Minute, queued: 5 * time.Minute}},
		"set, and wrong":                  {then: func(c *times) { c.set(24 * time.Hour); c.behind += 24 * time.Hour }, apart: "24h0m0s ahead of", asks: true},
		"set back, and wrong":             {then: func(c *times) { c.set(-24 * time.Hour); c.behind -= 24 * time.Hour }, apart: "24h0m0s behind", asks: true},
		"of a machine that stood still":   {then: func(c *times) { c.set(24 * time.Hour) }, asks: true},
		"set right, as nobody has told":   {server: times{behind: 2 * time.Hour}, then: func(c *times) { c.set(-2 * time.Hour); c.behind = 0 }},
		"the API server's, which was set": {server: times{behind: 2 * time.Hour}, then: func(c *times) { c.behind = 0 }, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := c.server
			server.now = time.Now()
			clocks := NewServerTime(&server)
			transport := clocks.Wrap(&server)
			send := func(method, path string) error {
				_, err := transport.RoundTrip(httptest.NewRequest(method, "https://api.example.com"+prefix+path, strings.NewReader("{}")))
				return err
			}
			if err := send(http.MethodGet, "/api/v1/namespaces"); err != nil {
				t.Fatal(err)
			}
			if c.then != nil {
				c.then(&server)
			}
			server.now = server.now.Add(2 * time.Second) // the next answer may be another
			server.asked = nil
			for range 2 { // a refusal is no end
				err := send(http.MethodPost, "/api/v1/namespaces/a/configmaps")
				if (err == nil) != (c.apart == "") || err != nil && !strings.Contains(err.Error(), "the clock of this machine is "+c.apart+" that of") {
					t.Errorf("a change is answered %v", err)
				}
			}
			if err := clocks.Apart(); (err == nil) != (c.apart == "") {
				t.Errorf("the clocks are %s apart: %v", clocks.Ahead(), err)
			}
			if asks := slices.Contains(server.asked, "GET "+prefix+"/version"); asks != c.asks {
				t.Errorf("the API server is asked %v", server.asked)
			}
			if sent := slices.Contains(server.asked, "POST "+prefix+"/api/v1/namespaces/a/configmaps"); sent != (c.apart == "") {
				t.Errorf("the API server is asked %v", server.asked)
			}
			if err := send(http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews"); err != nil {
				t.Errorf("what changes nothing is refused: %v", err)
			}
		})
	}
}

// A manager that nobody has asked anything of since its machine stood still is ready as soon as somebody looks.
func TestServerTimeCheck(t *testing.T) {
	for name, c := range map[string]struct {
		then  func(*times)
		asks  bool
		ready bool
	}{
		"alike":                         {then: func(*times) {}, ready: true},
		"of a machine that stood still": {then: func(c *times) { c.set(24 * time.Hour) }, asks: true, ready: true},
		"set, and wrong":                {then: func(c *times) { c.set(24 * time.Hour); c.behind += 24 * time.Hour }, asks: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := times{now: time.Now()}
			clocks := NewServerTime(&server)
			transport := clocks.Wrap(&server)
			ask := func(ctx context.Context) error {
				_, err := transport.RoundTrip(httptest.NewRequestWithContext(ctx, http.MethodGet, "https://api.example.com/version", nil))
				return err
			}
			if err := ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			server.asked = nil
			c.then(&server)
			server.now = server.now.Add(2 * time.Second)
			err := clocks.Check(ask)(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
			if (err == nil) != c.ready {
				t.Errorf("it is ready: %v", err)
			}
			if asks := len(server.asked) > 0; asks != c.asks {
				t.Errorf("the API server is asked %v", server.asked)
			}
		})
	}
}

// closes is a body that knows.
type closes struct {
	io.Reader
	closed bool
}

func (c *closes) Close() error {
	c.closed = true
	return nil
}

// A transport that does not send a request closes its body.
func TestServerTimeClosesBody(t *testing.T) {
	server := times{now: time.Now(), behind: time.Hour}
	transport, body := NewServerTime(&server).Wrap(&server), &closes{Reader: strings.NewReader("{}")}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		_, err := transport.RoundTrip(httptest.NewRequest(method, "https://api.example.com/api/v1/namespaces/a", body))
		if refused := method == http.MethodDelete; refused != (err != nil) || body.closed != refused {
			t.Errorf("%s is answered %v, its body is closed: %v", method, err, body.closed)
		}
	}
}

// What nobody can tell from clocks that are alike is none.
func TestServerTimeOfTwoReadings(t *testing.T) {
	for set, want := range map[time.Duration]time.Duration{
		40 * time.Nanosecond: 0, -300 * time.Millisecond: 0, 2 * time.Second: 2 * time.Second, -time.Hour: -time.Hour,
	} {
		server := &times{now: time.Now()}
		clocks := NewServerTime(server)
		if _, err := clocks.Wrap(server).RoundTrip(httptest.NewRequest(http.MethodGet, "https://api.example.com/api", http.NoBody)); err != nil {
			t.Fatal(err)
		}
		server.set(set)
		if got := clocks.Ahead(); got != want {
			t.Errorf("a clock that is set by %s is ahead by %s, want %s", set, got, want)
		}
	}
}
