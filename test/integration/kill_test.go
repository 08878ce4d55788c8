package integration_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	"github.com/labkeeper/labkeeper/test/env"
)

// kills is at how many points the manager is killed.
const kills = 10

// outcome is what an Experiment has come to: its status and the specs of its children, by
// role, without times and with every name of this run replaced.
func outcome(s *stage, e *v1alpha1.Experiment) map[string]string {
	GinkgoHelper()
	status := s.get(e).Status.DeepCopy()
	Expect(status.Workflow.Clusters).NotTo(BeEmpty())
	replace := strings.NewReplacer(
		status.Workflow.Clusters, "CLUSTERS", string(e.UID), "UID", s.namespace, "NAMESPACE", s.hubNamespace(e, "loadgen"), "HUB",
		s.registration(e, "app"), "REGISTRATION", // which begins with the claim's name
		s.claim(e, "app").Name, "CLAIM", s.application(e, "app").Name, "APP", s.application(e, "loadgen").Name, "LOADGEN", s.workflow(e).Name, "WORKFLOW",
	)
	written := func(o any) string {
		data, err := json.MarshalIndent(o, "", " ")
		Expect(err).NotTo(HaveOccurred())
		return replace.Replace(string(data))
	}
	status.StartedAt, status.CompletedAt, status.ExpiresAt = nil, nil, nil
	status.Workflow.UID, status.Workflow.StartedAt, status.Workflow.FinishedAt = "", nil, nil
	for i := range status.Targets {
		status.Targets[i].Since = nil
	}
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime.Reset()
	}
	out := map[string]string{"status": written(status)}
	for _, child := range s.children(e) {
		content := map[string]any{"name": child.GetName(), "labels": child.GetLabels(), "annotations": child.GetAnnotations(), "spec": child.Object["spec"]}
		if data, found, _ := unstructured.NestedStringMap(child.Object, "data"); found {
			for key, value := range data {
				decoded, err := base64.StdEncoding.DecodeString(value)
				Expect(err).NotTo(HaveOccurred())
				data[key] = string(decoded)
			}
			content["data"] = data
		}
		Expect(out).NotTo(HaveKey(role(&child)), "two children of one role")
		out[role(&child)] = written(content)
	}
	return out
}

// created counts the creates that the API server let through.
func created(requests []env.Request, resource, name string) int {
	n := 0
	for _, r := range requests {
		if r.Verb == "create" && r.Resource == resource && r.Name == name && r.Code < 300 {
			n++
		}
	}
	return n
}

var _ = Describe("A manager that is killed", Ordered, ContinueOnFailure, func() {
	var reference map[string]string
	var writes int
	BeforeAll(func() {
		shared.stop()
		DeferCleanup(restartShared)

		m := hub.startManager("mortal")
		s := hub.newStage()
		e := s.create(tutorial())
		s.reaches(e, v1alpha1.PhaseComplete)
		reference = outcome(s, e)
		s.mu.Lock()
		writes = s.writes
		s.mu.Unlock()
		m.stop()
		Expect(reference).To(HaveLen(1 + 6))
		Expect(writes).To(BeNumerically(">=", kills), "fewer writes than points to kill at")
	})

	for i := range kills {
		It(fmt.Sprintf("comes to the same end: point %d of %d", i+1, kills), func() {
			// The Workflow's phases may be seen in one status or in two.
			after := 1 + i*(writes-2)/(kills-1)
			By(fmt.Sprintf("killing it after its write %d of %d", after, writes))
			from := time.Now()
			m := hub.startManager("mortal")
			s := hub.newStage()
			s.onWrite = func(n int) {
				if n == after {
					m.kill()
				}
			}
			e := s.create(tutorial())
			Eventually(m.Exited()).Should(BeClosed())
			hub.startManager("mortal")
			s.reaches(e, v1alpha1.PhaseComplete)
			Eventually(func() map[string]string { return outcome(s, e) }).Should(Equal(reference))

			By("counting what was ever created")
			for _, child := range downward {
				var added int
				for _, entry := range s.history() {
					if entry.verb == watch.Added && isChild(e, child)(entry.object) {
						added++
					}
				}
				Expect(added).To(Equal(1), child)
			}
			requests := hub.requests(from, time.Now())
			Expect(created(requests, "workflows", s.workflow(e).Name)).To(Equal(1))
			Expect(created(requests, "gkeclusters", s.claim(e, "app").Name)).To(Equal(1))
		})
	}
})
