package connector

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// canary stands for what must never be seen outside of Secrets.
const canary = "canary-7be1"

// kubeconfig is one whose cluster and user are as given, in YAML.
func kubeconfig(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: %[1]s-context
clusters: [{name: %[1]s-cluster, cluster: {%[2]s}}]
contexts:
- {name: %[1]s-context, context: {cluster: %[1]s-cluster, user: %[1]s-user, namespace: elsewhere}}
- {name: other, context: {cluster: %[1]s-cluster, user: other}}
users:
- {name: %[1]s-user, user: {%[3]s}}
- {name: other, user: {token: of-somebody-else, exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}}}
`, canary, cluster, user)
}

const (
	server = `server: "https://canary-7be1.example.com:6443"`
	token  = "token: canary-7be1"
)

func TestParse(t *testing.T) {
	k, err := Parse([]byte(kubeconfig(server+", tls-server-name: api, proxy-url: socks5://proxy.example.com:1080", token+", as: deployer")))
	if err != nil {
		t.Fatal(err)
	}
	if k.Config.Host != "https://canary-7be1.example.com:6443" || k.Config.BearerToken != canary || k.Config.ServerName != "api" || k.Config.Impersonate.UserName != "deployer" || k.Config.Proxy == nil {
		t.Errorf("it connects with %+v", k.Config)
	}
	for _, other := range []string{"somebody", "exec", "elsewhere"} {
		if strings.Contains(string(k.Content), other) {
			t.Errorf("what is handed on has %q:\n%s", other, k.Content)
		}
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(k.Content)
	if err != nil || config.BearerToken != canary || config.Impersonate.UserName != "deployer" || config.ServerName != "api" {
		t.Errorf("what is handed on connects with %+v, %v", config, err)
	}
	again, err := Parse(k.Content)
	if err != nil || string(again.Content) != string(k.Content) {
		t.Errorf("it is not taken itself, or another: %v\n%s", err, again.Content)
	}
}

func TestParseRefuses(t *testing.T) {
	pem := base64.StdEncoding.EncodeToString([]byte(canary))
	for name, test := range map[string]struct{ content, want string }{
		"nothing":             {"", "current-context"},
		"no YAML":             {"\t" + canary, "not a kubeconfig"},
		"a value of no type":  {"clusters: " + canary, "not a kubeconfig"},
		"no such context":     {strings.Replace(kubeconfig(server, token), "current-context: canary", "current-context: x", 1), "current-context"},
		"no such cluster":     {strings.Replace(kubeconfig(server, token), "clusters: [{name: canary", "clusters: [{name: x", 1), "names no cluster"},
		"no such user":        {strings.Replace(kubeconfig(server, token), "- {name: canary-7be1-user,", "- {name: x,", 1), "names no user"},
		"no server":           {kubeconfig("", token), "https://"},
		"no TLS":              {kubeconfig(strings.Replace(server, "https", "http", 1), token), "https://"},
		"a path alone":        {kubeconfig("server: /canary-7be1", token), "https://"},
		"a password in it":    {kubeconfig(`server: "https://me:canary-7be1@x"`, token), "https://"},
		"an odd proxy":        {kubeconfig(server+", proxy-url: 'file:///canary-7be1'", token), "proxy-url"},
		"an exec plugin":      {kubeconfig(server, token+", exec: {apiVersion: client.authentication.k8s.io/v1, command: canary-7be1, interactiveMode: Never}"), "exec plugin"},
		"an auth provider":    {kubeconfig(server, token+", auth-provider: {name: canary-7be1}"), "auth provider"},
		"a file of a token":   {kubeconfig(server, "tokenFile: /canary-7be1"), "files"},
		"a file of a key":     {kubeconfig(server, "client-certificate-data: "+pem+", client-key: /canary-7be1"), "files"},
		"a file of a CA":      {kubeconfig(server+", certificate-authority: /canary-7be1", token), "files"},
		"no credentials":      {kubeconfig(server, ""), "no token"},
		"a key too few":       {kubeconfig(server, "client-certificate-data: "+pem), "without the key"},
		"two kinds":           {kubeconfig(server, token+", username: canary-7be1, password: x"), "two kinds"},
		"a line break":        {kubeconfig(server, `token: "canary-7be1\n"`), "line breaks"},
		"no PEM":              {kubeconfig(server+", certificate-authority-data: "+pem, token), "PEM"},
		"no PEM of the user":  {kubeconfig(server, "client-certificate-data: "+pem+", client-key-data: "+pem), "PEM"},
		"no base64":           {kubeconfig(server+", certificate-authority-data: canary-7be1", token), "not a kubeconfig"},
		"groups without user": {kubeconfig(server, token+", as-groups: [canary-7be1]"), "impersonate"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.content))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("it tells what stands in it: %v", err)
			}
		})
	}
}

func TestAllows(t *testing.T) {
	for value, want := range map[string]bool{
		"": false, "lab": true, "other, lab": true, " lab ": true, "*": true, "other,*": true, "lab2": false, "la": false, "lab other": false, "la*": false,
	} {
		o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: value}}}
		if got := Allows(o, "lab"); got != want {
			t.Errorf("%q allows lab: got %t, want %t", value, got, want)
		}
		if Allows(o, "") {
			t.Errorf("%q allows what is nowhere", value)
		}
	}
	if Allows(&corev1.Secret{}, "lab") {
		t.Error("no annotation allows lab")
	}
}

// secret is one of namespace vault for others, with a key.
func secret(allowed, key, content string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "kc", Annotations: map[string]string{v1alpha1.AnnotationAllowedNamespaces: allowed}},
		Data:       map[string][]byte{key: []byte(content)},
	}
}

// forbidden are namespaces whose Secrets may not be read.
func reader(t *testing.T, forbidden string, objects ...client.Object) client.Client {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return fakes.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, ok := o.(*corev1.Secret); ok && key.Namespace == forbidden {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name,
					errors.New(`User "system:serviceaccount:keeper:manager" cannot get resource "secrets" in API group "" in the namespace "x"`))
			}
			if strings.Contains(key.Name, "/") {
				return errors.New("invalid resource name") // as a client says itself, for ever
			}
			if key.Name == "broken" {
				return apierrors.NewInternalError(errors.New("etcd is away"))
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
}

func reasonOf(err error) string {
	var refused *Error
	switch {
	case errors.As(err, &refused):
		return refused.Reason
	case err != nil:
		return "error"
	}
	return ""
}

// What no object can be called is not there, and no error that might pass.
func TestNameThatNoneHas(t *testing.T) {
	c := reader(t, "")
	if _, err := Read(t.Context(), c, "vault", v1alpha1.SecretRef{Name: "a/b"}); reasonOf(err) != v1alpha1.ReasonKubeconfigMissing {
		t.Errorf("of a Secret: %v", err)
	}
	for _, kind := range []string{"K8SCluster", "CloudProvider"} {
		if _, _, err := find(t.Context(), c, "vault", v1alpha1.ConnectorRef{Kind: kind, Name: "a/b"}); reasonOf(err) != v1alpha1.ReasonConnectorMissing {
			t.Errorf("of a %s: %v", kind, err)
		}
	}
}

func TestRead(t *testing.T) {
	good := kubeconfig(server, token)
	for name, test := range map[string]struct {
		secret    *corev1.Secret
		from      string // namespace of the connector
		key       string
		forbidden string
		reason    string
		words     string
	}{
		"of its own namespace":           {secret("", "kubeconfig", good), "vault", "", "", "", ""},
		"as Cluster API names it":        {secret("", "value", good), "vault", "", "", "", ""},
		"by a key":                       {secret("", "mine", good), "vault", "mine", "", "", ""},
		"by a key that is not there":     {secret("", "kubeconfig", good), "vault", "mine", "", v1alpha1.ReasonKubeconfigMissing, "no key mine"},
		"without a key":                  {secret("", "config", good), "vault", "", "", v1alpha1.ReasonKubeconfigMissing, "kubeconfig or value"},
		"not there":                      {nil, "vault", "", "", v1alpha1.ReasonKubeconfigMissing, "vault/kc does not exist"},
		"no kubeconfig":                  {secret("", "kubeconfig", canary), "vault", "", "", v1alpha1.ReasonKubeconfigInvalid, "key kubeconfig: it is not"},
		"granted":                        {secret("other, lab", "kubeconfig", good), "lab", "", "", "", ""},
		"granted to all":                 {secret("*", "kubeconfig", good), "lab", "", "", "", ""},
		"not granted":                    {secret("other", "kubeconfig", good), "lab", "", "", v1alpha1.ReasonNotGranted, "or does not exist"},
		"neither granted nor there":      {nil, "lab", "", "", v1alpha1.ReasonNotGranted, "or does not exist"},
		"neither granted nor kubeconfig": {secret("", "x", canary), "lab", "", "", v1alpha1.ReasonNotGranted, "or does not exist"},
		"granted, and no kubeconfig":     {secret("lab", "x", canary), "lab", "", "", v1alpha1.ReasonKubeconfigMissing, "no key"},
		"forbidden":                      {secret("", "kubeconfig", good), "vault", "", "vault", kube.ReasonForbidden, "kubectl -n vault create rolebinding labkeeper-kubeconfigs --clusterrole=labkeeper-kubeconfig-reader --serviceaccount=keeper:manager"},
		"forbidden, and not there":       {nil, "lab", "", "vault", kube.ReasonForbidden, "rolebinding"},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if test.secret != nil {
				objects = append(objects, test.secret)
			}
			k, err := Read(t.Context(), reader(t, test.forbidden, objects...), test.from, v1alpha1.SecretRef{Namespace: "vault", Name: "kc", Key: test.key})
			if got := reasonOf(err); got != test.reason {
				t.Fatalf("got %q (%v), want %q", got, err, test.reason)
			}
			if test.reason == "" {
				if k.Config.BearerToken != canary {
					t.Errorf("got %+v", k)
				}
				return
			}
			if !strings.Contains(err.Error(), test.words) || strings.Contains(err.Error(), canary) {
				t.Errorf("got %v, want %q", err, test.words)
			}
		})
	}
	if _, err := Read(t.Context(), reader(t, ""), "lab", v1alpha1.SecretRef{Name: "broken"}); reasonOf(err) != "error" {
		t.Errorf("an error that may pass: got %v", err)
	}
}

// What is not granted is told in the same words whether it is there or not.
func TestNotGrantedTellsNothing(t *testing.T) {
	for name, ask := range map[string]func(c client.Client) error{
		"Secret": func(c client.Client) error {
			_, err := Read(t.Context(), c, "lab", v1alpha1.SecretRef{Namespace: "vault", Name: "kc"})
			return err
		},
		"K8SCluster": func(c client.Client) error {
			_, err := Resolve(t.Context(), c, "lab", &v1alpha1.ConnectorRef{Kind: "K8SCluster", Namespace: "vault", Name: "kc"})
			return err
		},
	} {
		there := ask(reader(t, "", secret("", "kubeconfig", canary), cluster(nil)))
		if diff := cmp.Diff(ask(reader(t, "")), there); diff != "" || reasonOf(there) != v1alpha1.ReasonNotGranted {
			t.Errorf("%s: %v differs by whether it is there:\n%s", name, there, diff)
		}
	}
}

// cluster is one that is Ready, in the namespace of the Secret.
func cluster(change func(*v1alpha1.K8SCluster)) *v1alpha1.K8SCluster {
	c := &v1alpha1.K8SCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "kc", Generation: 3},
		Spec:       v1alpha1.K8SClusterSpec{K8S: &v1alpha1.K8SAccess{KubeconfigRef: &v1alpha1.SecretRef{Name: "kc"}}},
		Status: v1alpha1.ConnectorStatus{Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValidated, ObservedGeneration: 3,
		}}},
	}
	if change != nil {
		change(c)
	}
	return c
}

func TestResolve(t *testing.T) {
	allow := func(c *v1alpha1.K8SCluster) {
		c.Annotations = map[string]string{v1alpha1.AnnotationAllowedNamespaces: "lab"}
	}
	kc := secret("", "kubeconfig", kubeconfig(server, token))
	type objects = []client.Object
	for name, test := range map[string]struct {
		objects   objects
		from      string
		inCluster bool
		reason    string
		words     string
	}{
		"of its own namespace": {objects{kc, cluster(nil)}, "vault", false, "", ""},
		"granted":              {objects{kc, cluster(allow)}, "lab", false, "", ""},
		"not granted":          {objects{kc, cluster(nil)}, "lab", false, v1alpha1.ReasonNotGranted, "annotation"},
		"not there":            {nil, "vault", false, v1alpha1.ReasonConnectorMissing, "K8SCluster vault/kc does not exist"},
		"the manager's own":    {objects{cluster(func(c *v1alpha1.K8SCluster) { c.Spec.K8S = &v1alpha1.K8SAccess{InCluster: true} })}, "vault", true, "", ""},
		"not checked":          {objects{kc, cluster(func(c *v1alpha1.K8SCluster) { c.Status.Conditions = nil })}, "vault", false, v1alpha1.ReasonConnectorNotReady, "not been checked"},
		"another spec":         {objects{kc, cluster(func(c *v1alpha1.K8SCluster) { c.Status.Conditions[0].ObservedGeneration = 2 })}, "vault", false, v1alpha1.ReasonConnectorNotReady, "not been checked"},
		"not ready": {objects{kc, cluster(func(c *v1alpha1.K8SCluster) {
			c.Status.Conditions[0].Status, c.Status.Conditions[0].Reason = metav1.ConditionFalse, v1alpha1.ReasonUnreachable
		})}, "vault", false, v1alpha1.ReasonConnectorNotReady, "(Unreachable)"},
		"without its Secret by now": {objects{cluster(allow)}, "lab", false, v1alpha1.ReasonConnectorNotReady, "(KubeconfigMissing)"},
		"eks": {objects{cluster(func(c *v1alpha1.K8SCluster) {
			c.Spec = v1alpha1.K8SClusterSpec{EKS: &v1alpha1.EKSAccess{}}
		})}, "vault", false, v1alpha1.ReasonConnectorNotReady, "(NoChecker)"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Resolve(t.Context(), reader(t, "", test.objects...), test.from, &v1alpha1.ConnectorRef{Kind: "K8SCluster", Namespace: "vault", Name: "kc"})
			if reasonOf(err) != test.reason {
				t.Fatalf("got %v, want %q", err, test.reason)
			}
			if err != nil && !strings.Contains(err.Error(), test.words) {
				t.Errorf("got %v, want %q", err, test.words)
			}
			if err == nil && (got.InCluster != test.inCluster || test.inCluster == strings.Contains(string(got.Kubeconfig), canary)) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A connector the status of which is being written, for as long as that may hang, is what it was before.
func TestResolveWhatIsBeingWritten(t *testing.T) {
	ref := &v1alpha1.ConnectorRef{Kind: "K8SCluster", Namespace: "vault", Name: "kc"}
	c := fakes.BeingWritten[*v1alpha1.K8SCluster](reader(t, "", secret("", "kubeconfig", kubeconfig(server, token)), cluster(nil)))
	if _, err := Resolve(t.Context(), c, "vault", ref); err != nil {
		t.Error(err)
	}
}

func TestResolveOthers(t *testing.T) {
	provider := &v1alpha1.CloudProvider{ObjectMeta: metav1.ObjectMeta{Namespace: "vault", Name: "account"}}
	c := reader(t, "", provider)
	if got, err := Resolve(t.Context(), c, "lab", nil); err != nil || !got.InCluster {
		t.Errorf("without a connector: got %+v, %v", got, err)
	}
	for want, ref := range map[string]v1alpha1.ConnectorRef{
		v1alpha1.ReasonConnectorNotReady: {Kind: "CloudProvider", Namespace: "vault", Name: "account"},
		v1alpha1.ReasonConnectorMissing:  {Kind: "Cluster", Name: "account"},
		"error":                          {Kind: "K8SCluster", Name: "broken"},
	} {
		if _, err := Resolve(t.Context(), c, "vault", &ref); reasonOf(err) != want {
			t.Errorf("%+v: got %v, want %s", ref, err, want)
		}
	}
}

// The words stay what they are from one time to the next.
func TestWhy(t *testing.T) {
	for err, want := range map[error]string{
		context.DeadlineExceeded: "does not answer within 5s",
		context.Canceled:         "was not waited for",
		http.ErrHandlerTimeout:   "cannot be spoken to",
	} {
		if got := Why(fmt.Errorf("Post https://%s: %w", canary, err), "within 5s"); !strings.Contains(got, want) || strings.Contains(got, canary) {
			t.Errorf("%v: got %q, want %q", err, got, want)
		}
	}
}
