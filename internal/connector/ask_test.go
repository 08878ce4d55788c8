package connector

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// answers are those of a server by method and path; whatever is not here is 404.
type answers map[string]http.HandlerFunc

const (
	reviewPath  = "POST /apis/authentication.k8s.io/v1/selfsubjectreviews"
	versionPath = "GET /version"
)

func says(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func user(name string) http.HandlerFunc {
	return says(http.StatusCreated, fmt.Sprintf(`{"kind":"SelfSubjectReview","status":{"userInfo":{"username":%q}}}`, name))
}

// play serves answers and returns a config that reaches them, and how many connections are open.
func play(t *testing.T, all answers) (*rest.Config, func() int64) {
	t.Helper()
	var open atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answer, ok := all[r.Method+" "+r.URL.Path]; ok {
			answer(w, r)
			return
		}
		http.NotFound(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, BearerToken: canary, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, open.Load
}

func TestAsk(t *testing.T) {
	fine := says(http.StatusOK, `{"gitVersion":"v1.36.2-eks-1"}`)
	unauthorized, unreachable := v1alpha1.ReasonUnauthorized, v1alpha1.ReasonUnreachable
	for name, test := range map[string]struct {
		answers         answers
		version, reason string
		words           string
	}{
		"it is fine":                  {answers{reviewPath: user("me"), versionPath: fine}, "v1.36.2-eks-1", "", ""},
		"its version is not for us":   {answers{reviewPath: user("me"), versionPath: says(http.StatusForbidden, "{}")}, "", "", ""},
		"its version is none":         {answers{reviewPath: user("me"), versionPath: says(http.StatusOK, `{"gitVersion":"canary-7be1"}`)}, "", "", ""},
		"its version is a long story": {answers{reviewPath: user("me"), versionPath: says(http.StatusOK, `{"gitVersion":"v1.2`+strings.Repeat("a", 99)+`"}`)}, "", "", ""},
		"other credentials":           {answers{reviewPath: says(http.StatusUnauthorized, canary), versionPath: fine}, "", unauthorized, "401"},
		"no rights":                   {answers{reviewPath: says(http.StatusForbidden, canary), versionPath: fine}, "", unauthorized, "403"},
		"nobody":                      {answers{reviewPath: user("system:anonymous"), versionPath: fine}, "", unauthorized, "anonymous"},
		"no name":                     {answers{reviewPath: user(""), versionPath: fine}, "", unauthorized, "anonymous"},
		"an old one":                  {answers{versionPath: fine}, "", unreachable, "404"},
		"it is broken":                {answers{reviewPath: says(http.StatusServiceUnavailable, canary)}, "", unreachable, "503"},
		"it is another thing":         {answers{reviewPath: says(http.StatusOK, "<html>canary-7be1")}, "", unreachable, "not answer as Kubernetes"},
		"it is another kind":          {answers{reviewPath: says(http.StatusCreated, `{"kind":"Pod","status":{"userInfo":{"username":"me"}}}`)}, "", unreachable, "not answer as Kubernetes"},
		"it hangs up": {answers{reviewPath: func(w http.ResponseWriter, _ *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			_ = conn.Close()
		}}, "", unreachable, "cannot be spoken to"},
	} {
		t.Run(name, func(t *testing.T) {
			config, open := play(t, test.answers)
			version, err := Ask(t.Context(), config)
			if version != test.version || reasonOf(err) != test.reason {
				t.Fatalf("got %q, %v; want %q, %q", version, err, test.version, test.reason)
			}
			if err != nil && (!strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), canary)) {
				t.Errorf("got %v, want %q", err, test.words)
			}
			closed(t, open)
		})
	}
}

// closed waits until a server has seen that no connection is open.
func closed(t *testing.T, open func() int64) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); open() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections stay open", open())
		}
	}
}

// Credentials do not go where a redirect leads.
func TestAskFollowsNothing(t *testing.T) {
	var reached atomic.Bool
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Store(true) }))
	t.Cleanup(thief.Close)
	config, _ := play(t, answers{reviewPath: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
	}})
	if _, err := Ask(t.Context(), config); reasonOf(err) != v1alpha1.ReasonUnreachable || reached.Load() {
		t.Errorf("got %v, reached %t", err, reached.Load())
	}
}

// What never ends is not read to its end.
func TestAskReadsNoMoreThanItMust(t *testing.T) {
	config, open := play(t, answers{reviewPath: func(w http.ResponseWriter, r *http.Request) {
		for chunk := []byte(strings.Repeat(" ", 1<<16)); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}})
	started := time.Now()
	if _, err := Ask(t.Context(), config); reasonOf(err) != v1alpha1.ReasonUnreachable || time.Since(started) > deadline {
		t.Errorf("got %v after %s", err, time.Since(started))
	}
	closed(t, open)
}

// The ways in which there is no answer at all.
func TestAskNobody(t *testing.T) {
	config, _ := play(t, answers{reviewPath: user("me")})
	stranger := rest.CopyConfig(config)
	stranger.ServerName = "somebody.else"
	unknown := rest.CopyConfig(config)
	unknown.CAData = nil
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := &rest.Config{Host: "https://" + listener.Addr().String(), BearerToken: canary}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	by := func(scheme, proxy string) *rest.Config {
		proxied := rest.CopyConfig(config)
		proxied.Proxy = http.ProxyURL(&url.URL{Scheme: scheme, Host: strings.TrimPrefix(strings.TrimPrefix(proxy, "https://"), "http://")})
		return proxied
	}
	for name, test := range map[string]struct {
		config *rest.Config
		words  string
	}{
		"another name":          {stranger, "certificate"},
		"another authority":     {unknown, "certificate"},
		"nobody listens":        {gone, "refuses connections"},
		"it speaks no TLS":      {&rest.Config{Host: strings.Replace(plain.URL, "http", "https", 1)}, "cannot be spoken to"},
		"an address of nothing": {&rest.Config{Host: "https://a b"}, "no address"},
		"no proxy there":        {by("http", gone.Host), "is reached by a proxy that refuses connections"},
		"a proxy of plain HTTP": {by("https", plain.URL), "is reached by a proxy that cannot be spoken to"},
		"a proxy that does not": {by("http", plain.URL), "a proxy does not let it through"},
		"no SOCKS proxy there":  {by("socks5", gone.Host), "is reached by a proxy that refuses connections"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Ask(t.Context(), test.config); reasonOf(err) != v1alpha1.ReasonUnreachable || !strings.Contains(err.Error(), test.words) {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
}

// silent takes connections and says nothing.
func silent(t *testing.T) *rest.Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var held []net.Conn
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			held = append(held, conn)
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wait.Wait()
		for _, conn := range held {
			_ = conn.Close()
		}
	})
	return &rest.Config{Host: "https://" + listener.Addr().String(), BearerToken: canary}
}

// A server that says nothing is given up on, and leaves nothing running.
func TestAskSilence(t *testing.T) {
	config, before, started := silent(t), runtime.NumGoroutine(), time.Now()
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			if _, err := Ask(t.Context(), config); reasonOf(err) != v1alpha1.ReasonUnreachable || !strings.Contains(err.Error(), "does not answer within 5s") {
				t.Errorf("got %v", err)
			}
		})
	}
	wait.Wait()
	if took := time.Since(started); took > deadline+2*time.Second {
		t.Errorf("it took %s", took)
	}
	for end := time.Now().Add(2 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines were %d before", runtime.NumGoroutine(), before)
		}
	}
}

// A manager that is stopped says nothing of what it could not ask.
func TestAskStopped(t *testing.T) {
	config := silent(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := Ask(ctx, config); !errors.Is(err, context.Canceled) || reasonOf(err) != "error" {
		t.Errorf("got %v", err)
	}
}
