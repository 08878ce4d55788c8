package connector

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Kubeconfig is one that was taken.
type Kubeconfig struct {
	// Content is it, written anew: what the current context says, and nothing else.
	Content []byte
	// Config is it, to connect with.
	Config *rest.Config
	// Version of the Secret that it was read from.
	Version string
}

// Parse reads the current context of a kubeconfig. Errors say what is wrong with it, and nothing that stands in it.
func Parse(content []byte) (*Kubeconfig, error) {
	config, err := clientcmd.Load(content)
	if err != nil {
		return nil, errors.New("it is not a kubeconfig") // the parser quotes what it could not parse
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok || context == nil {
		return nil, errors.New("its current-context names no context of it")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil {
		return nil, errors.New("its current context names no cluster of it")
	}
	if user == nil {
		return nil, errors.New("its current context names no user of it")
	}
	for _, check := range []error{foreign(cluster, user), reachable(cluster), identified(user)} {
		if check != nil {
			return nil, check
		}
	}
	return anew(cluster, user)
}

// foreign refuses what would run or read something where the kubeconfig is used.
func foreign(cluster *api.Cluster, user *api.AuthInfo) error {
	switch {
	case user.Exec != nil:
		return errors.New("its user runs an exec plugin, which would act as the manager; give the user a token or a client certificate")
	case user.AuthProvider != nil:
		return errors.New("its user has an auth provider; give the user a token or a client certificate")
	case user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" || cluster.CertificateAuthority != "":
		return errors.New("it names files; embed them as data")
	}
	return nil
}

// reachable refuses addresses that cannot be one.
func reachable(cluster *api.Cluster) error {
	server, err := url.Parse(cluster.Server)
	if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil || server.RawQuery != "" || server.Fragment != "" {
		return errors.New("the server of its cluster is not a URL such as https://host:port; without TLS no credentials are sent")
	}
	if cluster.ProxyURL == "" {
		return nil
	}
	proxy, err := url.Parse(cluster.ProxyURL)
	if err != nil || proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
		return errors.New("the proxy-url of its cluster is not a URL such as http://host:port")
	}
	return nil
}

// identified refuses a user without credentials, or with two kinds that exclude each other.
func identified(user *api.AuthInfo) error {
	certificate := len(user.ClientCertificateData) > 0
	password := user.Username != "" || user.Password != ""
	switch {
	case certificate != (len(user.ClientKeyData) > 0):
		return errors.New("its user has a client certificate without the key, or the key without the certificate")
	case user.Token != "" && (password || certificate) || password && certificate:
		return errors.New("its user has credentials of two kinds; give it one of them")
	case user.Token == "" && !password && !certificate:
		return errors.New("its user has no token, no client certificate with its key and no password")
	case strings.ContainsAny(user.Token, "\r\n"):
		return errors.New("the token of its user has line breaks; take them out")
	}
	return nil
}

// anew is a kubeconfig of what is known.
func anew(cluster *api.Cluster, user *api.AuthInfo) (*Kubeconfig, error) {
	const name = "connector"
	config := api.NewConfig()
	config.CurrentContext = name
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.Clusters[name] = &api.Cluster{
		Server: cluster.Server, TLSServerName: cluster.TLSServerName, ProxyURL: cluster.ProxyURL,
		InsecureSkipTLSVerify: cluster.InsecureSkipTLSVerify, DisableCompression: cluster.DisableCompression,
	}
	if !cluster.InsecureSkipTLSVerify { // which clients refuse beside an authority
		config.Clusters[name].CertificateAuthorityData = cluster.CertificateAuthorityData
	}
	config.AuthInfos[name] = &api.AuthInfo{
		ClientCertificateData: user.ClientCertificateData, ClientKeyData: user.ClientKeyData,
		Token: user.Token, Username: user.Username, Password: user.Password,
		Impersonate: user.Impersonate, ImpersonateUID: user.ImpersonateUID,
		ImpersonateGroups: user.ImpersonateGroups, ImpersonateUserExtra: user.ImpersonateUserExtra,
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		return nil, errors.New("it cannot be written anew")
	}
	usable, err := clientcmd.NewDefaultClientConfig(*config, nil).ClientConfig()
	if err != nil {
		return nil, errors.New("clients refuse it: does it impersonate groups without a user?") // what they say quotes it
	}
	if _, err := rest.TLSConfigFor(usable); err != nil {
		return nil, errors.New("its certificates or its key are not PEM, or do not belong together")
	}
	return &Kubeconfig{Content: content, Config: usable}, nil
}
