package argocd

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"k8s.io/client-go/tools/clientcmd/api"
)

// Trust says how far a kubeconfig is trusted. What Argo CD runs to log in acts with Argo CD's own
// identity in a cloud, and hands a token of it to whatever server the kubeconfig names.
type Trust int

const (
	// Untrusted: somebody's kubeconfig, who must bring credentials of his own.
	Untrusted Trust = iota
	// Trusted: that of a provider. Exec plugins of clouds are replaced by what Argo CD has for them.
	Trusted
	// KeylessGCP: that of a provider, of a GKE cluster that Argo CD logs in to with its own identity
	// whatever credentials the kubeconfig has, which are dropped.
	KeylessGCP
)

// execProvider is what Argo CD runs to log in, as its image has it.
type execProvider struct {
	Command    string            `json:"command"`
	Args       []string          `json:"args"`
	Env        map[string]string `json:"env,omitempty"`
	APIVersion string            `json:"apiVersion"`
}

// authCommand is in Argo CD's image, and the only one that is.
const authCommand = "argocd-k8s-auth"

// login is argocd-k8s-auth for a cloud.
func login(cloud string, args ...string) *execProvider {
	return &execProvider{Command: authCommand, Args: append([]string{cloud}, args...), APIVersion: "client.authentication.k8s.io/v1beta1"}
}

// plugins are what argocd-k8s-auth can do as well, by the command and its words; anything else that is
// given is an option among those that are known.
var plugins = map[string]struct {
	cloud   string
	options []string
}{
	"gke-gcloud-auth-plugin":      {"gcp", []string{"use_application_default_credentials"}},
	"aws eks get-token":           {"aws", []string{"cluster-name", "region", "output", "role-arn", "role"}},
	"aws-iam-authenticator token": {"aws", []string{"i", "cluster-id", "r", "role"}},
	authCommand + " gcp":          {"gcp", nil},
	authCommand + " aws":          {"aws", []string{"cluster-name", "role-arn"}},
	authCommand + " azure":        {"azure", nil},
}

// plugin is what takes the place of a kubeconfig's exec plugin. What it cannot stand for is refused by
// name; nothing but known arguments is ever taken over, because these are run.
func plugin(exec *api.ExecConfig) (*execProvider, error) {
	refused := fmt.Errorf("its user runs the exec plugin %q, which is not one that %s stands for; give the user a token or a client certificate", exec.Command, authCommand)
	options, words, err := arguments(exec.Args)
	known, ok := plugins[strings.Join(append([]string{path.Base(exec.Command)}, words...), " ")]
	switch {
	case err != nil, !ok, !only(options, known.options...):
		return nil, refused
	case known.cloud == "aws":
		return aws(exec, options, refused)
	case len(exec.Env) > 0:
		return nil, refused
	}
	return login(known.cloud), nil
}

// aws is argocd-k8s-auth for an EKS cluster, in the region that the plugin was given.
func aws(exec *api.ExecConfig, options map[string]string, refused error) (*execProvider, error) {
	cluster, region := options["cluster-name"]+options["i"]+options["cluster-id"], options["region"]
	args := []string{"--cluster-name", cluster}
	if role := options["role-arn"] + options["role"] + options["r"]; role != "" {
		args = append(args, "--role-arn", role)
	}
	for _, e := range exec.Env {
		switch e.Name {
		case "AWS_REGION", "AWS_DEFAULT_REGION":
			region = e.Value
		case "AWS_STS_REGIONAL_ENDPOINTS":
		default:
			return nil, refused
		}
	}
	if cluster == "" || strings.HasPrefix(cluster, "-") {
		return nil, refused
	}
	p := login("aws", args...)
	if region != "" {
		p.Env = map[string]string{"AWS_REGION": region}
	}
	return p, nil
}

var errArguments = errors.New("an option is there twice, or has no value")

// arguments tells options (-o value, --option value, --option=value, and --flag for the last and
// before another option) from words.
func arguments(args []string) (options map[string]string, words []string, err error) {
	options = map[string]string{}
	for i := 0; i < len(args); i++ {
		name := strings.TrimLeft(args[i], "-")
		if name == args[i] {
			words = append(words, name)
			continue
		}
		name, value, given := strings.Cut(name, "=")
		if !given && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			i++
			value = args[i]
		}
		if _, twice := options[name]; twice || name == "" {
			return nil, nil, errArguments
		}
		options[name] = value
	}
	return options, words, nil
}

// only says whether there are no other options than these.
func only(options map[string]string, known ...string) bool {
	n := 0
	for _, name := range known {
		if _, there := options[name]; there {
			n++
		}
	}
	return n == len(options)
}
