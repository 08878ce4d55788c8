package argocd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

// exec is a user with a plugin.
func exec(command string) string {
	return `{token: canary-token, client-key-data: ` + b64("canary-key") + `, exec: {apiVersion: client.authentication.k8s.io/v1beta1, ` + command + `}}`
}

// The exec plugins of clouds are replaced by the one that Argo CD's image has, with nothing of the
// credentials beside them.
func TestPlugins(t *testing.T) {
	for name, test := range map[string]struct{ command, want string }{
		"GKE":                   {`command: gke-gcloud-auth-plugin`, `{"command": "argocd-k8s-auth", "args": ["gcp"]}`},
		"GKE, by a path":        {`command: /usr/bin/gke-gcloud-auth-plugin, args: [--use_application_default_credentials]`, `{"command": "argocd-k8s-auth", "args": ["gcp"]}`},
		"EKS":                   {`command: aws, args: [--region, eu-west-1, eks, get-token, --cluster-name, lab, --output, json]`, `{"command": "argocd-k8s-auth", "args": ["aws", "--cluster-name", "lab"], "env": {"AWS_REGION": "eu-west-1"}}`},
		"EKS, with a role":      {`command: aws, args: [eks, get-token, --cluster-name=lab, --role-arn, "arn:aws:iam::1:role/x"], env: [{name: AWS_REGION, value: us-east-1}]`, `{"command": "argocd-k8s-auth", "args": ["aws", "--cluster-name", "lab", "--role-arn", "arn:aws:iam::1:role/x"], "env": {"AWS_REGION": "us-east-1"}}`},
		"EKS, authenticator":    {`command: aws-iam-authenticator, args: [token, -i, lab, -r, "arn:x"]`, `{"command": "argocd-k8s-auth", "args": ["aws", "--cluster-name", "lab", "--role-arn", "arn:x"]}`},
		"Argo CD's own, GCP":    {`command: argocd-k8s-auth, args: [gcp]`, `{"command": "argocd-k8s-auth", "args": ["gcp"]}`},
		"Argo CD's own, AWS":    {`command: argocd-k8s-auth, args: [aws, --cluster-name, lab]`, `{"command": "argocd-k8s-auth", "args": ["aws", "--cluster-name", "lab"]}`},
		"Argo CD's own, Azure":  {`command: argocd-k8s-auth, args: [azure]`, `{"command": "argocd-k8s-auth", "args": ["azure"]}`},
		"EKS, endpoints of STS": {`command: aws, args: [eks, get-token, --cluster-name, lab], env: [{name: AWS_STS_REGIONAL_ENDPOINTS, value: regional}]`, `{"command": "argocd-k8s-auth", "args": ["aws", "--cluster-name", "lab"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			k := []byte(kubeconfig(server, exec(test.command)))
			credentials, err := ParseKubeconfig(k, Trusted)
			if err != nil {
				t.Fatal(err)
			}
			secret, c := registered(t, credentials)
			var got, want map[string]any
			if err := json.Unmarshal(c.ExecProviderConfig, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(test.want), &want); err != nil {
				t.Fatal(err)
			}
			want["apiVersion"] = "client.authentication.k8s.io/v1beta1"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("it runs (-want +got):\n%s", diff)
			}
			if strings.Contains(string(secret.Data["config"]), "canary") || strings.Contains(string(secret.Data["config"]), b64("canary-key")) {
				t.Error("credentials beside it")
			}
			if _, err := ParseKubeconfig(k, Untrusted); err == nil || !strings.Contains(err.Error(), "would act as Argo CD") {
				t.Errorf("somebody's own: %v", err)
			}
		})
	}
}

// Nothing else is ever run.
func TestRefusedPlugins(t *testing.T) {
	for name, test := range map[string]struct{ command, names string }{
		"another command":             {`command: /tmp/evil, args: [gcp]`, `"/tmp/evil"`},
		"another word":                {`command: aws, args: [s3, cp, canary-arg, "s3://x"]`, `"aws"`},
		"another server of AWS":       {`command: aws, args: [eks, get-token, --cluster-name, lab, --endpoint-url, "http://canary-arg"]`, `"aws"`},
		"a profile":                   {`command: aws, args: [eks, get-token, --cluster-name, lab, --profile, x]`, `"aws"`},
		"no cluster":                  {`command: aws, args: [eks, get-token]`, `"aws"`},
		"a cluster that is an option": {`command: argocd-k8s-auth, args: [aws, "--cluster-name=--profile"]`, `"argocd-k8s-auth"`},
		"keys in the environment":     {`command: aws, args: [eks, get-token, --cluster-name, lab], env: [{name: AWS_SECRET_ACCESS_KEY, value: canary-env}]`, `"aws"`},
		"a library to load":           {`command: gke-gcloud-auth-plugin, env: [{name: LD_PRELOAD, value: canary-env}]`, `"gke-gcloud-auth-plugin"`},
		"an option twice":             {`command: aws, args: [eks, get-token, --cluster-name, lab, --cluster-name, other]`, `"aws"`},
		"an empty option":             {`command: aws, args: [eks, get-token, --cluster-name, lab, --, x]`, `"aws"`},
		"another cloud":               {`command: argocd-k8s-auth, args: [oci]`, `"argocd-k8s-auth"`},
		"kubelogin":                   {`command: kubelogin, args: [get-token, --server-id, x]`, `"kubelogin"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseKubeconfig([]byte(kubeconfig(server, exec(test.command))), Trusted)
			if err == nil || !strings.Contains(err.Error(), test.names) || strings.Contains(err.Error(), "canary") {
				t.Errorf("it says %v", err)
			}
		})
	}
	if _, err := ParseKubeconfig([]byte(kubeconfig(server, strings.Replace(exec(`command: gke-gcloud-auth-plugin`), "{token", "{as: root, token", 1))), Trusted); err == nil {
		t.Error("a plugin that impersonates is accepted")
	}
}

// Without keys, nothing of the kubeconfig's user is left, whatever it is.
func TestKeyless(t *testing.T) {
	for name, user := range map[string]string{"a token": token, "a plugin": exec(`command: /tmp/evil`), "nothing": `{}`} {
		t.Run(name, func(t *testing.T) {
			credentials, err := ParseKubeconfig([]byte(kubeconfig(`{server: "https://203.0.113.10:6443", certificate-authority-data: `+b64("ca")+`}`, user)), KeylessGCP)
			if err != nil {
				t.Fatal(err)
			}
			secret, c := registered(t, credentials)
			want := `{"command":"argocd-k8s-auth","args":["gcp"],"apiVersion":"client.authentication.k8s.io/v1beta1"}`
			if string(c.ExecProviderConfig) != want || string(c.TLSClientConfig.CAData) != "ca" || strings.Contains(string(secret.Data["config"]), "canary") {
				t.Errorf("config is %s", secret.Data["config"])
			}
		})
	}
}

// Whatever a provider's kubeconfig has Argo CD run, it is Argo CD's own, with nothing of the
// credentials beside it; and what is refused is refused without a word of them.
func FuzzPlugin(f *testing.F) {
	for _, user := range []string{
		token, exec(`command: gke-gcloud-auth-plugin`), exec(`command: aws, args: [--region, eu-west-1, eks, get-token, --cluster-name, lab, --output, json]`),
		exec(`command: aws-iam-authenticator, args: [token, -i, lab, -r, "arn:x"], env: [{name: AWS_REGION, value: x}]`),
		exec(`command: argocd-k8s-auth, args: [azure]`), exec(`command: /tmp/evil`),
	} {
		f.Add([]byte(kubeconfig(server, user)))
	}
	f.Fuzz(func(t *testing.T, kubeconfig []byte) {
		loaded, loadErr := clientcmd.Load(kubeconfig)
		credentials, err := ParseKubeconfig(kubeconfig, Trusted)
		if err != nil {
			if loadErr == nil {
				expectNoSecret(t, err, loaded)
			}
			return
		}
		_, c := registered(t, credentials)
		if c.ExecProviderConfig == nil {
			return
		}
		if c.BearerToken != "" || c.Password != "" || len(c.TLSClientConfig.KeyData) > 0 || c.TLSClientConfig.Insecure || !strings.HasPrefix(strings.ToLower(credentials.Server), "https:") {
			t.Errorf("beside it there is %+v", c)
		}
		expectArgoCDsOwn(t, c.ExecProviderConfig)
	})
}

// expectArgoCDsOwn: nothing is run but what is in Argo CD's image, for a cloud, and in a region.
func expectArgoCDsOwn(t *testing.T, config []byte) {
	t.Helper()
	var runs execProvider
	if err := json.Unmarshal(config, &runs); err != nil {
		t.Fatal(err)
	}
	if runs.Command != authCommand || len(runs.Args) == 0 || !slices.Contains([]string{"gcp", "aws", "azure"}, runs.Args[0]) || len(runs.Args) > 1 && runs.Args[0] != "aws" {
		t.Errorf("it runs %+v", runs)
	}
	delete(runs.Env, "AWS_REGION")
	if len(runs.Env) > 0 {
		t.Errorf("it sets %v", runs.Env)
	}
}
