// Package integration_test runs the real manager, with the rights of its ServiceAccount and
// no others, against a real control plane. The systems beside it (Crossplane, Argo CD, Argo
// Workflows) are played by a world that answers at once, so that nothing here sleeps.
package integration_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/test/env"
)

const (
	argoCDNamespace     = "argocd"
	workflowNamespace   = "argo"
	crossplaneNamespace = "crossplane-system"
	managerNamespace    = "labkeeper-system"
	managerAccount      = "labkeeper-controller-manager"
	managerUser         = "system:serviceaccount:" + managerNamespace + ":" + managerAccount
)

var (
	// hub is the control plane that all specs of this process share but those that need one without CRDs.
	hub *lab
	// shared is the manager on it. Specs that end it start it again.
	shared *manager
	// managerBinary is built once.
	managerBinary string
)

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	RunSpecs(t, "Integration")
}

var (
	// early is for what takes the better part of a minute: begun last, it would have the other process wait.
	early = SpecPriority(1)
	// long is for what make test has no time for, and make test-long has: days, nights in a row, every write, thousands, clusters without
	// the kinds of the outsides, and waiting for what does not come.
	long = Label("long")
)

var _ = BeforeSuite(func(ctx SpecContext) {
	SetDefaultEventuallyTimeout(20 * time.Second)
	SetDefaultEventuallyPollingInterval(40 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	SetDefaultConsistentlyPollingInterval(40 * time.Millisecond)

	hub = startLab(ctx, ourCRDs, applicationCRD, clusterCRD, machineCRD, otherCRDs)
	hub.apply(ctx, "config/samples/components.yaml", "config/samples/workflowtemplate.yaml", "config/observability/components.yaml")
	hub.world.watch(experiments, claims, clusters, applications, workflows, secrets, namespaces)

	managerBinary = filepath.Join(hub.Dir(), "labkeeper-manager")
	Expect(env.BuildOnce(ctx, "./cmd", managerBinary)).To(Succeed())

	shared = hub.launchManager("manager", sharedArgs()...)
})

var _ = ReportAfterEach(func(report SpecReport) {
	if report.Failed() && shared != nil {
		AddReportEntry("the end of the manager's log", shared.Tail(15))
	}
})

// What has failed is said once more at the end, where long outputs are not cut.
var _ = ReportAfterSuite("failures", func(report Report) {
	for _, spec := range report.SpecReports {
		if spec.Failed() {
			fmt.Printf("\nFAIL: %s: %.2000s\n", spec.FullText(), spec.FailureMessage())
		}
	}
})

// sharedArgs are those of the manager that most specs share. It is not told where metrics go directly.
func sharedArgs() []string {
	return []string{
		"--leader-elect", "--leader-election-namespace=" + managerNamespace,
		"--observability-hub-url=http://mimir-gateway.mimir.svc:8080/api/v1/push", "--observability-tailnet=tail1234.ts.net",
	}
}

// background is the context of what outlives a node of a spec.
func background() context.Context { return context.Background() }
