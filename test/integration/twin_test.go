package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/twin"
	"github.com/labkeeper/labkeeper/test/env"
)

// shop is a namespace with workloads in production, which are ready.
type shop struct {
	*lab
	namespace string
}

// newShop is one with so much of the files below.
func newShop(ctx context.Context, objects ...string) *shop {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	Expect(hub.client.Create(ctx, namespace)).To(Succeed())
	s := &shop{lab: hub, namespace: namespace.Name}
	DeferCleanup(func(ctx SpecContext) {
		Expect(hub.client.DeleteAllOf(ctx, &twins.ExperimentDeployment{}, client.InNamespace(s.namespace))).To(Succeed())
		Expect(hub.client.Delete(ctx, namespace)).To(Succeed())
	})
	for _, text := range objects {
		s.create(ctx, text)
	}
	for _, kind := range []string{"Deployment", "StatefulSet"} {
		Eventually(func(g Gomega) {
			for _, o := range s.list(ctx, twin.Kinds[kind].GroupVersion().String(), kind) {
				g.Expect(twin.Read(&o).Health).To(Equal(twin.Ready), "%v", o.Object["status"])
			}
		}).Should(Succeed())
	}
	return s
}

// create creates what kubectl does.
func (s *shop) create(ctx context.Context, text string) {
	GinkgoHelper()
	command := exec.CommandContext(ctx, s.Kubectl(), "--kubeconfig="+s.Kubeconfig(), "--namespace="+s.namespace, "create", "-f", "-")
	command.Stdin = strings.NewReader(text)
	output, err := command.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(output))
}

func (s *shop) list(ctx context.Context, version, kind string) []unstructured.Unstructured {
	GinkgoHelper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion(version)
	list.SetKind(kind + "List")
	Expect(s.client.List(ctx, list, client.InNamespace(s.namespace))).To(Succeed())
	return list.Items
}

func (s *shop) get(ctx context.Context, name string) *twins.ExperimentDeployment {
	GinkgoHelper()
	e := &twins.ExperimentDeployment{}
	Expect(s.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: name}, e)).To(Succeed())
	return e
}

// edit changes one as a person does.
func (s *shop) edit(ctx context.Context, name string, change func(*twins.ExperimentDeployment)) {
	GinkgoHelper()
	before := s.get(ctx, name)
	after := before.DeepCopy()
	change(after)
	Expect(s.client.Patch(ctx, after, client.MergeFrom(before))).To(Succeed())
}

// says waits for a condition that speaks of the spec of now.
func (s *shop) says(ctx context.Context, name, conditionType string, status metav1.ConditionStatus, reason string, words ...string) *twins.ExperimentDeployment {
	GinkgoHelper()
	var e *twins.ExperimentDeployment
	Eventually(func(g Gomega) {
		e = s.get(ctx, name)
		c := meta.FindStatusCondition(e.Status.Conditions, conditionType)
		g.Expect(c).NotTo(BeNil())
		g.Expect(fmt.Sprint(c.Status, c.Reason, c.ObservedGeneration)).To(Equal(fmt.Sprint(status, reason, e.Generation)), "%+v", e.Status.Conditions)
		for _, word := range words {
			g.Expect(c.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
	return e
}

// ready waits until one is, and has told so of the twin that there is now.
func (s *shop) ready(ctx context.Context, name string) (e *twins.ExperimentDeployment) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		e = s.says(ctx, name, twins.ConditionReady, metav1.ConditionTrue, twin.ReasonReady)
		g.Expect(s.twin(ctx, e).GetGeneration()).To(Equal(e.Status.TwinGeneration))
	}).Should(Succeed())
	return e
}

// settled waits until nothing is written to it or its twin for a while, and is the version that stays: other controllers may be
// late with what they have to say of the twin.
func (s *shop) settled(ctx context.Context, name string) (version string) {
	GinkgoHelper()
	const looks = 5
	still, twin := 0, ""
	Eventually(func() int {
		e := s.ready(ctx, name)
		if now := s.twin(ctx, e).GetResourceVersion(); e.ResourceVersion != version || now != twin {
			still, version, twin = 0, e.ResourceVersion, now
		}
		still++
		return still
	}).WithPolling(400 * time.Millisecond).Should(BeNumerically(">", looks))
	return version
}

// twin of one as it is now.
func (s *shop) twin(ctx context.Context, e *twins.ExperimentDeployment) *unstructured.Unstructured {
	GinkgoHelper()
	ref := e.Status.ExperimentResourceRef
	Expect(ref).NotTo(BeNil())
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(twin.Kinds[ref.Kind])
	Expect(s.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, u)).To(Succeed())
	return u
}

// gone waits until one and its twin are.
func (s *shop) gone(ctx context.Context, e *twins.ExperimentDeployment) {
	GinkgoHelper()
	ref := e.Status.ExperimentResourceRef
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(twin.Kinds[ref.Kind])
	Eventually(func(g Gomega) {
		g.Expect(apierrors.IsNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(e), &twins.ExperimentDeployment{}))).To(BeTrue())
		g.Expect(apierrors.IsNotFound(s.client.Get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}, u))).To(BeTrue())
	}).Should(Succeed())
}

func image(u *unstructured.Unstructured) any {
	containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
	return containers[0].(map[string]any)["image"]
}

const (
	web = `
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {argocd.argoproj.io/tracking-id: "shop:apps/Deployment:shop/web"}
  labels: {app.kubernetes.io/instance: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: web, image: "example/web:1"}]
`
	webNeighbours = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 3
  maxReplicas: 9
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
`
	wideScaler = `
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: wide}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: wide}
  maxReplicas: 9
`
	wide = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: wide}
spec:
  replicas: 0
  selector: {matchExpressions: [{key: app, operator: Exists}]}
  template:
    metadata: {labels: {app: wide}}
    spec: {containers: [{name: wide, image: "example/wide:1"}]}
`
	db = `
apiVersion: v1
kind: Service
metadata: {name: db}
spec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      nodeName: twins
      terminationGracePeriodSeconds: 0
      containers: [{name: db, image: "example/db:1"}]
`
	byName = `
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: another-name}
spec: {type: ExternalName, externalName: elsewhere.example.com, selector: {app: web}}
`
	dbVolumes = `
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`
	faster = `
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: faster}
spec:
  sourceRef: {kind: Deployment, name: web}
  replicas: 1
  overrideSpec: {template: {spec: {containers: [{name: web, image: "example/web:2"}]}}}
`
	otherDB = `
apiVersion: experimentcontroller.example.com/v1alpha1
kind: ExperimentDeployment
metadata: {name: other}
spec:
  sourceRef: {kind: StatefulSet, name: db}
  mergeStrategy: Strategic
  overrideSpec: {template: {spec: {containers: [{name: db, image: "example/db:2"}]}}}
`
)

// versions of what is in production, by what it is.
func (s *shop) versions(ctx context.Context) map[string]string {
	GinkgoHelper()
	all := map[string]string{}
	for _, of := range []struct {
		kind, version string
		// itself: its own controller writes its status, which counts the twin's pods, or metrics that there are none of.
		itself bool
	}{{"Deployment", "apps/v1", false}, {"StatefulSet", "apps/v1", false}, {"Service", "v1", false}, {"HorizontalPodAutoscaler", "autoscaling/v2", true}, {"PodDisruptionBudget", "policy/v1", true}} {
		for _, o := range s.list(ctx, of.version, of.kind) {
			switch {
			case o.GetLabels()[twins.LabelUID] != "":
			case of.itself:
				all[of.kind+" "+o.GetName()] = fmt.Sprint(o.Object["spec"], o.GetAnnotations(), o.GetLabels())
			default:
				all[of.kind+" "+o.GetName()] = o.GetResourceVersion()
			}
		}
	}
	return all
}

// startNode is a node of the hub, called twins, that kwok plays.
func startNode(ctx SpecContext) {
	GinkgoHelper()
	hub.startNode(ctx)
}

func (l *lab) startNode(ctx context.Context) {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "twins", Labels: map[string]string{"labkeeper.dev/kwok": "true"}}}
	Expect(l.client.Create(ctx, node)).To(Succeed())
	stop, err := l.StartKwok(ctx, fromRoot([]string{"test/stages/pods.yaml"})...)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(stop()).To(Succeed())
		Expect(l.client.Delete(ctx, node)).To(Succeed())
	})
}

var _ = Describe("An ExperimentDeployment", Ordered, ContinueOnFailure, func() {
	BeforeAll(startNode)

	It("hears of what comes beside its source, and goes", func(ctx SpecContext) {
		s := newShop(ctx, web)
		s.create(ctx, faster)
		s.ready(ctx, "faster")
		s.says(ctx, "faster", twins.ConditionServiceShared, metav1.ConditionFalse, twins.ReasonNoServices)
		s.create(ctx, webNeighbours)
		s.says(ctx, "faster", twins.ConditionServiceShared, metav1.ConditionTrue, twins.ReasonShared)
		s.says(ctx, "faster", twins.ConditionAutoscalerInterference, metav1.ConditionTrue, twins.ReasonInterference, "HorizontalPodAutoscaler web")
		s.says(ctx, "faster", twins.ConditionDisruptionInterference, metav1.ConditionTrue, twins.ReasonInterference, "PodDisruptionBudget web")
		s.kubectl(ctx, "-n", s.namespace, "delete", "service,hpa,pdb", "web")
		s.says(ctx, "faster", twins.ConditionServiceShared, metav1.ConditionFalse, twins.ReasonNoServices)
		s.says(ctx, "faster", twins.ConditionAutoscalerInterference, metav1.ConditionFalse, twins.ReasonNone)
		s.says(ctx, "faster", twins.ConditionDisruptionInterference, metav1.ConditionFalse, twins.ReasonNone)

		By("another workload with an autoscaler, whose selector is wide")
		s.create(ctx, wideScaler)
		s.create(ctx, wide)
		s.says(ctx, "faster", twins.ConditionAutoscalerInterference, metav1.ConditionTrue, twins.ReasonInterference, "HorizontalPodAutoscaler wide is for Deployment wide")
		s.kubectl(ctx, "-n", s.namespace, "delete", "deployment", "wide")
		s.says(ctx, "faster", twins.ConditionAutoscalerInterference, metav1.ConditionFalse, twins.ReasonNone)
	})

	It("has volumes of its own, which go with it, while those of its source stay", func(ctx SpecContext) {
		s := newShop(ctx, db+dbVolumes)
		s.create(ctx, otherDB)
		e := s.ready(ctx, "other")
		claims := func() (names []string) {
			for _, claim := range s.list(ctx, "v1", "PersistentVolumeClaim") {
				names = append(names, claim.GetName())
			}
			return names
		}
		its := "data-" + e.Status.ExperimentResourceRef.Name + "-0"
		Eventually(claims).Should(ConsistOf("data-db-0", "data-db-1", its))
		Expect(s.client.Delete(ctx, e)).To(Succeed())
		s.gone(ctx, e)
		Eventually(claims).Should(ConsistOf("data-db-0", "data-db-1"))
	})

	It("is a twin behind the Service of its source, which does not notice", func(ctx SpecContext) {
		s := newShop(ctx, web, webNeighbours)
		before := s.versions(ctx)
		s.create(ctx, faster)
		e := s.ready(ctx, "faster")
		u := s.twin(ctx, e)
		Expect(u.GetOwnerReferences()).To(HaveLen(1))
		Expect(u.GetAnnotations()).NotTo(HaveKey(ContainSubstring("argocd")))
		Expect(image(u)).To(Equal("example/web:2"))
		Expect(e.Status.Replicas).To(Equal(int32(1)))
		Expect(e.Status.ReadyReplicas).To(Equal(int32(1)))
		Expect(e.Status.Services).To(Equal([]twins.ServiceStatus{{Name: "web", Shared: true}}))
		s.says(ctx, "faster", twins.ConditionAutoscalerInterference, metav1.ConditionTrue, twins.ReasonInterference, "HorizontalPodAutoscaler web")
		s.says(ctx, "faster", twins.ConditionDisruptionInterference, metav1.ConditionTrue, twins.ReasonInterference, "PodDisruptionBudget web")
		Eventually(func(g Gomega) {
			slices := &discoveryv1.EndpointSliceList{}
			g.Expect(s.client.List(ctx, slices, client.InNamespace(s.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: "web"})).To(Succeed())
			var addresses int
			for _, slice := range slices.Items {
				addresses += len(slice.Endpoints)
			}
			g.Expect(addresses).To(Equal(4), "three of the source and one of the twin")
		}).Should(Succeed())

		By("rolling what the override changes")
		s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) {
			e.Spec.OverrideSpec.Raw = []byte(`{"template":{"spec":{"containers":[{"name":"web","image":"example/web:3"}]}}}`)
		})
		e = s.ready(ctx, "faster")
		Expect(image(s.twin(ctx, e))).To(Equal("example/web:3"))

		By("putting right what somebody does to the twin")
		scaled := s.twin(ctx, e)
		Expect(s.client.Patch(ctx, scaled, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5},"metadata":{"labels":{"mine":"yes"}}}`)))).To(Succeed())
		Eventually(func(g Gomega) {
			replicas, _, _ := unstructured.NestedInt64(s.twin(ctx, e).Object, "spec", "replicas")
			g.Expect(replicas).To(Equal(int64(1)))
		}).Should(Succeed())
		Expect(s.twin(ctx, e).GetLabels()).To(HaveKeyWithValue("mine", "yes"))

		By("writing nothing when there is nothing to do")
		settled, since := s.settled(ctx, "faster"), time.Now()
		Consistently(func() string { return s.get(ctx, "faster").ResourceVersion }).Should(Equal(settled))
		for _, r := range s.requests(since, time.Now()) {
			Expect(r.Namespace).NotTo(Equal(s.namespace), "%s %s %s", r.Verb, r.Resource, r.Name)
		}

		By("going with it")
		Expect(s.versions(ctx)).To(Equal(before))
		Expect(s.client.Delete(ctx, e)).To(Succeed())
		s.gone(ctx, e)
		Consistently(func() map[string]string { return s.versions(ctx) }).Should(Equal(before))
	})

	It("comes up as the sample says", func(ctx SpecContext) {
		s := newShop(ctx)
		sample, err := os.ReadFile(filepath.Join(env.Root(), "config", "samples", "twins", "web.yaml"))
		Expect(err).NotTo(HaveOccurred())
		text := strings.ReplaceAll(string(sample), "namespace: default", "namespace: "+s.namespace)
		s.create(ctx, strings.Replace(text, "      containers:\n", "      nodeName: twins\n      containers:\n", 1)) // there is no scheduler
		e := s.ready(ctx, "faster")
		Expect(image(s.twin(ctx, e))).To(Equal("example/web:2"))
		Expect(s.kubectl(ctx, "--namespace="+s.namespace, "get", "expdep")).To(MatchRegexp(`(?s)NAME +SOURCE +KIND +READY +REPLICAS +SHARED +AGE.*faster +web +Deployment +True +1 +True`))
	})

	It("follows its source, and stays without one", func(ctx SpecContext) {
		s := newShop(ctx, web)
		s.create(ctx, strings.Replace(faster, `{template: {spec: {containers: [{name: web, image: "example/web:2"}]}}}`, "{}", 1))
		e := s.ready(ctx, "faster")
		source := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
		Expect(s.client.Patch(ctx, source, client.RawPatch(types.StrategicMergePatchType, []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example/web:9"}]}}}}`)))).To(Succeed())
		Eventually(func() any { return image(s.twin(ctx, e)) }).Should(Equal("example/web:9"))

		By("not when it is scaled")
		settled := s.settled(ctx, "faster")
		Expect(s.client.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`)))).To(Succeed())
		Consistently(func() string { return s.get(ctx, "faster").ResourceVersion }).Should(Equal(settled))

		Expect(s.client.Delete(ctx, source)).To(Succeed())
		s.says(ctx, "faster", twins.ConditionSourceFound, metav1.ConditionFalse, twins.ReasonSourceNotFound, "the twin stays")
		s.says(ctx, "faster", twins.ConditionTwinReady, metav1.ConditionTrue, twin.ReasonReady)
		s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) { e.Spec.OnSourceDeleted = twins.SourceDeletedDelete })
		s.says(ctx, "faster", twins.ConditionTwinReady, metav1.ConditionFalse, twins.ReasonSourceDeleted, "There is no twin")
		s.create(ctx, web)
		s.ready(ctx, "faster")
	})

	It("is brought to what is asked for within a second", func(ctx SpecContext) {
		s := newShop(ctx, web)
		s.create(ctx, faster)
		e := s.ready(ctx, "faster")
		patch := func(o client.Object, format string, args ...any) {
			GinkgoHelper()
			Expect(s.client.Patch(ctx, o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))).To(Succeed())
		}
		for what, change := range map[string]func(i int) (path []string, want any){
			"by its override": func(i int) ([]string, any) {
				patch(e.DeepCopy(), `{"spec": {"overrideSpec": {"minReadySeconds": %d}}}`, i)
				return []string{"minReadySeconds"}, int64(i)
			},
			"by its source": func(i int) ([]string, any) {
				source := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
				patch(source, `{"spec": {"template": {"metadata": {"labels": {"version": "%d"}}}}}`, i)
				return []string{"template", "metadata", "labels", "version"}, fmt.Sprint(i)
			},
			"after somebody has changed it": func(i int) ([]string, any) {
				patch(s.twin(ctx, e), `{"spec": {"revisionHistoryLimit": %d}}`, 10+i)
				return []string{"revisionHistoryLimit"}, int64(2)
			},
		} {
			By(what)
			quickest := time.Hour
			for i := range 3 { // once at least: what else is tested may keep the machine busy
				begun := time.Now()
				path, want := change(i + 1)
				Eventually(func() any {
					value, _, _ := unstructured.NestedFieldNoCopy(s.twin(ctx, e).Object, append([]string{"spec"}, path...)...)
					return value
				}).WithPolling(20 * time.Millisecond).Should(Equal(want))
				quickest = min(quickest, time.Since(begun))
			}
			Expect(quickest).To(BeNumerically("<", time.Second), what)
		}
	})

	It("stays with what its source had when it is pinned", func(ctx SpecContext) {
		s := newShop(ctx, db)
		s.create(ctx, strings.Replace(otherDB, "mergeStrategy: Strategic", "sourcePolicy: Pinned", 1))
		e := s.ready(ctx, "other")
		revision := &appsv1.ControllerRevision{}
		Expect(s.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: e.Status.ExperimentResourceRef.Name}, revision)).To(Succeed())
		settled := s.twin(ctx, e).GetGeneration()
		source := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db"}}
		Expect(s.client.Patch(ctx, source, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":{"metadata":{"labels":{"new":"yes"}}}}}`)))).To(Succeed())
		Consistently(func() int64 { return s.twin(ctx, e).GetGeneration() }).Should(Equal(settled))
		s.edit(ctx, "other", func(e *twins.ExperimentDeployment) { e.Spec.SourcePolicy = twins.SourceFollow })
		Eventually(func(g Gomega) {
			labels, _, _ := unstructured.NestedStringMap(s.twin(ctx, e).Object, "spec", "template", "metadata", "labels")
			g.Expect(labels).To(HaveKeyWithValue("new", "yes"))
			g.Expect(apierrors.IsNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(revision), revision))).To(BeTrue())
		}).Should(Succeed())
	})

	It("is made again where a field cannot be changed", func(ctx SpecContext) {
		s := newShop(ctx, db)
		s.create(ctx, otherDB)
		e := s.ready(ctx, "other")
		first := s.twin(ctx, e)
		s.says(ctx, "other", twins.ConditionWarnings, metav1.ConditionTrue, twin.WarnPeerDiscovery, "peers")
		s.create(ctx, strings.Replace(db[strings.Index(db, "---"):], "name: db}\nspec", "name: "+first.GetName()+"-next}\nspec", 1)) // the name by which the next is tried
		s.edit(ctx, "other", func(e *twins.ExperimentDeployment) { e.Spec.OverrideSpec.Raw = []byte(`{"serviceName":"elsewhere"}`) })
		e = s.ready(ctx, "other")
		again := s.twin(ctx, e)
		By("not before it is known that it can be")
		s.edit(ctx, "other", func(e *twins.ExperimentDeployment) {
			e.Spec.OverrideSpec.Raw = []byte(`{"serviceName":"nowhere","template":{"spec":{"containers":[{"name":"db","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}}`)
		})
		s.says(ctx, "other", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonRejected, "must be less than or equal to")
		s.says(ctx, "other", twins.ConditionTwinReady, metav1.ConditionTrue, twin.ReasonReady)
		Expect(s.twin(ctx, e).GetUID()).To(Equal(again.GetUID()))
		Expect(again.GetUID()).NotTo(Equal(first.GetUID()))
		Expect(again.GetName()).To(Equal(first.GetName()))
		Expect(s.client.Delete(ctx, e)).To(Succeed())
		s.gone(ctx, e)
	})

	It("has new volumes when it is made again", func(ctx SpecContext) {
		s := newShop(ctx, db+dbVolumes)
		s.create(ctx, otherDB)
		e := s.ready(ctx, "other")
		at, claim := types.NamespacedName{Namespace: s.namespace, Name: "data-" + e.Status.ExperimentResourceRef.Name + "-0"}, &corev1.PersistentVolumeClaim{}
		Eventually(func() error { return s.client.Get(ctx, at, claim) }).Should(Succeed())
		first := claim.UID
		s.edit(ctx, "other", func(e *twins.ExperimentDeployment) {
			e.Spec.OverrideSpec.Raw = []byte(`{"volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}}]}`)
		})
		Eventually(func(g Gomega) {
			g.Expect(s.client.Get(ctx, at, claim)).To(Succeed())
			g.Expect(claim.UID).NotTo(Equal(first))
			g.Expect(claim.Spec.Resources.Requests.Storage().String()).To(Equal("2Gi"))
		}).Should(Succeed())
		s.ready(ctx, "other")
		Consistently(func(g Gomega) {
			g.Expect(s.client.Get(ctx, at, claim)).To(Succeed())
			g.Expect(claim.DeletionTimestamp).To(BeNil())
		}).Should(Succeed())
	})

	It("refuses what cannot be, and leaves the last good twin", func(ctx SpecContext) {
		s := newShop(ctx, web)
		s.create(ctx, faster)
		e := s.ready(ctx, "faster")
		settled := s.twin(ctx, e).GetResourceVersion()
		for override, says := range map[string]string{
			`{"replcas":2}`: `spec.overrideSpec: unknown field "replcas"`, `{"selector":{}}`: "spec.overrideSpec.selector", `{"replicas":2}`: "spec.replicas is 1",
			`{"template":{"spec":{"hostNetwork":true}}}`: "what the source's do not have",
			`{"template":{"spec":{"containers":[{"name":"web","image":"example/web:2","securityContext":{"capabilities":{"add":[null,"SYS_ADMIN"]}}}]}}}`: "capability SYS_ADMIN",
		} {
			s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) { e.Spec.OverrideSpec.Raw = []byte(override) })
			s.says(ctx, "faster", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonInvalidOverride, says)
		}
		Expect(s.twin(ctx, e).GetResourceVersion()).To(Equal(settled))
		for _, wrong := range []string{"overrideSpec: [1]", "overrideSpec: text", "overrideSpec: null"} {
			text := faster[:strings.Index(faster, "  overrideSpec:")] + "  " + wrong
			command := exec.CommandContext(ctx, s.Kubectl(), "--kubeconfig="+s.Kubeconfig(), "--namespace="+s.namespace, "create", "-f", "-")
			command.Stdin = strings.NewReader(strings.Replace(text, "name: faster", "name: wrong", 1))
			output, err := command.CombinedOutput()
			Expect(err).To(HaveOccurred())
			Expect(string(output)).To(ContainSubstring("spec.overrideSpec"))
		}
		s.create(ctx, strings.NewReplacer("name: faster", "name: chained", "name: web}", "name: "+e.Status.ExperimentResourceRef.Name+"}").Replace(faster))
		s.says(ctx, "chained", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonInvalidOverride, "is itself a twin")
		s.create(ctx, strings.NewReplacer("name: faster", "name: rollout", "kind: Deployment", "kind: Rollout").Replace(faster))
		s.says(ctx, "rollout", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonKindUnavailable)
	})

	It("takes the pods of a twin away that does not get ready", func(ctx SpecContext) {
		s := newShop(ctx, web)
		s.create(ctx, strings.Replace(faster, "web:2", "web:broken", 1)+"  onUnready: {after: 10s}\n")
		e := s.says(ctx, "faster", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonUnready)
		Eventually(func(g Gomega) {
			replicas, _, _ := unstructured.NestedInt64(s.twin(ctx, s.get(ctx, "faster")).Object, "spec", "replicas")
			g.Expect(replicas).To(BeZero())
		}).Should(Succeed())
		Expect(e.Status.ScaledToZero).NotTo(BeNil())
		s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) {
			e.Spec.OverrideSpec.Raw = []byte(`{"template":{"spec":{"containers":[{"name":"web","image":"example/web:4"}]}}}`)
		})
		e = s.ready(ctx, "faster")
		Expect(e.Status.ScaledToZero).To(BeNil())
	})

	It("loses no pods that are ready, nor the room for those that there was none for", long, func(ctx SpecContext) {
		s := newShop(ctx, web)
		replicas := func(name string) int64 {
			n, _, _ := unstructured.NestedInt64(s.twin(ctx, s.get(ctx, name)).Object, "spec", "replicas")
			return n
		}
		By("being ready for longer than onUnready says")
		s.create(ctx, strings.Replace(faster, "{template:", "{minReadySeconds: 300, template:", 1)+"  onUnready: {after: 10s}\n")
		Eventually(func() int32 { return s.get(ctx, "faster").Status.ReadyReplicas }).Should(Equal(int32(1)))

		By("having room for one alone, and then no room, for so long")
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pods"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"pods": resource.MustParse("5")}}}
		Expect(s.client.Create(ctx, quota)).To(Succeed())
		Eventually(func(g Gomega) {
			g.Expect(s.client.Get(ctx, client.ObjectKeyFromObject(quota), quota)).To(Succeed())
			g.Expect(quota.Status.Used).To(HaveKey(corev1.ResourcePods))
		}).Should(Succeed())
		s.create(ctx, strings.NewReplacer("name: faster", "name: some", "replicas: 1", "replicas: 2").Replace(faster)+"  onUnready: {after: 10s}\n")
		Eventually(func() int32 { return s.get(ctx, "some").Status.ReadyReplicas }).Should(Equal(int32(1)))
		s.create(ctx, strings.Replace(faster, "name: faster", "name: refused", 1)+"  onUnready: {after: 10s}\n")
		s.says(ctx, "refused", twins.ConditionTwinReady, metav1.ConditionFalse, twin.ReasonPodsRefused, "exceeded quota")
		Consistently(func(g Gomega) {
			g.Expect(replicas("faster")).To(Equal(int64(1)))
			g.Expect(replicas("some")).To(Equal(int64(2)))
			g.Expect(replicas("refused")).To(Equal(int64(1)))
		}).WithTimeout(12 * time.Second).Should(Succeed())
		Expect(s.client.Patch(ctx, quota, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"hard":{"pods":"9"}}}`)))).To(Succeed())
		Eventually(func() int32 { return s.get(ctx, "refused").Status.ReadyReplicas }).WithTimeout(time.Minute).Should(Equal(int32(1)))
		Eventually(func() int32 { return s.get(ctx, "some").Status.ReadyReplicas }).WithTimeout(time.Minute).Should(Equal(int32(2)))
	})

	It("tells of Services what they do", func(ctx SpecContext) {
		s := newShop(ctx, strings.Replace(web, `"example/web:1"`, `"example/web:1", ports: [{name: http, containerPort: 8080}]`, 1), db, byName)
		s.create(ctx, faster)
		s.create(ctx, strings.Replace(otherDB, "overrideSpec: {", "overrideSpec: {serviceName: elsewhere, ", 1))
		behind := func(name, service string) bool {
			list := &discoveryv1.EndpointSliceList{}
			Expect(s.client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service})).To(Succeed())
			for _, slice := range list.Items {
				for _, endpoint := range slice.Endpoints {
					if len(slice.Ports) > 0 && strings.HasPrefix(endpoint.TargetRef.Name, s.get(ctx, name).Status.ExperimentResourceRef.Name) {
						return true
					}
				}
			}
			return false
		}

		By("one that finds its port by a name that the override leaves out")
		e := s.ready(ctx, "faster")
		Consistently(func() bool { return behind("faster", "web") }).Should(BeFalse())
		Expect(e.Status.Services).To(ConsistOf(HaveField("Reason", twin.ReasonPortLost)), "and none of another name")
		s.edit(ctx, "faster", func(e *twins.ExperimentDeployment) { e.Spec.MergeStrategy = twins.MergeStrategic })
		Eventually(func() bool { return behind("faster", "web") }).Should(BeTrue())
		s.says(ctx, "faster", twins.ConditionServiceShared, metav1.ConditionTrue, twins.ReasonShared)

		By("one by which pods find their peers, whatever governs them")
		s.ready(ctx, "other")
		Eventually(func() bool { return behind("other", "db") }).Should(BeTrue())
		s.says(ctx, "other", twins.ConditionWarnings, metav1.ConditionTrue, twin.WarnPeerDiscovery, "headless Service db")
	})

	It("goes on while a HibernatePlan has its source sleep, says so, and has both be as they were", long, func(ctx SpecContext) {
		startRunners(ctx, nil)
		s := newShop(ctx, web, webNeighbours, db)
		s.create(ctx, faster)
		s.create(ctx, otherDB)
		s.create(ctx, strings.NewReplacer("name: faster", "name: apart", "{template: {", "{template: {metadata: {labels: {app: apart}}, ").Replace(faster)+"  allowLabelOverride: true\n")
		for _, name := range []string{"faster", "other", "apart"} {
			s.settled(ctx, name)
		}
		d := &dormitory{lab: hub, namespace: s.namespace, cluster: hub}
		d.before = d.snapshot(ctx)
		p := d.plan(ctx, single)
		d.wants(ctx, p, hibernator.OverrideHibernated)
		d.comesTo(ctx, p, hibernator.PhaseHibernated, 40*time.Second)
		for _, name := range []string{"faster", "other", "apart"} {
			s.says(ctx, name, twins.ConditionSourceFound, metav1.ConditionTrue, twins.ReasonSourceFound, "has no replicas, as one that sleeps")
			e := s.says(ctx, name, twins.ConditionReady, metav1.ConditionTrue, twin.ReasonReady)
			Expect(e.Status.ReadyReplicas).To(Equal(int32(1)))
		}
		asleep := d.snapshot(ctx)
		for what, was := range d.before {
			if sleeps := strings.HasSuffix(what, " web") && strings.Contains(what, "Deployment") || strings.HasSuffix(what, " db"); !sleeps {
				Expect(asleep).To(HaveKeyWithValue(what, was))
			}
		}
		Consistently(func() map[string]any { return d.snapshot(ctx) }).WithTimeout(3 * time.Second).Should(Equal(asleep))

		d.wants(ctx, p, hibernator.OverrideAwake)
		now := d.comesTo(ctx, p, hibernator.PhaseActive, 40*time.Second)
		Expect(meta.IsStatusConditionFalse(now.Status.Conditions, hibernator.ConditionDegraded)).To(BeTrue())
		for _, name := range []string{"faster", "other", "apart"} {
			s.settled(ctx, name)
			Eventually(func() string {
				return meta.FindStatusCondition(s.get(ctx, name).Status.Conditions, twins.ConditionSourceFound).Message
			}).ShouldNot(ContainSubstring("sleeps"))
		}
		Expect(d.snapshot(ctx)).To(Equal(d.before))
	})

	It("shows what it would do, and ends in its time", func(ctx SpecContext) {
		s := newShop(ctx, web)
		s.create(ctx, faster+"  dryRun: true\n  ttl: 5s\n")
		e := s.says(ctx, "faster", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonDryRun)
		Expect(e.Status.Diff).To(ContainSubstring(`"example/web:1" -> "example/web:2"`))
		Expect(e.Status.ExperimentResourceRef).To(BeNil())
		Expect(s.list(ctx, "apps/v1", "Deployment")).To(HaveLen(1))
		Eventually(func() bool {
			return apierrors.IsNotFound(s.client.Get(ctx, client.ObjectKeyFromObject(e), &twins.ExperimentDeployment{}))
		}).Should(BeTrue())
	})

	It("has a twin in another namespace where that allows it, and leaves none behind", func(ctx SpecContext) {
		s, lab := newShop(ctx, web), newShop(ctx)
		lab.create(ctx, strings.Replace(faster, "name: web}", "name: web, namespace: "+s.namespace+"}", 1))
		lab.says(ctx, "faster", twins.ConditionReady, metav1.ConditionFalse, twins.ReasonNotGranted, twins.AnnotationAllowedNamespaces)
		s.kubectl(ctx, "annotate", "namespace", s.namespace, twins.AnnotationAllowedNamespaces+"=other, "+lab.namespace)
		e := lab.ready(ctx, "faster")
		u := lab.twin(ctx, e)
		Expect(u.GetNamespace()).To(Equal(s.namespace))
		Expect(u.GetOwnerReferences()).To(BeEmpty())
		Expect(lab.client.Delete(ctx, e)).To(Succeed())
		lab.gone(ctx, e)

		By("sweeping one whose owner was forced away")
		lab.create(ctx, strings.Replace(faster, "name: web}", "name: web, namespace: "+s.namespace+"}", 1))
		e = lab.ready(ctx, "faster")
		copied := lab.twin(ctx, e).DeepCopy()
		shared.stop()
		Expect(lab.client.Patch(ctx, e, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))).To(Succeed())
		Expect(lab.client.Delete(ctx, e)).To(Succeed())
		copied.SetName("copy")
		copied.SetResourceVersion("")
		Expect(lab.client.Create(ctx, copied)).To(Succeed())
		lab.create(ctx, strings.Replace(faster, "name: web}", "name: web, namespace: "+s.namespace+"}", 1)) // it takes the name, and nothing else
		restartShared()
		orphan := copied.DeepCopy()
		Eventually(func() bool {
			return apierrors.IsNotFound(lab.client.Get(ctx, types.NamespacedName{Namespace: s.namespace, Name: e.Status.ExperimentResourceRef.Name}, orphan))
		}).Should(BeTrue())
		Expect(lab.twin(ctx, lab.ready(ctx, "faster")).GetName()).NotTo(Equal(e.Status.ExperimentResourceRef.Name))
		Consistently(func() error { return lab.client.Get(ctx, client.ObjectKeyFromObject(copied), copied) }).Should(Succeed())
	})

	It("is not for who may not run pods there", func(ctx SpecContext) {
		s := newShop(ctx, web)
		shared.stop()
		DeferCleanup(restartShared)
		hub.startManager("reviewer", hub.serveWebhook()...)
		author := rbacv1.PolicyRule{APIGroups: []string{twins.GroupVersion.Group}, Resources: []string{"experimentdeployments"}, Verbs: []string{"*"}}
		Expect(s.client.Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "author"}, Rules: []rbacv1.PolicyRule{author}})).To(Succeed())
		s.kubectl(ctx, "--namespace="+s.namespace, "create", "rolebinding", "author", "--role=author", "--user=author")
		as := func(user string) (string, error) {
			command := exec.CommandContext(ctx, s.Kubectl(), "--kubeconfig="+s.Kubeconfig(), "--as="+user, "--namespace="+s.namespace, "create", "--dry-run=server", "-f", "-")
			command.Stdin = strings.NewReader(faster)
			output, err := command.CombinedOutput()
			return string(output), err
		}
		Eventually(func() string { output, _ := as("author"); return output }).Should(ContainSubstring("author may not create deployments in namespace " + s.namespace))
		s.kubectl(ctx, "--namespace="+s.namespace, "create", "role", "runner", "--verb=create", "--resource=deployments.apps")
		s.kubectl(ctx, "--namespace="+s.namespace, "create", "rolebinding", "runner", "--role=runner", "--user=author")
		Eventually(func() error { _, err := as("author"); return err }).Should(Succeed())
		s.create(ctx, faster)
		e := s.ready(ctx, "faster")
		Expect(s.client.Delete(ctx, e)).To(Succeed())
		s.gone(ctx, e)
	})
})
