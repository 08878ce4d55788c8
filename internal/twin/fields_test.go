package twin

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// harmless are the fields of pods and their containers by which none may do more than others, with what is below them. Of a field that is not
// here, a twin's must be compared with its source's; a version of Kubernetes that brings another fails the test.
var harmless = []string{
	// The API server takes none of a template, or what a class says alone.
	"activeDeadlineSeconds", "ephemeralContainers", "overhead", "preemptionPolicy", "priority", "restartPolicy",
	// Which nodes they are on, of those that anybody may be on, and when.
	"affinity", "evictionResponders", "nodeSelector", "schedulingGates", "tolerations[].tolerationSeconds", "tolerations[].value", "topologySpreadConstraints",
	// What they are called, and how they find others.
	"dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases", "hostname", "hostnameOverride", "setHostnameAsFQDN", "subdomain",
	// What runs, and how it ends: the override chooses the image.
	"args", "command", "image", "imagePullPolicy", "lifecycle.stopSignal", "name", "os", "readinessGates", "resizePolicy", "restartPolicyRules", "securityContext.readOnlyRootFilesystem",
	"stdin", "stdinOnce", "terminationGracePeriodSeconds", "terminationMessagePath", "terminationMessagePolicy", "tty", "workingDir",
	"handler.exec", "handler.failureThreshold", "handler.grpc", "handler.httpGet.httpHeaders", "handler.httpGet.path", "handler.httpGet.port", "handler.httpGet.protocol", "handler.httpGet.scheme",
	"handler.initialDelaySeconds", "handler.periodSeconds", "handler.sleep", "handler.successThreshold", "handler.tcpSocket.port", "handler.terminationGracePeriodSeconds", "handler.timeoutSeconds",
	// What is in files and variables that are their own, beside Secrets and tokens, and how these are called there. Where paths are made of
	// variables they are compared.
	"env[].name", "env[].value", "env[].valueFrom.configMapKeyRef", "env[].valueFrom.fieldRef", "env[].valueFrom.fileKeyRef", "env[].valueFrom.resourceFieldRef",
	"env[].valueFrom.secretKeyRef.optional", "envFrom[].configMapRef", "envFrom[].prefix", "envFrom[].secretRef.optional",
	"volumeMounts[].mountPath", "volumes[].configMap", "volumes[].downwardAPI", "volumes[].emptyDir", "volumes[].image",
	"volumes[].projected.defaultMode", "volumes[].projected.defaultUser", "volumes[].projected.sources[].configMap", "volumes[].projected.sources[].downwardAPI",
	"volumes[].projected.sources[].secret.items[].mode", "volumes[].projected.sources[].secret.items[].path", "volumes[].projected.sources[].secret.items[].user", "volumes[].projected.sources[].secret.optional",
	"volumes[].secret.defaultMode", "volumes[].secret.defaultUser", "volumes[].secret.items[].mode", "volumes[].secret.items[].path", "volumes[].secret.items[].user", "volumes[].secret.optional",
	"volumes[].projected.sources[].serviceAccountToken.path", "volumes[].projected.sources[].serviceAccountToken.user",
	"volumes[].projected.sources[].clusterTrustBundle.labelSelector", "volumes[].projected.sources[].clusterTrustBundle.optional",
	"volumes[].projected.sources[].clusterTrustBundle.path", "volumes[].projected.sources[].clusterTrustBundle.user",
	"volumes[].projected.sources[].podCertificate.certificateChainPath", "volumes[].projected.sources[].podCertificate.credentialBundlePath", "volumes[].projected.sources[].podCertificate.keyPath",
	"volumes[].projected.sources[].podCertificate.keyType", "volumes[].projected.sources[].podCertificate.user",
	// What nobody but who is privileged may ask for, or what is of no use without the field beside it.
	"ports[].containerPort", "ports[].name", "ports[].protocol", "securityContext.seLinuxChangePolicy", "securityContext.sysctls[].value", "volumeMounts[].mountPropagation", "volumes[].hostPath.type",
}

// handlers are the fields of containers that have the same below them: what the node asks.
var handlers = []string{"lifecycle.postStart.", "lifecycle.preStop.", "livenessProbe.", "readinessProbe.", "startupProbe."}

// special is what it takes to see that a field is compared: what is beside it, and values that differ, where any two do not do.
var special = map[string]struct {
	beside string
	values []any
}{
	"env[].valueFrom.secretKeyRef.key":                                    {beside: `{CONTAINERS: [{name: n, env: [{name: A, valueFrom: {secretKeyRef: {name: s}}}]}]}`},
	"volumes[].secret.items[].key":                                        {beside: `{volumes: [{name: n, secret: {secretName: s}}]}`},
	"volumes[].projected.sources[].secret.items[].key":                    {beside: `{volumes: [{name: n, projected: {sources: [{secret: {name: s}}]}}]}`},
	"ports[].hostIP":                                                      {beside: `{CONTAINERS: [{name: n, ports: [{hostPort: 80}]}]}`},
	"resourceClaims[].resourceClaimTemplateName":                          {beside: `{CONTAINERS: [{name: n, resources: {claims: [{name: n}]}}], resourceClaims: [{name: n}]}`},
	"resources.claims[].name":                                             {`{CONTAINERS: [{name: n}], resourceClaims: [{name: n, resourceClaimName: gpu}]}`, []any{"n"}},
	"securityContext.capabilities.drop":                                   {values: []any{[]any{"ALL"}}},
	"securityContext.fsGroupChangePolicy":                                 {`{securityContext: {fsGroup: 7}}`, []any{"OnRootMismatch"}},
	"securityContext.runAsGroup":                                          {beside: `{CONTAINERS: [{name: n}], securityContext: {runAsUser: 7}}`},
	"securityContext.supplementalGroupsPolicy":                            {values: []any{"Strict"}},
	"tolerations[].effect":                                                {`{tolerations: [{operator: Exists}]}`, []any{"NoSchedule", "NoExecute"}},
	"tolerations[].key":                                                   {`{tolerations: [{operator: Exists}]}`, []any{"node-role.kubernetes.io/master"}},
	"tolerations[].operator":                                              {values: []any{"Exists"}},
	"volumeMounts[].bindMountOptions":                                     {values: []any{[]any{"nosuid"}}},
	"volumeMounts[].recursiveReadOnly":                                    {values: []any{"Enabled"}},
	"volumes[].projected.sources[].podCertificate.maxExpirationSeconds":   {values: []any{int64(86400), int64(86401)}},
	"volumes[].projected.sources[].serviceAccountToken.expirationSeconds": {values: []any{int64(3600), int64(3601)}},
	"volumes[].persistentVolumeClaim.readOnly":                            {beside: `{volumes: [{name: n, persistentVolumeClaim: {claimName: c}}], CONTAINERS: [{name: n, volumeMounts: [{name: n}]}]}`},
}

// around is what pods have beside the field that is looked at: something that others have, too, in a container.
const around = `{volumes: [{name: n, nfs: {server: nas, path: /}}], resourceClaims: [{name: n, resourceClaimName: gpu}],
	CONTAINERS: [{name: n, volumeMounts: [{name: n, mountPath: /n, readOnly: true}], resources: {claims: [{name: n}]}}]}`

// fieldsOf are the paths of all fields below a type that have a value of their own, with two of them.
func fieldsOf(t reflect.Type, path string, each func(path string, values ...any)) {
	switch {
	case t.Kind() == reflect.Pointer:
		fieldsOf(t.Elem(), path, each)
	case t == reflect.TypeFor[resource.Quantity]():
		each(path, "1", "2")
	case t == reflect.TypeFor[intstr.IntOrString]():
		each(path, int64(7), "a")
	case t == reflect.TypeFor[metav1.LabelSelector]():
		each(path, map[string]any{"matchLabels": map[string]any{"a": "b"}}, map[string]any{})
	case t == reflect.TypeFor[corev1.SeccompProfile](), t == reflect.TypeFor[corev1.AppArmorProfile]():
		each(path, map[string]any{"type": "Localhost", "localhostProfile": "a"}, map[string]any{"type": "Localhost", "localhostProfile": "b"})
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				fieldsOf(f.Type, strings.TrimPrefix(path+"."+name, "."), each)
			} else {
				fieldsOf(f.Type, path, each)
			}
		}
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		fieldsOf(t.Elem(), path+"[]", each)
	case t.Kind() == reflect.Slice:
		fieldsOf(t.Elem(), path, func(path string, values ...any) { each(path, []any{values[0]}, []any{values[1]}) })
	case t.Kind() == reflect.Map:
		fieldsOf(t.Elem(), path, func(path string, values ...any) {
			each(path, map[string]any{"example.com/a": values[0]}, map[string]any{"example.com/a": values[1]}, map[string]any{"example.com/b": values[0]})
		})
	case t.Kind() == reflect.Bool:
		each(path, true, false)
	case t.Kind() == reflect.String:
		each(path, "a", "b")
	default: // a number
		each(path, int64(7), int64(8))
	}
}

// put is an object with a value at a path, of lists in their first element; nil takes what is there away.
func put(object map[string]any, path string, value any) {
	field, rest, deeper := strings.Cut(path, ".")
	field, list := strings.CutSuffix(field, "[]")
	switch {
	case list:
		elements, _ := object[field].([]any)
		if len(elements) == 0 {
			elements = []any{map[string]any{}}
		}
		object[field] = elements
		put(elements[0].(map[string]any), rest, value)
	case deeper:
		if object[field] == nil {
			object[field] = map[string]any{}
		}
		put(object[field].(map[string]any), rest, value)
	case value == nil:
		delete(object, field)
	default:
		object[field] = value
	}
}

// o3: whatever field pods have, a twin's is compared with that of its source, or is known to let nobody do more.
func TestEveryFieldOfPods(t *testing.T) {
	used := map[string]bool{}
	fieldsOf(reflect.TypeFor[corev1.PodSpec](), "", func(path string, values ...any) {
		containers, of := "containers", path // of a container or of its pod
		for _, list := range []string{"initContainers", "containers"} {
			if below, is := strings.CutPrefix(path, list+"[]."); is {
				containers, of = list, below
			}
		}
		for _, handler := range handlers {
			if below, is := strings.CutPrefix(of, handler); is {
				of = "handler." + below
			}
		}
		s := special[of]
		used[of] = true
		base := object(t, strings.Replace(cmp.Or(s.beside, around), "CONTAINERS", containers, 1))
		values = append([]any{nil}, slices.Concat(s.values, values)...)
		with := func(value any) map[string]any {
			spec := runtime.DeepCopyJSON(base)
			put(spec, path, value)
			return map[string]any{"spec": spec}
		}
		compared := slices.ContainsFunc(values, func(from any) bool {
			return slices.ContainsFunc(values, func(to any) bool { return len(Exceeding(with(from), with(to))) > 0 })
		})
		i := slices.IndexFunc(harmless, func(prefix string) bool {
			return of == prefix || strings.HasPrefix(of, prefix+".") || strings.HasPrefix(of, prefix+"[]")
		})
		switch {
		case i < 0 && !compared:
			t.Errorf("%s is not compared with that of the source: a twin may have another", path)
		case i >= 0 && compared:
			t.Errorf("%s is compared, and is told to be harmless", path)
		case i >= 0:
			used[harmless[i]] = true
		}
	})
	for _, path := range slices.Concat(harmless, slices.Sorted(maps.Keys(special))) {
		if !used[path] {
			t.Errorf("no field is called %s", path)
		}
	}
}
