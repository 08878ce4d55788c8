package integration_test

import (
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// template is the WorkflowTemplate of the samples.
const template = "gateway-validation"

// experiment is one with these targets.
func experiment(name string, targets ...v1alpha1.Target) *v1alpha1.Experiment {
	return &v1alpha1.Experiment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ExperimentSpec{Targets: targets, Workflow: v1alpha1.WorkflowSpec{Template: template}},
	}
}

// onGKE is a target with a cluster of its own, onHub one without.
func onGKE(name, app string, depends ...string) v1alpha1.Target {
	return target(name, v1alpha1.ClusterGKE, app, depends)
}

func onHub(name, app string, depends ...string) v1alpha1.Target {
	return target(name, v1alpha1.ClusterHub, app, depends)
}

func target(name string, cluster v1alpha1.ClusterType, app string, depends []string) v1alpha1.Target {
	return v1alpha1.Target{
		Name: name, Cluster: v1alpha1.ClusterSpec{Type: cluster}, Depends: depends,
		Components: []v1alpha1.ComponentRef{{App: app}},
	}
}

// tutorial is the first sample, as its file has it.
func tutorial() *v1alpha1.Experiment {
	GinkgoHelper()
	file, err := os.ReadFile(filepath.Join(env.Root(), "config", "samples", "gateway-tutorial.yaml"))
	Expect(err).NotTo(HaveOccurred())
	e := &v1alpha1.Experiment{}
	Expect(yaml.UnmarshalStrict(file, e)).To(Succeed())
	return e
}

// component is a Component with one source in Git.
func component(name string, t v1alpha1.ComponentType) *v1alpha1.Component {
	return &v1alpha1.Component{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.ComponentSpec{
			Type:    t,
			Sources: []v1alpha1.ComponentSource{{RepoURL: "https://git.example.com/lab/components.git", Path: name}},
		},
	}
}

// canary stands for what must never be seen outside of Secrets.
const canary = "canary-0f52d1"

// kubeconfig has canaries for credentials; more goes under its user.
func kubeconfig(more string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: gke
clusters:
- name: gke
  cluster: {server: "https://%s", certificate-authority-data: Y2FuYXJ5LTBmNTJkMQ==}
contexts:
- name: gke
  context: {cluster: gke, user: client}
users:
- name: client
  user: {token: %s-token%s}
`, clusterEndpoint, canary, more)
}
