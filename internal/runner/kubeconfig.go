package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
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
	c.Wrap(func(next http.RoundTripper) http.RoundTripper { return discreet{straight{next}} })
	return c, nil
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
// reach what he does not reach himself. What is no success says so by a Status, or it says nothing.
type discreet struct{ next http.RoundTripper }

// noServer takes the place of what else is said.
const noServer = "what answers is no API server"

// maxStatus is more than a Status has, in bytes.
const maxStatus = 1 << 20

// RoundTrip is that of http.RoundTripper.
func (d discreet) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := d.next.RoundTrip(r)
	if err != nil || answer.StatusCode < 300 {
		return answer, err
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	answer.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the server (%d): %w", answer.StatusCode, err)
	}
	if !isStatus(answer.Header.Get("Content-Type"), body) {
		body = []byte(noServer)
		answer.Header.Set("Content-Type", "text/plain")
	}
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return answer, nil
}

// isStatus says whether a body is a Status of Kubernetes. In its binary form only a client reads it, which repeats nothing else.
func isStatus(contentType string, body []byte) bool {
	if media, _, err := mime.ParseMediaType(contentType); err == nil && media == runtime.ContentTypeProtobuf {
		return bytes.HasPrefix(body, []byte("k8s\x00"))
	}
	var status metav1.TypeMeta
	return json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.APIVersion == "v1"
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
