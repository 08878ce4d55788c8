package runner

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
			if err != nil || config.Host != "https://203.0.113.10:6443" || config.BearerToken+config.Password != "canary" {
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
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := fmt.Sprintf("{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {token: t}}], contexts: [{name: c, context: {cluster: c, user: u}}]}", server.URL)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := TargetConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := client.Get(server.URL); err == nil || asked {
		t.Errorf("it goes there: %v", answer)
	}
}
