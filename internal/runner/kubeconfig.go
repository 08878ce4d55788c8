package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/labkeeper/labkeeper/internal/connector"
)

// TargetConfig reads the current context of a kubeconfig file. It refuses what would run programs or read files as the
// runner: exec plugins, auth providers and paths. Its errors carry nothing of the kubeconfig but names.
func TargetConfig(path string) (*rest.Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	config, err := clientcmd.Load(content)
	if err != nil {
		// The parser's error quotes what it could not parse.
		return nil, fmt.Errorf("reading kubeconfig %s: it is not one", path)
	}
	if err := usable(config); err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", path, err)
	}
	c, err := clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: its current context cannot be used", path)
	}
	server, _, err := rest.DefaultServerUrlFor(c)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: its server has no address that can be used", path)
	}
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return discreet{straight{hidden{next, server.JoinPath("/")}}}
	})
	c.Host = somewhere
	return c, nil
}

// somewhere is what errors call the server of a kubeconfig.
const somewhere = "https://target"

// hidden has no word of where the server is, nor of what certificate it shows: whoever reads a plan may not read the Secret of its
// connector. The client puts the address that it knows into its errors, so that it knows another.
type hidden struct {
	next   http.RoundTripper
	server *url.URL
}

// RoundTrip is that of http.RoundTripper.
func (h hidden) RoundTrip(r *http.Request) (*http.Response, error) {
	there := *r
	there.URL, there.Host = h.server.JoinPath(r.URL.EscapedPath()), ""
	there.URL.RawQuery = r.URL.RawQuery
	answer, err := h.next.RoundTrip(&there)
	if err != nil {
		return nil, hush(err)
	}
	answer.Request, answer.Body = r, quiet{answer.Body}
	return answer, nil
}

// quiet is the body of an answer that was cut off with no word of where.
type quiet struct{ io.ReadCloser }

// Read is that of io.Reader.
func (q quiet) Read(p []byte) (int, error) {
	n, err := q.ReadCloser.Read(p)
	return n, hush(err)
}

// hushed is an error of a connection, of which it says nothing but what kind it is.
type hushed struct{ error }

// Error is what kind it is. How long it was waited for depends on what: a connection has less time than a request.
func (h hushed) Error() string { return "its server " + connector.Why(h.error, "in time") }

// Timeout says whether it was waited for in vain, which clients ask of the error itself.
func (h hushed) Timeout() bool {
	var timeout net.Error
	return errors.As(h.error, &timeout) && timeout.Timeout()
}

// Unwrap is the cause.
func (h hushed) Unwrap() error { return h.error }

// hush hushes an error. Clients try again what ends unexpectedly, and know that by the error itself, as readers do that they are at the
// end.
func hush(err error) error {
	switch {
	case err == nil, err == io.EOF: //nolint:errorlint // no other one
		return err
	case utilnet.IsProbableEOF(err), utilnet.IsHTTP2ConnectionLost(err):
		return io.ErrUnexpectedEOF
	}
	return hushed{err}
}

// straight refuses redirects: client-go would follow them with the credentials, to wherever the server of somebody else
// says, and what is found there would end up in messages.
type straight struct{ next http.RoundTripper }

// RoundTrip is that of http.RoundTripper.
func (s straight) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.next.RoundTrip(r)
	if err != nil || answer.StatusCode < 300 || answer.StatusCode > 399 {
		return answer, err
	}
	answer.Body.Close()
	return nil, fmt.Errorf("the server redirects (%d), which is not followed", answer.StatusCode)
}

// discreet has no words of what is no API server: they would end up in messages, and whoever writes a connector may have a runner
// reach what he does not reach himself. What is no success says so by a Status, or it says nothing; what is one says of what kind it is,
// and clients repeat all of one that does not.
type discreet struct{ next http.RoundTripper }

// noServer takes the place of what else is said.
const noServer = "what answers is no API server"

// maxStatus is more than a Status has, and maxAnswer than a page of a list, in bytes.
const maxStatus, maxAnswer = 1 << 20, 1 << 28

// RoundTrip is that of http.RoundTripper. Runners watch nothing, so that each answer comes to its end.
func (d discreet) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	success, most := answer.StatusCode < 300, int64(maxStatus)
	if success {
		most = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, most))
	answer.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the server (%d): %w", answer.StatusCode, err)
	}
	switch kind, known := kindOf(answer.Header.Get("Content-Type"), body); {
	case known && (success || kind == metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}):
	case success:
		return nil, errors.New(noServer)
	default:
		body = []byte(noServer)
		answer.Header.Set("Content-Type", "text/plain")
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return answer, nil
}

// kindOf is the kind of what a body has, and whether it says one. In its binary form only a client reads it, which repeats nothing: of
// an error that is taken for a Status.
func kindOf(contentType string, body []byte) (kind metav1.TypeMeta, known bool) {
	if media, _, err := mime.ParseMediaType(contentType); err == nil && media == runtime.ContentTypeProtobuf {
		return metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, bytes.HasPrefix(body, []byte("k8s\x00"))
	}
	err := json.Unmarshal(body, &kind)
	return kind, err == nil && kind.Kind != "" && kind.APIVersion != ""
}

// usable refuses a current context that is not whole, or that could do more than log in.
func usable(config *api.Config) error {
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return fmt.Errorf("its current-context %q does not exist", config.CurrentContext)
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return fmt.Errorf("its cluster %q does not exist or has no server", context.Cluster)
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	switch {
	case !ok:
		return fmt.Errorf("its user %q does not exist", context.AuthInfo)
	case user.Exec != nil:
		return fmt.Errorf("its user runs the exec plugin %q; give the user a token or a client certificate", user.Exec.Command)
	case user.AuthProvider != nil:
		return fmt.Errorf("its user has the auth provider %q; give the user a token or a client certificate", user.AuthProvider.Name)
	case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" || cluster.CertificateAuthority != "":
		return errors.New("it names files; embed them as data")
	}
	return nil
}
