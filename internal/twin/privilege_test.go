package twin

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"

	"github.com/labkeeper/labkeeper/test/random"
)

// What pods can be, field by field: of the pod, of its container, and of its metadata.
var (
	podFields = []string{
		`serviceAccountName: admin`, `serviceAccountName: web`, `automountServiceAccountToken: true`, `automountServiceAccountToken: false`,
		`hostNetwork: true`, `hostPID: true`, `hostIPC: true`, `runtimeClassName: gvisor`, `runtimeClassName: bare`,
		`imagePullSecrets: [{name: registry}]`, `imagePullSecrets: [{name: db}]`,
		`securityContext: {runAsNonRoot: true}`, `securityContext: {runAsUser: 0}`, `securityContext: {runAsUser: 1000}`, `securityContext: {seccompProfile: {type: RuntimeDefault}}`,
		`securityContext: {seccompProfile: {type: Unconfined}}`, `securityContext: {appArmorProfile: {type: Unconfined}}`, `securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}`,
		`securityContext: {seLinuxOptions: {type: spc_t}}`, `securityContext: {windowsOptions: {hostProcess: true}}`, `securityContext: {supplementalGroups: [0]}`, `securityContext: {fsGroup: 7}`, `securityContext: {fsGroup: 0}`,
		`securityContext: {runAsGroup: 1000}`, `securityContext: {runAsGroup: 0}`, `securityContext: {supplementalGroupsPolicy: Strict}`, `securityContext: {appArmorProfile: {type: Localhost, localhostProfile: strict}}`,
		`volumes: [{name: v, emptyDir: {}}]`, `volumes: [{name: v, hostPath: {path: /}}]`, `volumes: [{name: v, hostPath: {path: /var/log}}]`, `volumes: [{name: v, secret: {secretName: db}}]`,
		`volumes: [{name: v, persistentVolumeClaim: {claimName: db}}]`, `volumes: [{name: v, persistentVolumeClaim: {claimName: db, readOnly: true}}]`,
		`volumes: [{name: v, projected: {sources: [{secret: {name: db}}]}}]`, `volumes: [{name: v, csi: {driver: x, nodePublishSecretRef: {name: db}}}]`, `volumes: [{name: v, nfs: {server: x, path: /}}]`,
		`initContainers: [{name: first, image: x, securityContext: {privileged: true}}]`, `initContainers: [{name: first, image: x, volumeMounts: [{name: v, mountPath: /v}]}]`,
		`tolerations: [{operator: Exists}]`, `tolerations: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]`, `tolerations: [{key: pool, operator: Exists}]`,
	}
	containerFields = []string{
		`image: "web:2"`, `env: [{name: P, valueFrom: {secretKeyRef: {name: db, key: p}}}]`, `envFrom: [{secretRef: {name: db}}]`, `ports: [{containerPort: 80, hostPort: 80}]`,
		`volumeMounts: [{name: v, mountPath: /v}]`, `volumeMounts: [{name: v, mountPath: /v, readOnly: true}]`,
		`volumeMounts: [{name: v, mountPath: /v, subPath: a}]`, `volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(P)}]`, `volumeMounts: [{name: v, mountPath: /v, subPath: ./a/, readOnly: true}]`, `env: [{name: P, value: a}]`,
		`env: [{name: P, valueFrom: {configMapKeyRef: {name: paths, key: p, optional: true}}}]`, `envFrom: [{configMapRef: {name: mine}}]`,
		`resources: {limits: {nvidia.com/gpu: 1}}`, `resources: {limits: {cpu: 1}}`, `livenessProbe: {httpGet: {host: db, port: 80}}`, `lifecycle: {preStop: {tcpSocket: {host: 10.0.0.1, port: 80}}}`,
		`securityContext: {privileged: true}`, `securityContext: {allowPrivilegeEscalation: false}`, `securityContext: {allowPrivilegeEscalation: true}`, `securityContext: {capabilities: {drop: [ALL]}}`,
		`securityContext: {capabilities: {add: [SYS_ADMIN]}}`, `securityContext: {capabilities: {add: [null, SYS_ADMIN]}}`, `securityContext: {capabilities: {add: [NET_BIND_SERVICE], drop: [all]}}`, `securityContext: {runAsUser: 0}`, `securityContext: {runAsNonRoot: true}`,
		`securityContext: {runAsNonRoot: false}`, `securityContext: {procMount: Unmasked}`, `securityContext: {seccompProfile: {type: Unconfined}}`, `securityContext: {seLinuxOptions: {user: root}}`, `securityContext: {runAsGroup: 2000}`,
	}
	metadataFields = []string{
		`annotations: {container.apparmor.security.beta.kubernetes.io/web: unconfined}`, `annotations: {iam.amazonaws.com/role: admin}`, `annotations: {cdi.k8s.io/gpu: all}`,
		`annotations: {sidecar.istio.io/userVolume: "[]"}`, `annotations: {harmless: "yes"}`, `labels: {azure.workload.identity/use: "true"}`, `labels: {app: other}`, `labels: {pod-template-hash: abc}`,
		`labels: {rollouts-pod-template-hash: abc}`,
	}
	strategyFields = []string{
		`canary: {maxSurge: 1}`, `canary: {steps: [{setWeight: 5}, {pause: {}}]}`, `canary: {stableMetadata: {labels: {app: api}}}`, `canary: {canaryMetadata: {annotations: {iam.amazonaws.com/role: admin}}}`,
		`canary: {steps: [{analysis: {}}]}`, `canary: {steps: [{experiment: {}}]}`, `blueGreen: {activeService: web}`,
	}
)

// TestNeverMorePrivileged is that whatever a source is, and whatever the override, the twin may do nothing that the source
// may not: by what Pod Security Admission says of both, and by rules of its own that share nothing with Exceeding.
func TestNeverMorePrivileged(t *testing.T) {
	r := random.New(t, 1)
	built, refusals := 0, 0
	for range *random.Cases {
		kind := []string{tracked, shifting}[r.IntN(2)]
		from := source(t, kind)
		from.Object["spec"].(map[string]any)["template"] = fragment(t, r, 0.12)
		override := map[string]any{"template": fragment(t, r, 0.03)}
		if kind == shifting && r.IntN(4) == 0 {
			override["strategy"] = object(t, "{"+strategyFields[r.IntN(len(strategyFields))]+"}")
		}
		w := Wanted{Name: "x-exp-1", For: "x", Override: override, Strategy: []Strategy{Replace, Strategic}[r.IntN(2)]}
		twin, err := Build(from, w)
		if err != nil {
			refused(t, err, "")
			refusals++
			continue
		}
		built++
		spec, _ := twin.Object.Object["spec"].(map[string]any)
		if more := exceeds(t, templateOf(from.Object["spec"].(map[string]any)), spec); len(more) > 0 {
			raw, _ := json.Marshal(map[string]any{"source": from.Object["spec"], "override": override})
			t.Fatalf("the twin has %v: %s", more, raw)
		}
	}
	if built < *random.Cases/10 || refusals < *random.Cases/10 {
		t.Errorf("%d were built and %d refused: the rest was not looked at", built, refusals)
	}
}

// fragment is a template with some of the fields, each with a probability.
func fragment(t *testing.T, r *rand.Rand, p float64) map[string]any {
	container, pod, metadata := map[string]any{"name": "web", "image": "web:1"}, map[string]any{}, map[string]any{"labels": map[string]any{"app": "web"}}
	for _, some := range []struct {
		into   map[string]any
		fields []string
	}{{container, containerFields}, {pod, podFields}, {metadata, metadataFields}} {
		for _, field := range some.fields {
			if r.Float64() < p {
				overlay(some.into, object(t, "{"+field+"}"))
			}
		}
	}
	all := []any{container}
	if r.IntN(3) == 0 { // beside which the other has more, or less
		side := map[string]any{"name": "side", "image": "side:1"}
		for _, field := range containerFields {
			if r.Float64() < p {
				overlay(side, object(t, "{"+field+"}"))
			}
		}
		all = append(all, side)
	}
	pod["containers"] = all
	return map[string]any{"metadata": metadata, "spec": pod}
}

// overlay puts fields into an object, and those of objects into objects.
func overlay(into, fields map[string]any) {
	for name, value := range fields {
		inner, ok := value.(map[string]any)
		if have, there := into[name].(map[string]any); ok && there {
			overlay(have, inner)
			continue
		}
		into[name] = value
	}
}

// exceeds is what a twin has that its source does not.
func exceeds(t *testing.T, source, spec map[string]any) (more []string) {
	t.Helper()
	a, b := typed(t, source), typed(t, templateOf(spec))
	more = judged(a, b)
	add := func(what string, wrong bool) {
		if wrong {
			more = append(more, what)
		}
	}
	add("root", rooted(b.Spec) && !rooted(a.Spec))
	add("the root group", !rooted(a.Spec) && groupOfRoot(b.Spec) && !groupOfRoot(a.Spec))
	add("groups of the image", onlyItsGroups(a.Spec) && !onlyItsGroups(b.Spec))
	add("a group for the files of volumes", groupOfFiles(b.Spec) != "" && groupOfFiles(a.Spec) != groupOfFiles(b.Spec))
	add("no profile", confined(a) && !confined(b))
	add("another account", a.Spec.ServiceAccountName != b.Spec.ServiceAccountName)
	add("another runtime", ptr.Deref(a.Spec.RuntimeClassName, "") != ptr.Deref(b.Spec.RuntimeClassName, ""))
	add("a token", tokenOf(b.Spec) > tokenOf(a.Spec))
	have := references(source, "")
	for ref := range references(templateOf(spec), "") {
		add(ref, !have[ref])
	}
	for volume := range writes(b.Spec) {
		add("writes "+volume, !writes(a.Spec)[volume])
	}
	more = append(more, further(a.Spec, b.Spec)...)
	for name, value := range b.Annotations {
		add("annotation "+name, name != "harmless" && a.Annotations[name] != value)
	}
	const azure = "azure.workload.identity/use"
	add("label "+azure, b.Labels[azure] != "" && a.Labels[azure] != b.Labels[azure])
	add("a hash", b.Labels["pod-template-hash"]+b.Labels["rollouts-pod-template-hash"] != "")
	for _, c := range apart(b) {
		add("container "+c.Spec.Containers[0].Name, exceedsEach(apart(a), c))
	}
	strategy := fmt.Sprint(spec["strategy"])
	for _, field := range []string{"Metadata", "analysis", "experiment", "blueGreen"} {
		add(field, strings.Contains(strategy, field))
	}
	return more
}

// exceedsEach says that a container may do what none of a source's may.
func exceedsEach(source []corev1.PodTemplateSpec, c corev1.PodTemplateSpec) bool {
	return !slices.ContainsFunc(source, func(s corev1.PodTemplateSpec) bool {
		return len(judged(s, c)) == 0 && (rooted(s.Spec) || !rooted(c.Spec) && (groupOfRoot(s.Spec) || !groupOfRoot(c.Spec)))
	})
}

// apart are pods with one container of a template each, and the volumes that it has. Ports are the pod's, and what the node
// asks for it.
func apart(template corev1.PodTemplateSpec) (all []corev1.PodTemplateSpec) {
	for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
		one := *template.DeepCopy()
		c.Ports, c.LivenessProbe, c.Lifecycle = nil, nil, nil
		one.Spec.InitContainers, one.Spec.Containers = nil, []corev1.Container{c}
		one.Spec.Volumes = slices.DeleteFunc(one.Spec.Volumes, func(v corev1.Volume) bool {
			return !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		})
		all = append(all, one)
	}
	return all
}

// What two containers of a source may do apart none of the twin's may do together.
func TestPrivilegesOfTwoContainers(t *testing.T) {
	spec := func(text string) map[string]any {
		return map[string]any{"spec": object(t, "{"+text+", volumes: [{name: logs, hostPath: {path: /var/log}}, {name: db, secret: {secretName: db}}]}")}
	}
	const (
		user   = `runAsUser: 1000, runAsGroup: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}`
		reads  = `{name: reads, volumeMounts: [{name: logs, mountPath: /logs}, {name: db, mountPath: /db}], securityContext: {` + user + `}}`
		root   = `{name: root, securityContext: {runAsGroup: 1000, allowPrivilegeEscalation: false}}`
		single = `{name: root, image: other, securityContext: {runAsUser: 1000, runAsGroup: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}`
	)
	source := spec("containers: [" + reads + ", " + root + "]")
	for containers, want := range map[string]string{
		reads + ", " + root:   "",
		root + ", " + reads:   "",
		reads:                 "",
		reads + ", " + single: "",
		`{name: new, volumeMounts: [{name: db, mountPath: /db}], securityContext: {runAsGroup: 1000, allowPrivilegeEscalation: false}}`:                                  "", // what one can read it can hand on
		`{name: root, volumeMounts: [{name: logs, mountPath: /logs}], securityContext: {runAsGroup: 1000, allowPrivilegeEscalation: false}}`:                             "hostPath /var/log for container root beside what container root of the source has",
		`{name: reads, volumeMounts: [{name: logs, mountPath: /logs}], securityContext: {` + strings.Replace(user, "drop: [ALL]", "drop: [ALL], add: [CHOWN]", 1) + `}}`: "capability CHOWN for container reads beside what container reads of the source has",
	} {
		more := strings.Join(Exceeding(source, spec("containers: ["+containers+"]")), ", ")
		if want == "" && more != "" || !strings.Contains(more, want) {
			t.Errorf("%s: %q, want %q", containers, more, want)
		}
	}
}

// judged are the checks of the Pod Security Standards that a source passes and its twin does not. Of users they are of
// what is said; what it comes to exceeds sees itself.
func judged(source, twin corev1.PodTemplateSpec) (worse []string) {
	for _, check := range policy.DefaultChecks() {
		look := check.Versions[len(check.Versions)-1].CheckPod
		before, after := look(&source.ObjectMeta, &source.Spec), look(&twin.ObjectMeta, &twin.Spec)
		if before.Allowed && !after.Allowed && check.ID != "runAsUser" && check.ID != "runAsNonRoot" {
			worse = append(worse, string(check.ID))
		}
	}
	return worse
}

func typed(t *testing.T, template map[string]any) (out corev1.PodTemplateSpec) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(template, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// rooted says whether a container may be root: it says so, or does not say whom, nor that it is not.
func rooted(pod corev1.PodSpec) bool {
	all := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool {
		own := ptr.Deref(c.SecurityContext, corev1.SecurityContext{})
		user, not := all.RunAsUser, all.RunAsNonRoot
		if own.RunAsUser != nil {
			user = own.RunAsUser
		}
		if own.RunAsNonRoot != nil {
			not = own.RunAsNonRoot
		}
		return user == nil && !ptr.Deref(not, false) || user != nil && *user == 0
	})
}

// onlyItsGroups says whether the image gives the user of a pod no groups.
func onlyItsGroups(pod corev1.PodSpec) bool {
	all := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	return ptr.Deref(all.SupplementalGroupsPolicy, "") == corev1.SupplementalGroupsPolicyStrict
}

// groupOfFiles is that which the node gives what is in volumes.
func groupOfFiles(pod corev1.PodSpec) string {
	all := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	if all.FSGroup == nil {
		return ""
	}
	return fmt.Sprint(*all.FSGroup)
}

// confined says whether a pod has a profile of AppArmor of its own for all its containers: an annotation of one goes before it.
func confined(pod corev1.PodTemplateSpec) bool {
	profile := ptr.Deref(pod.Spec.SecurityContext, corev1.PodSecurityContext{}).AppArmorProfile
	for name := range pod.Annotations {
		if strings.HasPrefix(name, appArmorOf) {
			return false
		}
	}
	return profile != nil && profile.Type == corev1.AppArmorProfileTypeLocalhost
}

// groupOfRoot says whether a container may have group 0: it does not say another.
func groupOfRoot(pod corev1.PodSpec) bool {
	all := ptr.Deref(pod.SecurityContext, corev1.PodSecurityContext{})
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool {
		group := all.RunAsGroup
		if c.SecurityContext != nil && c.SecurityContext.RunAsGroup != nil {
			group = c.SecurityContext.RunAsGroup
		}
		return ptr.Deref(group, 0) == 0
	})
}

// tokenOf is 0 for pods without a token, 1 where the account says, and 2 for pods with one.
func tokenOf(pod corev1.PodSpec) int {
	switch mount := pod.AutomountServiceAccountToken; {
	case mount == nil:
		return 1
	case *mount:
		return 2
	}
	return 0
}

// references are the names of Secrets, host paths and claims wherever they are in a template.
func references(value any, field string) map[string]bool {
	all := map[string]bool{}
	switch of := value.(type) {
	case []any:
		for _, item := range of {
			maps.Copy(all, references(item, field))
		}
	case map[string]any:
		name, _ := of["name"].(string)
		if slices.Contains([]string{"secret", "secretRef", "secretKeyRef", "nodePublishSecretRef"}, field) && name != "" {
			all["Secret "+name] = true
		}
		if field == "imagePullSecrets" {
			all["Secret for images "+name] = true
		}
		for key, inner := range of {
			if text, ok := inner.(string); ok && slices.Contains([]string{"secretName", "claimName", "path", "server", "host"}, key) {
				all[strings.ReplaceAll(key, "secretName", "Secret")+" "+text] = true
			}
			maps.Copy(all, references(inner, key))
		}
	}
	return all
}

// writes are the host paths and claims that containers may write.
func writes(pod corev1.PodSpec) map[string]bool {
	all := map[string]bool{}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, mount := range c.VolumeMounts {
			for _, v := range pod.Volumes {
				switch claim := v.PersistentVolumeClaim; {
				case v.Name != mount.Name || mount.ReadOnly:
				case v.HostPath != nil:
					all["path "+v.HostPath.Path] = true
				case claim != nil && !claim.ReadOnly:
					all["claim "+claim.ClaimName] = true
				}
			}
		}
	}
	return all
}

// further is what a twin has of volumes and of nodes that its source does not.
func further(source, twin corev1.PodSpec) (more []string) {
	for what := range beside(twin) {
		if !beside(source)[what] {
			more = append(more, what)
		}
	}
	for part := range parts(twin) {
		if !parts(source)[part] && !parts(source)[[2]string{part[0]}] {
			more = append(more, "path "+part[1]+" of "+part[0])
		}
	}
	return more
}

// beside are the devices of a pod's node, and the nodes that nobody is on who does not say so.
func beside(pod corev1.PodSpec) map[string]bool {
	all := map[string]bool{}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for name := range c.Resources.Limits {
			all["resource "+string(name)] = name == "nvidia.com/gpu"
		}
	}
	taint := &corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	all["the control plane"] = slices.ContainsFunc(pod.Tolerations, func(t corev1.Toleration) bool { return t.ToleratesTaint(logr.Discard(), taint, false) })
	maps.DeleteFunc(all, func(_ string, is bool) bool { return !is })
	return all
}

// parts are the paths of host paths and claims that containers see; empty is all.
func parts(pod corev1.PodSpec) map[[2]string]bool {
	all := map[[2]string]bool{}
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		for _, m := range c.VolumeMounts {
			for _, v := range pod.Volumes {
				var volume string
				switch {
				case v.Name != m.Name:
				case v.HostPath != nil:
					volume = "path " + v.HostPath.Path
				case v.PersistentVolumeClaim != nil:
					volume = "claim " + v.PersistentVolumeClaim.ClaimName
				}
				path := strings.Trim(m.SubPath, "./")
				if m.SubPathExpr != "" { // which is of $(P)
					of := slices.DeleteFunc(slices.Clone(c.Env), func(e corev1.EnvVar) bool { return e.Name != "P" })
					raw, _ := json.Marshal(of)
					if !slices.ContainsFunc(of, sure) {
						raw, _ = json.Marshal([]any{of, c.EnvFrom})
					}
					path = string(raw)
				}
				if volume != "" {
					all[[2]string{volume, path}] = true
				}
			}
		}
	}
	return all
}

// sure is whether a variable has a value of its own, whatever there is: envFrom is none of it then.
func sure(e corev1.EnvVar) bool {
	return e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil || !ptr.Deref(e.ValueFrom.ConfigMapKeyRef.Optional, false)
}

// What a container has of a volume, of devices, and by its node.
func TestPrivilegesOfContainers(t *testing.T) {
	const claim = `persistentVolumeClaim: {claimName: db}`
	mount := func(rest string) string { return `volumeMounts: [{name: v, mountPath: /v` + rest + `}]` }
	for name, test := range map[string]struct{ volume, source, twin, says string }{
		"the same path":                  {claim, mount(`, subPath: web`), mount(`, subPath: ./web/`), ""},
		"a path of all":                  {claim, mount(``), mount(`, subPath: web`), ""},
		"a path of all that is read":     {claim, mount(`, readOnly: true`), mount(`, subPath: web, readOnly: true`), ""},
		"a path that is only read":       {claim, mount(`, subPath: web`), mount(`, subPath: web, readOnly: true`), ""},
		"another path":                   {claim, mount(`, subPath: web`), mount(`, subPath: api`), `PersistentVolumeClaim db, path "api"`},
		"a path within":                  {claim, mount(`, subPath: web`), mount(`, subPath: web/link`), `PersistentVolumeClaim db, path "web/link"`},
		"all instead of a path":          {claim, mount(`, subPath: web`), mount(``), "PersistentVolumeClaim db, all of it"},
		"all, in another way":            {claim, mount(`, subPath: web`), mount(`, subPath: .`), "PersistentVolumeClaim db, all of it"},
		"a path to write":                {claim, mount(`, readOnly: true`), mount(`, subPath: web`), `PersistentVolumeClaim db, path "web", to write`},
		"a path of the node":             {`hostPath: {path: /var}`, mount(`, subPath: log`), mount(`, subPath: lib`), `hostPath /var, path "lib"`},
		"a path of a driver":             {`nfs: {server: nas, path: /}`, mount(`, subPath: web`), mount(``), "all of it"},
		"a driver to write":              {`nfs: {server: nas, path: /}`, mount(`, readOnly: true`), mount(``), "to write"},
		"a path of its own claim":        {`ephemeral: {volumeClaimTemplate: {spec: {}}}`, mount(`, subPath: web`), mount(``), ""},
		"a path of its own":              {`emptyDir: {}`, mount(`, subPath: web`), mount(``), ""},
		"a path by a variable":           {claim, `env: [{name: P, value: a}], ` + mount(`, subPathExpr: $(P)`), `env: [{name: P, value: a}, {name: Q, value: b}], ` + mount(`, subPathExpr: $(P)`), ""},
		"a variable of the path":         {claim, `env: [{name: P, value: a}], ` + mount(`, subPathExpr: $(P)`), `env: [{name: P, value: b}], ` + mount(`, subPathExpr: $(P)`), `PersistentVolumeClaim db, path "$(P)"`},
		"a variable of the variable":     {claim, `env: [{name: Q, value: a}, {name: P, value: $(Q)}], ` + mount(`, subPathExpr: $(P)`), `env: [{name: Q, value: b}, {name: P, value: $(Q)}], ` + mount(`, subPathExpr: $(P)`), `path "$(P)"`},
		"a variable that counts":         {claim, `env: [{name: P, value: a}], ` + mount(`, subPathExpr: $(P)`), `env: [{name: P, value: a}, {name: P, value: b}], ` + mount(`, subPathExpr: $(P)`), `path "$(P)"`},
		"a variable of a ConfigMap":      {claim, `envFrom: [{configMapRef: {name: a}}], ` + mount(`, subPathExpr: $(P)`), `envFrom: [{configMapRef: {name: b}}], ` + mount(`, subPathExpr: $(P)`), `path "$(P)"`},
		"variables that go in circles":   {claim, `env: [{name: P, value: $(P)}], ` + mount(`, subPathExpr: $(P)`), `env: [{name: P, value: $(P)}], ` + mount(`, subPathExpr: $(P)`), ""},
		"a device of a plugin":           {claim, `name: web`, `resources: {limits: {smarter-devices/fuse: 1}}`, "resource smarter-devices/fuse"},
		"more of the same":               {claim, `resources: {limits: {nvidia.com/gpu: 1}}`, `resources: {limits: {nvidia.com/gpu: 2}}`, ""},
		"what every node has":            {claim, `name: web`, `resources: {requests: {cpu: 2, memory: 1Gi, ephemeral-storage: 1Gi}}`, ""},
		"a probe of another host":        {claim, `name: web`, `readinessProbe: {httpGet: {host: 169.254.169.254, port: 80}}`, "a request of its node to 169.254.169.254"},
		"another path of that host":      {claim, `livenessProbe: {httpGet: {host: db, port: 80, path: /}}`, `livenessProbe: {httpGet: {host: db, port: 80, path: /drop}}`, "a request of its node to db"},
		"a probe of itself":              {claim, `name: web`, `startupProbe: {tcpSocket: {port: 80}}`, ""},
		"a hook that asks another host":  {claim, `name: web`, `lifecycle: {postStart: {tcpSocket: {host: localhost, port: 10250}}}`, "a request of its node to localhost"},
		"a hook that it has":             {claim, `lifecycle: {preStop: {httpGet: {host: db, port: 80}}}`, `lifecycle: {preStop: {httpGet: {host: db, port: 80}}}`, ""},
		"a volume that nobody has yet":   {claim, `name: web`, mount(``), "PersistentVolumeClaim db, all of it"},
		"a capability beside none":       {claim, `name: web`, `securityContext: {capabilities: {add: [null, SYS_ADMIN]}}`, "capability SYS_ADMIN"},
		"no capability":                  {claim, `name: web`, `securityContext: {capabilities: {add: [null]}}`, ""},
		"none, and all are dropped":      {claim, `securityContext: {capabilities: {drop: [ALL]}}`, `securityContext: {capabilities: {drop: [null, ALL]}}`, ""},
		"a comma that separates nothing": {`hostPath: {path: "/a, path b"}`, mount(``), mount(``), ""},
	} {
		template := func(container string) map[string]any {
			return map[string]any{"spec": object(t, `{containers: [{`+container+`}], volumes: [{name: v, `+test.volume+`}]}`)}
		}
		more := strings.Join(Exceeding(template(test.source), template(test.twin)), "; ")
		if test.says == "" && more != "" || !strings.Contains(more, test.says) {
			t.Errorf("%s: the twin has %q, want %q", name, more, test.says)
		}
	}
	host := func(path string) map[string]any {
		return map[string]any{"spec": object(t, `{containers: [{`+mount(``)+`}], volumes: [{name: v, hostPath: {path: "`+path+`"}}]}`)}
	}
	if len(Exceeding(host("/a"), host("/a, path b"))) == 0 {
		t.Error("a path of the node is taken for one within another")
	}
	tolerations := func(list string) map[string]any {
		return map[string]any{"spec": object(t, `{tolerations: [`+list+`]}`)}
	}
	const master = `{key: node-role.kubernetes.io/master}`
	for _, test := range []struct {
		source, twin string
		more         bool
	}{
		{``, `{operator: Exists}`, true},
		{``, `{key: "", operator: Exists, effect: NoSchedule}`, true},
		{``, `{operator: Exists, effect: NoExecute}`, true}, // of k3s
		{``, `{key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute}`, false},
		{``, `{key: CriticalAddonsOnly, operator: Exists}`, true},
		{`{operator: Exists, effect: NoExecute}`, `{key: CriticalAddonsOnly, operator: Exists, effect: NoExecute}`, false},
		{``, master, true},
		{master, master, false},
		{master, `{operator: Exists}`, true},
		{`{operator: Exists, effect: NoExecute}`, `{operator: Exists}`, true},
		{`{operator: Exists}`, master, false},
		{``, `{key: node-role.kubernetes.io/control-plane, operator: Exists, effect: NoSchedule}`, true},
		{``, `{key: pool, operator: Exists}`, false},
		{``, `{key: pool, value: web}`, false},
	} {
		got := strings.Join(Exceeding(tolerations(test.source), tolerations(test.twin)), "; ")
		if strings.Contains(got, "the nodes of the control plane") != test.more || !test.more && got != "" {
			t.Errorf("%s beside %s: the twin has %q", test.twin, test.source, got)
		}
	}
}

// taken is how many bytes something takes.
func taken(do func()) uint64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	do()
	goruntime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Nor does it grow with the square of their containers, or of volumes that others have, too.
func TestManyContainers(t *testing.T) {
	for name, fields := range map[string]struct{ container, volume string }{
		"containers that may do the same": {`{name: c%d}`, `{name: v%d, emptyDir: {}}`},
		"each for itself":                 {`{name: c%[1]d, securityContext: {runAsUser: 1%[1]d}}`, `{name: v%d, emptyDir: {}}`},
		"volumes of others":               {`{name: c%[1]d, volumeMounts: [{name: v%[1]d, mountPath: /v}]}`, `{name: v%[1]d, nfs: {server: nas, path: /%[1]d}}`},
	} {
		of := func(n int) uint64 {
			var containers, volumes []string
			for i := range n {
				containers, volumes = append(containers, fmt.Sprintf(fields.container, i)), append(volumes, fmt.Sprintf(fields.volume, i))
			}
			from := source(t, plain)
			from.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"] = object(t, `{containers: [`+strings.Join(containers, ", ")+`], volumes: [`+strings.Join(volumes, ", ")+`]}`)
			w := wanted(t, `{}`)
			return taken(func() {
				if _, err := Build(from, w); err != nil {
					t.Fatal(err)
				}
			})
		}
		if few, many := of(100), of(800); many > 12*few {
			t.Errorf("%s: of 100 it takes %d bytes, and of 800 %d", name, few, many)
		}
	}
}

// What it takes to compare two templates grows with their volumes and containers, and not with the product of the two.
func TestManyVolumes(t *testing.T) {
	allocated := func(n int) uint64 {
		var containers, volumes []string
		for i := range n {
			containers = append(containers, fmt.Sprintf(`{name: c%d, volumeMounts: [{name: v%d, mountPath: /v}]}`, i, i))
			volumes = append(volumes, fmt.Sprintf(`{name: v%d, emptyDir: {}}`, i))
		}
		twin := map[string]any{"spec": object(t, `{containers: [`+strings.Join(containers, ", ")+`], volumes: [`+strings.Join(volumes, ", ")+`]}`)}
		source := map[string]any{"spec": object(t, `{containers: [{name: web}]}`)}
		return taken(func() { Exceeding(source, twin) })
	}
	few, many := allocated(100), allocated(800)
	if many > 12*few {
		t.Errorf("of 100 it takes %d bytes, and of 800 %d", few, many)
	}
}

// What others put into pods by annotations, secrets and networks above all, is among what they may do.
func TestAnnotationsThatGrant(t *testing.T) {
	for name, grants := range map[string]bool{
		"akeyless/inject_file": true, "keeper.security/auth-secret": true, "org.infisical.com/inject": true, "vault.hashicorp.com/agent-inject": true,
		"networking.gke.io/interfaces": true, "ovn.kubernetes.io/logical_switch": true, "k8s.v1.cni.cncf.io/networks": true,
		"consul.hashicorp.com/consul-sidecar-user-volume": true, "appmesh.k8s.aws/secretMounts": true, "kuma.io/container-patches": true,
		"devices.nri.io": true, "mounts.noderesource.dev/container.web": true, "cdi-devices.nri.io/pod": true, "devices.crio.io": true, "seccomp-profile.kubernetes.cri-o.io/web": true,
		"org.systemd.property.SuccessAction": true, "io.containers.trace-syscall": true, "dev.gvisor.flag.network": true, "devices.gke.io/container.web": true,
		"k8s.ovn.org/routing-namespaces": true, "spiffe.io/spiffe-id": true, "secrets-webhook.security.bank-vaults.io/vault-role": true,
		"prometheus.io/scrape": false, "crio.io/harmless": false,
	} {
		of := func(value string) map[string]any {
			return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}, "spec": map[string]any{}}
		}
		for _, source := range []map[string]any{{"spec": map[string]any{}}, of("other")} {
			if more := Exceeding(source, of("db")); (len(more) > 0) != grants {
				t.Errorf("%s: the twin has %q", name, more)
			}
		}
		if more := Exceeding(of("db"), of("db")); len(more) > 0 {
			t.Errorf("%s that the source has: the twin has %q", name, more)
		}
	}
}

// A token that others than the API server take can be used as long as it lasts, also when its pod is gone.
func TestTokensThatLast(t *testing.T) {
	template := func(seconds string) map[string]any {
		return map[string]any{"spec": object(t, `{volumes: [{name: v, projected: {sources: [{serviceAccountToken: {audience: cloud, path: t`+seconds+`}}]}}]}`)}
	}
	const hour, day, year, ever = `, expirationSeconds: 3600`, `, expirationSeconds: 86400`, `, expirationSeconds: 31536000`, `, expirationSeconds: 9223372036854775807`
	for _, test := range []struct {
		source, twin string
		more         bool
	}{
		{``, hour, false}, {hour, ``, false}, {day, hour, false}, {day, day, false}, {year, day, false}, {ever, year, false},
		{``, day, true}, {hour, day, true}, {day, year, true}, {year, ever, true},
	} {
		if more := Exceeding(template(test.source), template(test.twin)); (len(more) > 0) != test.more {
			t.Errorf("%q beside %q: the twin has %q", test.twin, test.source, more)
		}
	}
}

// A certificate may be for whatever its signer is told, which Kubernetes does not look at.
func TestCertificatesOfPods(t *testing.T) {
	template := func(rest string) map[string]any {
		return map[string]any{"spec": object(t, `{volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: example.com/spiffe, keyType: ED25519`+rest+`}}]}}]}`)}
	}
	const web, admin = `, userAnnotations: {example.com/name: web}`, `, userAnnotations: {example.com/name: admin}`
	for _, test := range []struct {
		source, twin string
		more         bool
	}{
		{web, web, false},
		{web, ``, false},
		{web, admin, true},
		{``, admin, true},
	} {
		more := strings.Join(Exceeding(template(test.source), template(test.twin)), "; ")
		if test.more != strings.Contains(more, "podCertificate example.com/spiffe with userAnnotations") || strings.Contains(more, "admin") || !test.more && more != "" {
			t.Errorf("%q beside %q: the twin has %q", test.twin, test.source, more)
		}
	}
}

// Mounts by variables that are longer than a path may be, which may be anywhere, cost little: it is told by what a look allocates.
func TestLongVariables(t *testing.T) {
	template := func(value string) map[string]any {
		var mounts []any
		for i := range mostElements {
			mounts = append(mounts, map[string]any{"name": "v", "mountPath": fmt.Sprint("/", i), "subPathExpr": fmt.Sprint("$(A)/", i)})
		}
		container := map[string]any{"env": []any{map[string]any{"name": "A", "value": value}}, "volumeMounts": mounts}
		spec := object(t, `{volumes: [{name: v, persistentVolumeClaim: {claimName: db}}]}`)
		spec["containers"] = []any{container}
		return map[string]any{"spec": spec}
	}
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	more := strings.Join(Exceeding(template("a"), template(strings.Repeat("$(B)", 1<<16))), "; ")
	goruntime.ReadMemStats(&after)
	if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 128 || !strings.Contains(more, "PersistentVolumeClaim db, all of it") {
		t.Errorf("it takes %d MiB to see that the twin has more: %.200s", mib, more)
	}
}

// A path that is made of variables is what they are, however they are written.
func TestPathsOfVariables(t *testing.T) {
	template := func(metadata, env string) map[string]any {
		return map[string]any{
			"metadata": object(t, "{"+metadata+"}"),
			"spec":     object(t, `{containers: [{`+env+`, volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(A)}]}], volumes: [{name: v, persistentVolumeClaim: {claimName: db}}]}`),
		}
	}
	field := func(path string) string {
		return `env: [{name: A, valueFrom: {fieldRef: {fieldPath: "` + path + `"}}}]`
	}
	for name, test := range map[string]struct {
		metadata, source, twinMetadata, twin string
		more                                 bool
	}{
		"another annotation":          {`annotations: {dir: mine}`, field("metadata.annotations['dir']"), `annotations: {dir: others}`, field("metadata.annotations['dir']"), true},
		"an annotation that is lost":  {`annotations: {dir: mine}`, field("metadata.annotations['dir']"), ``, field("metadata.annotations['dir']"), true},
		"none that there is":          {``, field("metadata.annotations['dir']"), ``, field("metadata.annotations['dir']"), false},
		"the same in other places":    {``, `env: [{name: X, value: a}, {name: B, value: $(X)}, {name: X, value: b}, {name: C, value: $(X)}, {name: A, value: $(B)$(C)$(X)}]`, ``, `env: [{name: X, value: a}, {name: B, value: $(X)}, {name: C, value: $(X)}, {name: X, value: b}, {name: A, value: $(B)$(C)$(X)}]`, true},
		"an annotation beside":        {`annotations: {dir: mine}`, field("metadata.annotations['dir']"), `annotations: {dir: mine, x: y}`, field("metadata.annotations['dir']"), false},
		"another label":               {`labels: {dir: mine}`, field("metadata.labels['dir']"), `labels: {dir: others}`, field("metadata.labels['dir']"), true},
		"the name":                    {``, field("metadata.name"), `labels: {dir: others}`, field("metadata.name"), false},
		"one before":                  {``, `env: [{name: B, value: a}, {name: A, value: data/$(B)}]`, ``, `env: [{name: B, value: b}, {name: A, value: data/$(B)}, {name: B, value: a}]`, true},
		"one after":                   {``, `env: [{name: B, value: a}, {name: A, value: data/$(B)}]`, ``, `env: [{name: A, value: data/$(B)}, {name: B, value: a}], envFrom: [{configMapRef: {name: mine}}]`, true},
		"envFrom, which it is not":    {``, `env: [{name: A, value: a}]`, ``, `env: [{name: A, value: a}], envFrom: [{configMapRef: {name: mine}}]`, false},
		"envFrom, if a key is not":    {``, `env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}]`, ``, `env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k, optional: true}}}], envFrom: [{configMapRef: {name: mine}}]`, true},
		"one before, if a key is not": {``, `env: [{name: A, valueFrom: {secretKeyRef: {name: c, key: k, optional: true}}}]`, ``, `env: [{name: A, value: mine}, {name: A, valueFrom: {secretKeyRef: {name: c, key: k, optional: true}}}]`, true},
		"envFrom, as the key must be": {``, `env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}]`, ``, `env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: k}}}], envFrom: [{configMapRef: {name: mine}}]`, false},
		"by a file":                   {`labels: {a: b}`, `env: [{name: A, value: a}]`, ``, `env: [{name: A, valueFrom: {fileKeyRef: {volumeName: v, path: p, key: k}}}]`, true},
		"by a limit":                  {``, field("metadata.name"), ``, `env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}]`, true},
	} {
		if got := Exceeding(template(test.metadata, test.source), template(test.twinMetadata, test.twin)); (len(got) > 0) != test.more {
			t.Errorf("%s: the twin has %v", name, got)
		}
	}
	sole := func(label string) map[string]any {
		sole := template(`labels: {dir: `+label+`}`, field("metadata.labels['dir']"))
		sole["spec"].(map[string]any)["volumes"] = []any{object(t, `{name: v, emptyDir: {}}`)}
		return sole
	}
	if got := Exceeding(sole("mine"), sole("others")); len(got) > 0 {
		t.Errorf("of its own volume it has %v", got)
	}
	// What is asked for again and again is taken in once.
	var from []string
	for i := range 300 {
		from = append(from, fmt.Sprintf("{configMapRef: {name: c%d}}", i))
	}
	wide := template("", `env: [{name: A, value: "`+strings.Repeat("$(x)", 3000)+`"}], envFrom: [`+strings.Join(from, ", ")+"]")
	if got := Exceeding(wide, wide); len(got) > 0 {
		t.Errorf("it has more than itself: %v", got)
	}
	// Each of many variables of two others is taken in once.
	var env []string
	for i := range 60 {
		env = append(env, fmt.Sprintf("{name: A%d, value: $(A%d)$(B%d)}, {name: B%d, value: $(A%d)$(B%d)}", i, i-1, i-1, i, i-1, i-1))
	}
	deep := template("", "env: ["+strings.Join(env, ", ")+", {name: A, value: $(A59)$(B59)}]")
	if got := Exceeding(deep, deep); len(got) > 0 {
		t.Errorf("it has more than itself: %v", got)
	}
}

// A device of a ResourceClaim is the container's that asks for it.
func TestClaimedDevices(t *testing.T) {
	template := func(containers string) map[string]any {
		return map[string]any{"spec": object(t, `{containers: [`+containers+`], resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]}`)}
	}
	const user, root = `name: user, securityContext: {runAsUser: 1000, runAsGroup: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`, `name: root`
	const claim = `, resources: {claims: [{name: gpu}]}`
	source := template(`{` + user + claim + `}, {` + root + `}`)
	if got := Exceeding(source, source); len(got) > 0 {
		t.Errorf("it has more than itself: %v", got)
	}
	if got := strings.Join(Exceeding(source, template(`{`+user+`}, {`+root+claim+`}`)), ""); !strings.Contains(got, "device  of a ResourceClaim of template gpus for container root") {
		t.Errorf("another container has it: %q", got)
	}
}

// Variables by which a path is made stay what they are.
func TestPathByAnnotation(t *testing.T) {
	for _, strategy := range []Strategy{Replace, Strategic} {
		from := source(t, tracked)
		template := templateOf(from.Object["spec"].(map[string]any))
		overlay(template, object(t, `{metadata: {annotations: {dir: mine, other: x}}, spec: {volumes: [{name: v, persistentVolumeClaim: {claimName: db}}]}}`))
		container := template["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)
		overlay(container, object(t, `{env: [{name: DIR, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['dir']"}}}, {name: A, value: data/$(DIR)}], volumeMounts: [{name: v, mountPath: /v, subPathExpr: $(A)}]}`))
		w := wanted(t, `{}`)
		w.Strategy = strategy
		twin, err := Build(from, w)
		if err != nil {
			t.Fatal(err)
		}
		annotations, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "template", "metadata", "annotations")
		if annotations["dir"] != "mine" || annotations["other"] != "" {
			t.Errorf("%s: its annotations are %v", strategy, annotations)
		}
		for _, override := range []string{`{template: {metadata: {annotations: {dir: null}}}}`, `{template: {metadata: {annotations: {dir: others}}}}`} {
			w := wanted(t, override)
			w.Strategy = strategy
			_, err := Build(from, w)
			refused(t, err, "a path in a volume by metadata.annotations['dir']")
		}
	}
}

// What is no template at all has no privileges that make a twin panic.
func TestMalformed(t *testing.T) {
	for _, spec := range []string{
		`containers: [{volumeMounts: [{name: {a: b}, subPathExpr: 3}]}], volumes: [{name: {a: b}, persistentVolumeClaim: 3}]`,
		`containers: [{env: x, volumeMounts: [{name: v, subPathExpr: $(A)}]}], volumes: [{name: v, nfs: {}}]`,
		`tolerations: x, containers: [{resources: [], livenessProbe: [], lifecycle: x}]`,
		`containers: [{env: [{name: {a: b}, value: 3}, 7], resources: {claims: [{name: {a: b}}], limits: 3}, volumeMounts: [{name: v, subPathExpr: $(A)}]}], volumes: [{name: v, nfs: {}}], resourceClaims: [{name: {a: b}}]`,
	} {
		template := map[string]any{"metadata": 3, "spec": object(t, "{"+spec+"}")}
		if got := Exceeding(template, template); len(got) > 0 {
			t.Errorf("%s: it has more than itself: %v", spec, got)
		}
	}
}
