package argocd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

const (
	labelSecretType   = "argocd.argoproj.io/secret-type"
	secretTypeCluster = "cluster"
)

// SecretGVK is a core Secret.
var SecretGVK = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}

// Cluster is a cluster as Argo CD is told of it.
type Cluster struct {
	// Namespace of Argo CD and Name of the Secret.
	Namespace, Name string
	// DisplayName is what Applications call the cluster.
	DisplayName string
	// Credentials of the cluster.
	Credentials Credentials
}

// Credentials are what a kubeconfig's current context says, in Argo CD's terms.
type Credentials struct {
	// Server is the URL of the API server.
	Server string
	config clusterConfig
}

// clusterConfig is the JSON that Argo CD reads from a cluster Secret's key config.
type clusterConfig struct {
	Username        string          `json:"username,omitempty"`
	Password        string          `json:"password,omitempty"`
	BearerToken     string          `json:"bearerToken,omitempty"`
	Exec            *execProvider   `json:"execProviderConfig,omitempty"`
	TLSClientConfig tlsClientConfig `json:"tlsClientConfig"`
	ProxyURL        string          `json:"proxyUrl,omitempty"`
}

type tlsClientConfig struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName,omitempty"`
	CAData     []byte `json:"caData,omitempty"`
	CertData   []byte `json:"certData,omitempty"`
	KeyData    []byte `json:"keyData,omitempty"`
}

// ParseKubeconfig reads the current context of a kubeconfig. It refuses by name what
// Argo CD could not use or must not run: exec plugins (but those of clouds in a kubeconfig that is
// trusted), auth providers, files and impersonation. Its errors never carry anything of the
// kubeconfig but names.
func ParseKubeconfig(kubeconfig []byte, trust Trust) (Credentials, error) {
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		// The parser's error quotes what it could not parse.
		return Credentials{}, errors.New("it is not a kubeconfig")
	}
	cluster, user, err := current(config, trust)
	if err != nil {
		return Credentials{}, err
	}
	user, exec, err := identity(user, trust)
	if err == nil {
		err = usable(cluster, user, exec)
	}
	if err != nil {
		return Credentials{}, err
	}
	tls := tlsClientConfig{
		Insecure:   cluster.InsecureSkipTLSVerify,
		ServerName: cluster.TLSServerName,
		CertData:   user.ClientCertificateData,
		KeyData:    user.ClientKeyData,
	}
	if !tls.Insecure { // Argo CD refuses a CA beside insecure
		tls.CAData = cluster.CertificateAuthorityData
	}
	return Credentials{
		Server: cluster.Server,
		config: clusterConfig{
			Username:        user.Username,
			Password:        user.Password,
			BearerToken:     user.Token,
			Exec:            exec,
			TLSClientConfig: tls,
			ProxyURL:        cluster.ProxyURL,
		},
	}, nil
}

// current is the cluster and the user of the current context.
func current(config *api.Config, trust Trust) (*api.Cluster, *api.AuthInfo, error) {
	context, ok := config.Contexts[config.CurrentContext]
	if !ok {
		return nil, nil, fmt.Errorf("its current-context %q does not exist", config.CurrentContext)
	}
	cluster, ok := config.Clusters[context.Cluster]
	if !ok || cluster.Server == "" {
		return nil, nil, fmt.Errorf("its cluster %q does not exist or has no server", context.Cluster)
	}
	if err := Remote(cluster.Server); err != nil {
		return nil, nil, fmt.Errorf("the server of its cluster %q %w", context.Cluster, err)
	}
	if trust == Untrusted && !encrypted(cluster) {
		// Whoever writes one could have Argo CD ask what is no API server, and only he cannot reach.
		return nil, nil, fmt.Errorf("the server of its cluster %q is not one of https", context.Cluster)
	}
	user, ok := config.AuthInfos[context.AuthInfo]
	if !ok {
		return nil, nil, fmt.Errorf("its user %q does not exist", context.AuthInfo)
	}
	return cluster, user, nil
}

func encrypted(cluster *api.Cluster) bool {
	return strings.HasPrefix(strings.ToLower(cluster.Server), "https:")
}

// Remote says why a server cannot be that of another cluster than the one that Argo CD runs on, without quoting it.
func Remote(server string) error {
	switch {
	case Address(server) == InClusterServer:
		return errors.New("is the one that Argo CD runs on; use a target of type hub")
	case !plain(server):
		return errors.New("is not a URL such as https://host:port/path")
	}
	return nil
}

// plainServer is a URL without userinfo, query and fragment, of which no character means anything to a shell.
var plainServer = regexp.MustCompile(`^(?i:https?)://([-.0-9A-Za-z]+|\[[.:0-9A-Fa-f]+\])(:[0-9]+)?(/[-A-Za-z0-9._~%/]*)?$`)

// plain says whether a server can be shown, where a password or a token in it would be, too, and given to a Workflow as a
// parameter, which templates may put into their scripts.
func plain(server string) bool {
	u, err := url.Parse(server)
	return err == nil && plainServer.MatchString(server) && Host(u.Hostname())
}

// Host says whether a text is an IP address, without brackets and zone, or the name of a host.
func Host(text string) bool {
	return net.ParseIP(text) != nil || len(validation.IsDNS1123Subdomain(strings.TrimSuffix(strings.ToLower(text), "."))) == 0
}

// Address is a server's as Argo CD compares them.
func Address(server string) string {
	return strings.ToLower(strings.TrimRight(strings.TrimSpace(server), "/"))
}

// is says whether Argo CD would be told the same by another: what a kubeconfig has and leaves empty is not.
func (c clusterConfig) is(other clusterConfig) bool {
	mine, err := json.Marshal(c)
	theirs, otherErr := json.Marshal(other)
	return err == nil && otherErr == nil && bytes.Equal(mine, theirs)
}

// Clash says whether what a cluster Secret has of a server and its config is for the same server, with
// other credentials.
func (c Credentials) Clash(server string, config []byte) bool {
	if Address(server) != Address(c.Server) {
		return false
	}
	var other clusterConfig
	return json.Unmarshal(config, &other) != nil || !other.is(c.config)
}

// Differ says whether two are for the same server, and not the same.
func (c Credentials) Differ(other Credentials) bool {
	return Address(c.Server) == Address(other.Server) && !c.config.is(other.config)
}

// Same says whether two are for the same server, and the same.
func (c Credentials) Same(other Credentials) bool {
	return Address(c.Server) == Address(other.Server) && c.config.is(other.config)
}

// ClusterLabels are what Argo CD knows cluster Secrets by.
func ClusterLabels() map[string]string { return map[string]string{labelSecretType: secretTypeCluster} }

// identity is the user as Argo CD logs in, and what it runs for that; nil for nothing.
func identity(user *api.AuthInfo, trust Trust) (*api.AuthInfo, *execProvider, error) {
	switch {
	case trust == KeylessGCP:
		return &api.AuthInfo{}, login("gcp"), nil
	case user.Exec == nil:
		return user, nil, nil
	case trust == Untrusted:
		return nil, nil, fmt.Errorf("its user runs the exec plugin %q, which would act as Argo CD; give the user a token or a client certificate", user.Exec.Command)
	}
	exec, err := plugin(user.Exec)
	return &api.AuthInfo{Impersonate: user.Impersonate, ImpersonateUID: user.ImpersonateUID, ImpersonateGroups: user.ImpersonateGroups,
		ImpersonateUserExtra: user.ImpersonateUserExtra}, exec, err
}

// usable refuses what could not be carried over into a cluster Secret.
func usable(cluster *api.Cluster, user *api.AuthInfo, exec *execProvider) error {
	switch {
	case user.AuthProvider != nil:
		return fmt.Errorf("its user has the auth provider %q; give the user a token or a client certificate", user.AuthProvider.Name)
	case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" || cluster.CertificateAuthority != "":
		return errors.New("it names files; embed them as data")
	case user.Impersonate != "" || user.ImpersonateUID != "" || len(user.ImpersonateGroups) > 0 || len(user.ImpersonateUserExtra) > 0:
		return errors.New("its user impersonates another, which Argo CD cannot")
	}
	if exec != nil {
		if cluster.InsecureSkipTLSVerify || !encrypted(cluster) {
			return errors.New("its server is not verified, and would be handed a token of Argo CD's")
		}
		return nil
	}
	return identified(user)
}

// identified refuses a user without credentials, or with two kinds that exclude each other.
func identified(user *api.AuthInfo) error {
	certificate := len(user.ClientCertificateData) > 0 && len(user.ClientKeyData) > 0
	switch {
	case user.Token != "" && user.Username != "":
		return errors.New("its user has both a token and a password; give it one of them")
	case user.Token == "" && user.Username == "" && !certificate:
		return errors.New("its user has no token, no client certificate with its key and no password")
	}
	return nil
}

// Object is the Secret that registers the cluster.
func (c Cluster) Object() (*unstructured.Unstructured, error) {
	config, err := json.Marshal(c.Credentials.config)
	if err != nil {
		return nil, fmt.Errorf("encoding the config of cluster Secret %s: %w", c.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"type": "Opaque",
		"data": map[string]any{
			"name":   base64.StdEncoding.EncodeToString([]byte(c.DisplayName)),
			"server": base64.StdEncoding.EncodeToString([]byte(c.Credentials.Server)),
			"config": base64.StdEncoding.EncodeToString(config),
		},
	}}
	u.SetGroupVersionKind(SecretGVK)
	u.SetNamespace(c.Namespace)
	u.SetName(c.Name)
	u.SetLabels(ClusterLabels())
	return u, nil
}
