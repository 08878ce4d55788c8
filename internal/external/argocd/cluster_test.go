package argocd

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The secrets of the kubeconfigs below: nothing of them may stand in an error.
var canaries = []string{"canary-token", "canary-password", "canary-key", "canary-cert", "canary-ca", "canary-refresh", "canary-env", "canary-arg"}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// kubeconfig is one with the given cluster and user, as YAML flow maps.
func kubeconfig(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: the-context
contexts: [{name: the-context, context: {cluster: the-cluster, user: the-user}}]
clusters: [{name: the-cluster, cluster: %s}]
users: [{name: the-user, user: %s}]
`, cluster, user)
}

const (
	server = `{server: "https://203.0.113.10:6443"}`
	token  = `{token: canary-token}`
)

var goodKubeconfigs = map[string]struct{ kubeconfig, config string }{
	"token": {
		kubeconfig(`{server: "https://203.0.113.10:6443", certificate-authority-data: `+b64("canary-ca")+`}`, token),
		`{"bearerToken": "canary-token", "tlsClientConfig": {"insecure": false, "caData": "` + b64("canary-ca") + `"}}`,
	},
	"client certificate": {
		kubeconfig(server, `{client-certificate-data: `+b64("canary-cert")+`, client-key-data: `+b64("canary-key")+`}`),
		`{"tlsClientConfig": {"insecure": false, "certData": "` + b64("canary-cert") + `", "keyData": "` + b64("canary-key") + `"}}`,
	},
	"insecure drops the CA": {
		kubeconfig(`{server: "https://203.0.113.10:6443", insecure-skip-tls-verify: true, certificate-authority-data: `+b64("canary-ca")+`}`, token),
		`{"bearerToken": "canary-token", "tlsClientConfig": {"insecure": true}}`,
	},
	"name and proxy": {
		kubeconfig(`{server: "https://203.0.113.10:6443", tls-server-name: kube.example.com, proxy-url: "http://proxy.example.com:3128"}`, token),
		`{"bearerToken": "canary-token", "tlsClientConfig": {"insecure": false, "serverName": "kube.example.com"}, "proxyUrl": "http://proxy.example.com:3128"}`,
	},
	"password": {
		kubeconfig(server, `{username: admin, password: canary-password}`),
		`{"username": "admin", "password": "canary-password", "tlsClientConfig": {"insecure": false}}`,
	},
	"others are passed over": {
		strings.Replace(kubeconfig(server, token), "users: [", "users: [{name: other, user: {exec: {command: evil, apiVersion: client.authentication.k8s.io/v1}}}, ", 1),
		`{"bearerToken": "canary-token", "tlsClientConfig": {"insecure": false}}`,
	},
}

// config is what Argo CD documents of the key config ("Declarative Setup", Clusters),
// written down here a second time.
type config struct {
	Username           string          `json:"username"`
	Password           string          `json:"password"`
	BearerToken        string          `json:"bearerToken"`
	AWSAuthConfig      json.RawMessage `json:"awsAuthConfig"`
	ExecProviderConfig json.RawMessage `json:"execProviderConfig"`
	ProxyURL           string          `json:"proxyUrl"`
	DisableCompression bool            `json:"disableCompression"`
	TLSClientConfig    struct {
		Insecure   bool   `json:"insecure"`
		ServerName string `json:"serverName"`
		CertData   []byte `json:"certData"`
		KeyData    []byte `json:"keyData"`
		CAData     []byte `json:"caData"`
	} `json:"tlsClientConfig"`
}

// registered is the Secret of a cluster and its config, both read strictly.
func registered(t *testing.T, credentials Credentials) (corev1.Secret, config) {
	t.Helper()
	u, err := Cluster{Namespace: "argocd", Name: "cluster-x", DisplayName: "x", Credentials: credentials}.Object()
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, &secret, true); err != nil {
		t.Fatalf("it is no Secret: %v", err)
	}
	var c config
	decoder := json.NewDecoder(bytes.NewReader(secret.Data["config"]))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		t.Fatalf("Argo CD does not know the config: %v", err)
	}
	return secret, c
}

func TestNote08ClusterObject(t *testing.T) {
	for name, test := range goodKubeconfigs {
		t.Run(name, func(t *testing.T) {
			credentials, err := ParseKubeconfig([]byte(test.kubeconfig), Untrusted)
			if err != nil {
				t.Fatal(err)
			}
			secret, _ := registered(t, credentials)
			var got, want any
			if err := json.Unmarshal(secret.Data["config"], &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.config), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			delete(secret.Data, "config")
			data := map[string][]byte{"name": []byte("x"), "server": []byte("https://203.0.113.10:6443")}
			if diff := cmp.Diff(data, secret.Data); diff != "" {
				t.Errorf("data (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(map[string]string{"argocd.argoproj.io/secret-type": "cluster"}, secret.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if secret.Kind != "Secret" || secret.APIVersion != "v1" || secret.Type != corev1.SecretTypeOpaque || secret.Namespace != "argocd" || secret.Name != "cluster-x" {
				t.Errorf("it is a %s %s of type %s, %s/%s", secret.APIVersion, secret.Kind, secret.Type, secret.Namespace, secret.Name)
			}
		})
	}
}

// Argo CD finds clusters by their addresses, whatever their Secrets are called.
func TestClash(t *testing.T) {
	parse := func(cluster, user string) Credentials {
		c, err := ParseKubeconfig([]byte(kubeconfig(cluster, user)), Untrusted)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	mine := parse(server, token)
	for name, test := range map[string]struct {
		other Credentials
		want  bool
	}{
		"the same":            {parse(server, token), false},
		"other credentials":   {parse(server, `{token: canary-other}`), true},
		"a slash":             {parse(`{server: "https://203.0.113.10:6443/"}`, `{token: canary-other}`), true},
		"another cluster":     {parse(`{server: "https://203.0.113.11:6443"}`, `{token: canary-other}`), false},
		"another server name": {parse(`{server: "https://203.0.113.10:6443", tls-server-name: x}`, token), true},
	} {
		t.Run(name, func(t *testing.T) {
			secret, _ := registered(t, test.other)
			if got := mine.Clash(string(secret.Data["server"]), secret.Data["config"]); got != test.want {
				t.Errorf("clash is %v", got)
			}
		})
	}
	if !mine.Clash(mine.Server, []byte("{")) {
		t.Error("what cannot be read is not taken for the same")
	}
}

var badKubeconfigs = map[string]struct{ kubeconfig, names string }{
	"exec plugin": {
		kubeconfig(server, `{token: canary-token, exec: {apiVersion: client.authentication.k8s.io/v1, command: gke-gcloud-auth-plugin, args: [canary-arg], env: [{name: KEY, value: canary-env}]}}`),
		"gke-gcloud-auth-plugin",
	},
	"auth provider": {
		kubeconfig(server, `{token: canary-token, auth-provider: {name: gcp, config: {refresh-token: canary-refresh}}}`),
		"gcp",
	},
	"a token in the address":    {kubeconfig(`{server: "https://203.0.113.10?token=canary-token"}`, token), "https://host:port"},
	"a password in the address": {kubeconfig(`{server: "https://u:canary-password@203.0.113.10"}`, token), "https://host:port"},
	"the cluster of Argo CD":    {kubeconfig(`{server: "https://kubernetes.default.svc/"}`, token), "type hub"},
	"an address that is no URL": {kubeconfig(`{server: "203.0.113.10:6443"}`, token), "https://host:port"},
	"an address of http":        {kubeconfig(`{server: "http://203.0.113.10:8080"}`, token), "https"},
	"a fragment in the address": {kubeconfig(`{server: "https://203.0.113.10#canary-token"}`, token), "https://host:port"},
	"a script in the address":   {kubeconfig(`{server: "https://203.0.113.10/$(id)"}`, token), "https://host:port"},
	"a template in the address": {kubeconfig(`{server: "https://203.0.113.10/{{inputs.x}}"}`, token), "https://host:port"},
	"a host that is no name":    {kubeconfig(`{server: "https://-a.example.com"}`, token), "https://host:port"},
	"token file":                {kubeconfig(server, `{token: canary-token, tokenFile: /var/run/token}`), "files"},
	"certificate file":          {kubeconfig(server, `{client-certificate: /tls.crt, client-key-data: `+b64("canary-key")+`}`), "files"},
	"key file":                  {kubeconfig(server, `{client-certificate-data: `+b64("canary-cert")+`, client-key: /tls.key}`), "files"},
	"CA file":                   {kubeconfig(`{server: "https://203.0.113.10:6443", certificate-authority: /ca.crt}`, token), "files"},
	"as a user":                 {kubeconfig(server, `{token: canary-token, as: root}`), "impersonates"},
	"as a UID":                  {kubeconfig(server, `{token: canary-token, as-uid: "0"}`), "impersonates"},
	"as groups":                 {kubeconfig(server, `{token: canary-token, as-groups: ["system:masters"]}`), "impersonates"},
	"as extra":                  {kubeconfig(server, `{token: canary-token, as-user-extra: {scope: [all]}}`), "impersonates"},
	"no context":                {strings.Replace(kubeconfig(server, token), "current-context: the-context", "", 1), "current-context"},
	"another context":           {strings.Replace(kubeconfig(server, token), "current-context: the-context", "current-context: x-context", 1), "x-context"},
	"no cluster":                {strings.Replace(kubeconfig(server, token), "{cluster: the-cluster", "{cluster: x-cluster", 1), "x-cluster"},
	"no server":                 {kubeconfig(`{insecure-skip-tls-verify: true}`, token), "the-cluster"},
	"no user":                   {strings.Replace(kubeconfig(server, token), "user: the-user", "user: x-user", 1), "x-user"},
	"no credentials":            {kubeconfig(server, `{}`), "no token"},
	"no key":                    {kubeconfig(server, `{client-certificate-data: `+b64("canary-cert")+`}`), "key"},
	"password alone":            {kubeconfig(server, `{password: canary-password}`), "password"},
	"empty":                     {"", "current-context"},
	"null members":              {"{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: null}], clusters: null, users: [null]}", "cluster"},
	"another kind":              {"{apiVersion: v1, kind: Secret, data: {token: canary-token}}", "not a kubeconfig"},
	"garbage":                   {"canary-token: [canary-password", "not a kubeconfig"},
	"a token that is a map": {
		kubeconfig(server, `{token: {canary-token: canary-password}}`), "not a kubeconfig",
	},
	"data that is not base64": {kubeconfig(server, `{client-key-data: "canary-key!"}`), "not a kubeconfig"},
}

func TestNote55BadKubeconfig(t *testing.T) {
	for name, test := range badKubeconfigs {
		t.Run(name, func(t *testing.T) {
			credentials, err := ParseKubeconfig([]byte(test.kubeconfig), Untrusted)
			if err == nil {
				t.Fatal("it is accepted")
			}
			if diff := cmp.Diff(Credentials{}, credentials, cmp.AllowUnexported(Credentials{}, clusterConfig{})); diff != "" {
				t.Errorf("credentials beside an error:\n%s", diff)
			}
			if !strings.Contains(err.Error(), test.names) {
				t.Errorf("%q does not name %q", err, test.names)
			}
			for _, canary := range canaries {
				if strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), b64(canary)) {
					t.Errorf("the error carries a secret: %v", err)
				}
			}
		})
	}
}

// What is accepted can be registered, with the credentials that the kubeconfig has; what is
// refused is refused without a word of them.
func FuzzParseKubeconfig(f *testing.F) {
	for _, k := range goodKubeconfigs {
		f.Add([]byte(k.kubeconfig))
	}
	for _, k := range badKubeconfigs {
		f.Add([]byte(k.kubeconfig))
	}
	f.Fuzz(func(t *testing.T, kubeconfig []byte) {
		credentials, err := ParseKubeconfig(kubeconfig, Untrusted)
		loaded, loadErr := clientcmd.Load(kubeconfig)
		if err != nil {
			if loadErr != nil {
				if err.Error() != "it is not a kubeconfig" {
					t.Errorf("a kubeconfig that cannot be read says %q", err)
				}
				return
			}
			expectNoSecret(t, err, loaded)
			return
		}
		if loadErr != nil || credentials.Server == "" {
			t.Fatalf("it is accepted: %v, server %q", loadErr, credentials.Server)
		}
		_, c := registered(t, credentials)
		user := loaded.AuthInfos[loaded.Contexts[loaded.CurrentContext].AuthInfo]
		if strings.ToValidUTF8(user.Token, "\ufffd") != c.BearerToken || string(user.ClientKeyData) != string(c.TLSClientConfig.KeyData) {
			t.Errorf("credentials are %+v, want those of %+v", c, user)
		}
		if c.TLSClientConfig.Insecure && c.TLSClientConfig.CAData != nil {
			t.Error("Argo CD refuses a CA beside insecure")
		}
	})
}

// expectNoSecret: an error may name contexts, clusters, users and plugins, and nothing else.
func expectNoSecret(t *testing.T, err error, loaded *api.Config) {
	t.Helper()
	names := fmt.Sprintf("%q", loaded.CurrentContext)
	for name, c := range loaded.Contexts {
		names += fmt.Sprintf(" %q %q %q", name, c.Cluster, c.AuthInfo)
	}
	for _, user := range loaded.AuthInfos {
		if user.Exec != nil {
			names += fmt.Sprintf(" %q", user.Exec.Command)
		}
		if user.AuthProvider != nil {
			names += fmt.Sprintf(" %q", user.AuthProvider.Name)
		}
	}
	for _, user := range loaded.AuthInfos {
		for _, secret := range []string{user.Token, user.Password, string(user.ClientKeyData)} {
			if strings.Contains(secret, "canary") && strings.Contains(err.Error(), secret) && !strings.Contains(names, secret) {
				t.Errorf("the error carries a secret: %v", err)
			}
		}
	}
}

// What is there and empty makes no other credentials: a cluster Secret does not have it.
func TestCopiesOfOneKubeconfig(t *testing.T) {
	copied := kubeconfig(`{server: "https://203.0.113.10", certificate-authority-data: ""}`, `{token: canary-token, client-certificate-data: "", client-key-data: ""}`)
	credentials, err := ParseKubeconfig([]byte(copied), Untrusted)
	without, withoutErr := ParseKubeconfig([]byte(kubeconfig(`{server: "https://203.0.113.10"}`, `{token: canary-token}`)), Untrusted)
	if err != nil || withoutErr != nil {
		t.Fatal(err, withoutErr)
	}
	secret, _ := registered(t, credentials)
	if credentials.Clash(string(secret.Data["server"]), secret.Data["config"]) || credentials.Differ(without) || !credentials.Same(without) {
		t.Error("they are taken for different credentials")
	}
}

// Every address that clusters are known to have is one.
func TestPlainServers(t *testing.T) {
	for _, server := range []string{
		"https://203.0.113.10", "https://203.0.113.10:6443/", "https://[2001:db8::1]:6443", "https://[2001:db8::1]", "http://api.example.com.:8080",
		"https://rancher.example.com/k8s/clusters/c-m-abc12_x", "https://A.gr7.eu-west-1.eks.amazonaws.com", "HTTPS://localhost:6443/a%20b/~c",
	} {
		if credentials, err := ParseKubeconfig([]byte(kubeconfig(`{server: "`+server+`"}`, `{token: canary-token}`)), Trusted); err != nil || credentials.Server != server {
			t.Errorf("%s: %v", server, err)
		}
	}
}
