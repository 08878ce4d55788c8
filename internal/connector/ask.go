package connector

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

const (
	// deadline is for all that a server is asked.
	deadline = 5 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 1 << 20
)

// Ask asks the API server of a config whom it takes the credentials for, and which version it is; empty if it does not
// say so. An *Error has reason Unreachable or Unauthorized; any other error is that of ctx. No connection of it is left
// when it returns.
func Ask(ctx context.Context, config *rest.Config) (version string, err error) {
	bounded, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	s, err := open(config)
	if err != nil {
		return "", err
	}
	defer s.transport.CloseIdleConnections()
	if err = s.identify(bounded); err == nil {
		version, err = s.version(bounded)
	}
	if ctx.Err() != nil {
		return "", fmt.Errorf("asking the API server: %w", ctx.Err())
	}
	return version, err
}

// conversation is with one server.
type conversation struct {
	client    *http.Client
	transport *http.Transport
	address   *url.URL
}

// open readies a server to be asked. Its transport is its own: those of client-go are kept for each config there ever
// was.
func open(config *rest.Config) (*conversation, error) {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, unreachable("has no address that can be used")
	}
	secured, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, unreachable("has certificates that cannot be used")
	}
	transport := &http.Transport{TLSClientConfig: secured, Proxy: config.Proxy, MaxResponseHeaderBytes: maxAnswer}
	if transport.Proxy == nil {
		transport.Proxy = utilnet.NewProxierWithNoProxyCIDR(http.ProxyFromEnvironment)
	}
	wrapped, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, unreachable("has credentials that cannot be used")
	}
	return &conversation{
		// The credentials would go to wherever a redirect leads.
		client:    &http.Client{Transport: wrapped, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		transport: transport, address: address,
	}, nil
}

// review asks who somebody is.
const review = `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`

// anonymous is who has no credentials that count.
const anonymous = "system:anonymous"

// identify asks whom the server takes the credentials for.
func (s *conversation) identify(ctx context.Context) error {
	code, body, err := s.do(ctx, http.MethodPost, review, "apis", "authentication.k8s.io", "v1", "selfsubjectreviews")
	if err != nil {
		return err
	}
	var answer struct {
		Kind   string `json:"kind"`
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	switch {
	case code == http.StatusUnauthorized:
		return &Error{v1alpha1.ReasonUnauthorized, "Its server does not take the credentials (401)"}
	case code == http.StatusForbidden:
		return &Error{v1alpha1.ReasonUnauthorized, "Its server does not say whom it takes the credentials for (403): for nobody, or for one who has not even ClusterRole system:basic-user"}
	case code != http.StatusCreated && code != http.StatusOK:
		return unreachable(fmt.Sprintf("answers with status %d, and not with who the credentials are for, as Kubernetes does from 1.28 on", code))
	case json.Unmarshal(body, &answer) != nil || answer.Kind != "SelfSubjectReview":
		return unreachable("does not answer as Kubernetes does")
	case answer.Status.UserInfo.Username == "" || answer.Status.UserInfo.Username == anonymous:
		return &Error{v1alpha1.ReasonUnauthorized, "Its server takes the credentials for nobody's (" + anonymous + ")"}
	}
	return nil
}

// versionShape is what a version looks like; anything else a server says does not get into a status.
var versionShape = regexp.MustCompile(`^v[0-9]+\.[0-9]+[0-9A-Za-z.+_-]{0,50}$`)

// version asks for the version, which not everybody may know.
func (s *conversation) version(ctx context.Context) (string, error) {
	code, body, err := s.do(ctx, http.MethodGet, "", "version")
	if err != nil {
		return "", err
	}
	var answer struct {
		GitVersion string `json:"gitVersion"`
	}
	if code != http.StatusOK || json.Unmarshal(body, &answer) != nil || !versionShape.MatchString(answer.GitVersion) {
		return "", nil
	}
	return answer.GitVersion, nil
}

// do asks one thing.
func (s *conversation) do(ctx context.Context, method, body string, path ...string) (code int, answer []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, method, s.address.JoinPath(path...).String(), strings.NewReader(body))
	if err != nil {
		return 0, nil, unreachable("has no address that can be used")
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Content-Type", "application/json")
	response, err := s.client.Do(request)
	if err == nil {
		defer response.Body.Close()
		answer, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	}
	if err != nil {
		return 0, nil, unreachable(Why(err, "within "+deadline.String()))
	}
	return response.StatusCode, answer, nil
}

func unreachable(why string) error {
	return &Error{v1alpha1.ReasonUnreachable, "Its server " + why}
}

// Why is an error of a connection in words that stay the same from one time to the next, and tell nothing of what was sent or received,
// nor where to. in says how long it was waited for.
func Why(err error, in string) string {
	var of *net.OpError
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &of) && of.Op == "proxyconnect":
		return "is reached by a proxy that " + Why(of.Err, in)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "does not answer " + in
	case errors.Is(err, context.Canceled):
		return "was not waited for"
	case errors.As(err, &name):
		return "has a name that is not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refuses connections"
	case errors.As(err, &certificate):
		return "has a certificate that is not valid for its name, or that the certificate authority of the kubeconfig has not signed"
	case errors.As(err, &alert):
		return "refuses TLS connections of this kind; does it want a client certificate?"
	}
	return "cannot be spoken to: the connection fails, a proxy does not let it through, or what answers does not speak HTTPS"
}
