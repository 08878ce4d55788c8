package integration_test

import (
	"context"
	"errors"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// tooLong is longer than any refusal takes.
const tooLong = 10 * time.Second

var _ = DescribeTable("The manager does not start with flags that cannot work",
	func(ctx SpecContext, flags string, words ...string) {
		bounded, cancel := context.WithTimeout(ctx, tooLong)
		defer cancel()
		output, err := hub.command(bounded, strings.Fields(flags)...).CombinedOutput()
		Expect(bounded.Err()).NotTo(HaveOccurred(), "it started: %s", output)
		var exit *exec.ExitError
		Expect(errors.As(err, &exit)).To(BeTrue(), "%v: %s", err, output)
		Expect(exit.ExitCode()).To(BeNumerically(">", 0), string(output))
		for _, word := range words {
			Expect(string(output)).To(ContainSubstring(word))
		}
	},
	Entry("Argo CD's namespace does not exist", "--controllers=experiments --argocd-namespace=nope", "--argocd-namespace", "nope"),
	Entry("Argo Workflows' namespace does not exist", "--controllers=experiments --workflow-namespace=nope", "--workflow-namespace", "nope"),
	Entry("Crossplane's namespace does not exist", "--controllers=experiments --crossplane-namespace=nope", "--crossplane-namespace", "nope"),
	Entry("the claims' namespace does not exist", "--controllers=experiments --claim-namespace=nope", "--claim-namespace", "nope"),
	Entry("a namespace is no name", "--argocd-namespace=Not_A_Name", "--argocd-namespace", "Not_A_Name"),
	Entry("a namespace is empty", "--workflow-namespace=", "--workflow-namespace"),
	Entry("a watched namespace is empty", "--watch-namespaces=default,", "--watch-namespaces"),
	Entry("a watched namespace is no name", "--watch-namespaces=a/b", "--watch-namespaces", "a/b"),
	Entry("no reconciles", "--max-concurrent-reconciles=0", "--max-concurrent-reconciles"),
	Entry("a number is none", "--max-concurrent-reconciles=many", "max-concurrent-reconciles", "many"),
	Entry("a controller is none", "--controllers=experiments,nope", "--controllers", "nope"),
	Entry("a boolean is none", "--leader-elect=perhaps", "leader-elect", "perhaps"),
	Entry("a level of the log is none", "--zap-log-level=loud", "zap-log-level", "loud"),
	Entry("leader election without a namespace", "--leader-elect", "--leader-election-namespace"),
	Entry("a webhook without certificates", "--webhook-port=9443", "--webhook-cert-dir"),
	Entry("an unknown flag", "--no-such-flag", "no-such-flag"),
	Entry("an unknown argument", "argument", "argument"),
	Entry("a kubeconfig that does not exist", "--kubeconfig=/does/not/exist", "/does/not/exist"),
)
