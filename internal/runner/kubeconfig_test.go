package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
)

func TestTargetConfig(t *testing.T) {
	const server = `{server: "https://203.0.113.10:6443"}`
	for name, test := range map[string]struct{ cluster, user, says string }{
		"token":         {server, `{token: canary}`, ""},
		"password":      {server, `{username: admin, password: canary}`, ""},
		"exec":          {server, `{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, args: [canary], interactiveMode: Never}}`, `exec plugin "sh"`},
		"auth provider": {server, `{auth-provider: {name: gcp, config: {token: canary}}}`, `auth provider "gcp"`},
		"token file":    {server, `{tokenFile: /var/run/secrets/token, token: canary}`, "names files"},
		"certificate":   {server, `{client-certificate: /c, client-key: /k, token: canary}`, "names files"},
		"key":           {server, `{client-key: /k, token: canary}`, "names files"},
		"authority":     {`{server: "https://203.0.113.10:6443", certificate-authority: /ca}`, `{token: canary}`, "names files"},
		"no server":     {`{}`, `{token: canary}`, "has no server"},
		"no YAML":       {`{`, `{token: canary}`, "it is not one"},
		"odd data":      {server, `{client-key-data: canary!}`, "it is not one"},
	} {
		content := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n"+
			"clusters: [{name: c, cluster: %s}]\nusers: [{name: u, user: %s}]\n", test.cluster, test.user)
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		config, err := TargetConfig(path)
		switch {
		case test.says == "":
			if err != nil || config.Host != somewhere || config.BearerToken+config.Password != "canary" {
				t.Errorf("%s: %v, %v", name, config, err)
			}
		case err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "canary"):
			t.Errorf("%s: it is %v", name, err)
		}
	}
	if _, err := TargetConfig(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a file that is not there is no error")
	}
}

// configOf is that of a kubeconfig for a server.
func configOf(t *testing.T, server string) *rest.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q, insecure-skip-tls-verify: true}}], users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", server)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := TargetConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// Where a server is, and whose certificate it shows, stands in the Secret of a connector, which whoever reads a plan may not read: no result
// tells it, however the server cannot be spoken to.
func TestTargetConfigIsHidden(t *testing.T) {
	cut := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
	}))
	defer cut.Close()
	slow := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	gone := httptest.NewTLSServer(http.NotFoundHandler())
	gone.Close()
	for name, test := range map[string]struct {
		server *httptest.Server
		strict bool
		within time.Duration
		want   string
	}{
		"nobody listens":      {server: gone, want: "its server refuses connections"},
		"another certificate": {server: slow, strict: true, want: "its server has a certificate that is not valid for its name"},
		"no answer":           {server: slow, within: time.Second / 10, want: "its server does not answer in time"},
		"an answer cut off":   {server: cut, want: "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			config := configOf(t, test.server.URL+"/k8s/clusters/c-1")
			config.Insecure = !test.strict
			client, err := corev1client.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(test.within, time.Minute))
			defer cancel()
			_, err = client.ConfigMaps("shop").Get(ctx, "x", metav1.GetOptions{})
			r := &run{deps: Deps{Clock: newWorld(t).clock}, all: t.Context(), captured: map[string]bool{}}
			address, _ := url.Parse(test.server.URL)
			said := r.result(err).Message
			if !strings.Contains(said, test.want) || strings.Contains(said, address.Hostname()) || strings.Contains(said, address.Port()) || strings.Contains(said, "c-1") {
				t.Errorf("status.executions[].message of the plan will say: %s", said)
			}
		})
	}
}

// The server is asked where it is, below what else there is at its address.
func TestTargetConfigLeadsThere(t *testing.T) {
	asked := ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.Host + r.URL.RequestURI() }))
	defer server.Close()
	client, err := corev1client.NewForConfig(configOf(t, server.URL+"/k8s/clusters/c-1"))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = client.ConfigMaps("shop").List(t.Context(), metav1.ListOptions{LabelSelector: "a=b c"})
	if want := server.Listener.Addr().String() + "/k8s/clusters/c-1/api/v1/namespaces/shop/configmaps?labelSelector=a%3Db+c"; asked != want {
		t.Errorf("it is asked at %s, want %s", asked, want)
	}
}

// Whoever runs the server must not send the credentials elsewhere, nor have what is there read out.
func TestTargetConfigIsStraight(t *testing.T) {
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		_, _ = w.Write([]byte(`{"secret": "x"}`))
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer server.Close()
	client, err := rest.HTTPClientFor(configOf(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := client.Get(server.URL); err == nil || asked {
		t.Errorf("it goes there: %v", answer)
	}
}

// What a server says that is none gets into no result: whoever writes a connector would have a runner read out to him what it reaches
// and he does not. What an API server says of itself does.
func TestTargetConfigIsDiscreet(t *testing.T) {
	const canary = "db-password=hunter2"
	status := &apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", errors.New("ask the team")).ErrStatus
	encoded := func(mediaType string) string {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), mediaType)
		raw, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, metav1.SchemeGroupVersion), status)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, test := range map[string]struct {
		code            int
		mediaType, body string
		want            string
	}{
		"text":               {http.StatusBadGateway, "text/plain", canary, noServer},
		"no type":            {http.StatusInternalServerError, "", canary, noServer},
		"JSON":               {http.StatusNotFound, runtime.ContentTypeJSON, `{"kind": "` + canary + `", "apiVersion": "v1"}`, "could not find the requested resource"},
		"broken JSON":        {http.StatusBadRequest, runtime.ContentTypeJSON, `{"` + canary, "rejected our request for an unknown reason"},
		"no binary":          {http.StatusConflict, runtime.ContentTypeProtobuf, canary, "reported a conflict"},
		"JSON of no kind":    {http.StatusOK, runtime.ContentTypeJSON, `{"data": "` + canary + `"}`, noServer},
		"JSON of no version": {http.StatusOK, "", `{"kind": "` + canary + `"}`, noServer},
		"a page":             {http.StatusOK, "text/html", "<p>" + canary, noServer},
		"a Status":           {http.StatusForbidden, runtime.ContentTypeJSON, encoded(runtime.ContentTypeJSON), "ask the team"},
		"a Status in binary": {http.StatusForbidden, runtime.ContentTypeProtobuf, encoded(runtime.ContentTypeProtobuf), "ask the team"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil // which is guessed otherwise
				if test.mediaType != "" {
					w.Header().Set("Content-Type", test.mediaType)
				}
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			client, err := corev1client.NewForConfig(configOf(t, server.URL))
			if err != nil {
				t.Fatal(err)
			}
			objects, err := dynamic.NewForConfig(configOf(t, server.URL))
			if err != nil {
				t.Fatal(err)
			}
			_, typed := client.ConfigMaps("shop").Get(t.Context(), "x", metav1.GetOptions{})
			_, untyped := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).List(t.Context(), metav1.ListOptions{})
			if test.mediaType == runtime.ContentTypeProtobuf {
				untyped = typed // it does not read that, and says nothing of it
			}
			for _, err := range []error{typed, untyped} {
				r := &run{deps: Deps{Clock: newWorld(t).clock}, all: t.Context(), captured: map[string]bool{}}
				if said := r.result(err).Message; !strings.Contains(said, test.want) || strings.Contains(said, "hunter2") {
					t.Errorf("status.executions[].message of the plan will say: %s", said)
				}
			}
		})
	}
}

// That nobody has answered in time is known of an error that says nothing else: clients ask it themselves.
func TestHushedTimeout(t *testing.T) {
	for cause, want := range map[error]bool{os.ErrDeadlineExceeded: true, io.ErrClosedPipe: false} {
		err := &url.Error{Op: "Get", URL: somewhere, Err: hush(&net.OpError{Op: "read", Err: cause})}
		if err.Timeout() != want {
			t.Errorf("of %v it says %v", cause, err.Timeout())
		}
	}
}
