package twin

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/pod-security-admission/policy"
	"k8s.io/utils/ptr"
)

// withOverride builds the twin of a Deployment whose pods have some metadata and fields, with an override.
func withOverride(t *testing.T, metadata, pod, override string) (*Twin, error) {
	t.Helper()
	return Build(source(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}`+metadata+`}, spec: {`+pod+`}}}}`), wanted(t, override))
}

const hardened = `securityContext: {runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, seccompProfile: {type: RuntimeDefault}}, containers: [{name: web, image: "web:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`

func TestMorePrivilegesOfOthers(t *testing.T) {
	one := func(rest string) string { return `containers: [{name: web, image: "web:1", ` + rest + `}]` }
	over := func(rest string) string { return `{template: {spec: {` + rest + `}}}` }
	const confined = `securityContext: {appArmorProfile: {type: RuntimeDefault}}, containers: [{name: web, image: "web:1", securityContext: {capabilities: {add: [SYS_ADMIN]}}}, `
	const host = `, volumes: [{name: v, hostPath: {path: /mnt}}]`
	for name, test := range map[string]struct{ metadata, pod, override string }{
		"istio overrides":          {`, annotations: {sidecar.istio.io/inject: "true"}`, hardened, `{template: {metadata: {annotations: {proxy.istio.io/overrides: '{"containers":[{"name":"istio-proxy","image":"evil","securityContext":{"privileged":true,"runAsUser":0}}]}'}}}}`},
		"dapr":                     {``, hardened, `{template: {metadata: {annotations: {dapr.io/enabled: "true", dapr.io/app-id: x, dapr.io/sidecar-image: evil, dapr.io/env-from-secret: "P=db:password"}}}}`},
		"nri devices":              {``, hardened, `{template: {metadata: {annotations: {devices.nri.io/container.web: "[{path: /dev/sda}]"}}}}`},
		"CAP_ALL":                  {``, hardened, over(one(`securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [CAP_ALL]}}`))},
		"CAP_NET_RAW":              {``, one(`securityContext: {capabilities: {drop: [NET_RAW]}}`), over(one(`securityContext: {capabilities: {drop: [CAP_NET_RAW]}}`))},
		"AppArmor annotation lost": {`, annotations: {container.apparmor.security.beta.kubernetes.io/web: localhost/strict}`, hardened, `{template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/web: null}}}}`},
		"AppArmor, another name":   {`, annotations: {container.apparmor.security.beta.kubernetes.io/web: localhost/strict}`, hardened, strings.Replace(`{template: {spec: {`+hardened+`}}}`, "name: web", "name: web2", 1)},
		"recursiveReadOnly":        {``, one(`volumeMounts: [{name: v, mountPath: /v, readOnly: true, recursiveReadOnly: Enabled}]`) + host, over(one(`volumeMounts: [{name: v, mountPath: /v, readOnly: true}]`))},
		"bindMountOptions":         {``, one(`volumeMounts: [{name: v, mountPath: /v, bindMountOptions: [noexec, nosuid, nodev]}]`) + host, over(one(`volumeMounts: [{name: v, mountPath: /v}]`))},
		"windowsOptions":           {``, one(`securityContext: {windowsOptions: {runAsUserName: ContainerUser}}`), over(`securityContext: {windowsOptions: {gmsaCredentialSpecName: domain-admin}}`)},
		"Windows user lost":        {``, `os: {name: windows}, securityContext: {windowsOptions: {runAsUserName: ContainerUser}}, ` + one(``), over(`securityContext: {windowsOptions: null}`)},
		"pod's Windows user":       {``, `securityContext: {windowsOptions: {runAsUserName: ContainerAdministrator}}, ` + one(`securityContext: {windowsOptions: {runAsUserName: ContainerUser}}`), over(one(``))},
		"pod's gMSA":               {``, `securityContext: {windowsOptions: {gmsaCredentialSpecName: domain-admin}}, ` + one(`securityContext: {windowsOptions: {gmsaCredentialSpec: guest}}`), over(one(``))},
		"AppArmor before a pod's":  {`, annotations: {container.apparmor.security.beta.kubernetes.io/debug: unconfined}`, confined + `{name: debug, image: "d:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]`, over(confined + `{name: debug, image: "d:1", securityContext: {capabilities: {add: [SYS_ADMIN]}}}]`)},
		"AppArmor of the runtime":  {`, annotations: {container.apparmor.security.beta.kubernetes.io/web: runtime/default}`, `securityContext: {appArmorProfile: {type: Unconfined}}, ` + one(``), `{template: {metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/web: null}}}}`},
		"CAP_CHOWN not dropped":    {``, one(`securityContext: {capabilities: {drop: [CAP_CHOWN]}}`), over(one(``))},
		"low priority lost":        {``, `priorityClassName: batch-low, ` + hardened, over(`priorityClassName: null`)},
		"schedulingGroup":          {``, hardened, over(`schedulingGroup: {podGroupName: other}`)},
		"a group by a label":       {``, hardened, `{template: {metadata: {labels: {kueue.x-k8s.io/pod-group-name: other}}}}`},
		"hostIP":                   {``, one(`ports: [{containerPort: 80, hostPort: 80, hostIP: 127.0.0.1}]`), over(one(`ports: [{containerPort: 80, hostPort: 80}]`))},
		"claim of a template":      {``, one(`resources: {claims: [{name: gpu}]}`) + `, resourceClaims: [{name: gpu, resourceClaimTemplateName: gpus}]`, over(`resourceClaims: [{name: gpu, resourceClaimName: gpus}]`)},
		"CRI-O's users lost":       {`, annotations: {io.kubernetes.cri-o.userns-mode: auto}`, hardened, `{template: {metadata: {annotations: {io.kubernetes.cri-o.userns-mode: null}}}}`},
		"annotations replaced":     {`, annotations: {io.kubernetes.cri-o.userns-mode: auto}`, hardened, `{template: {metadata: {annotations: null}}}`},
		"another of Kata":          {`, annotations: {io.katacontainers.config.runtime.disable_guest_seccomp: "false"}`, hardened, `{template: {metadata: {annotations: {io.katacontainers.config.runtime.disable_guest_seccomp: "true"}}}}`},
		"control plane of RKE2":    {``, hardened, over(`tolerations: [{key: CriticalAddonsOnly, operator: Exists}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := withOverride(t, test.metadata, test.pod, test.override); err == nil {
				t.Error("it is built")
			} else {
				refused(t, err, "")
			}
		})
	}
}

// What keeps the pods of a source apart from their nodes does so with its twin's.
func TestIsolatedAsItsSource(t *testing.T) {
	const mode = "io.kubernetes.cri-o.userns-mode"
	twin, err := withOverride(t, `, annotations: {`+mode+`: auto, example.com/other: x}`, hardened, `{template: {metadata: {annotations: {a: b}}}}`)
	if err != nil {
		t.Fatal(err)
	}
	annotations, _, _ := unstructured.NestedStringMap(twin.Object.Object, "spec", "template", "metadata", "annotations")
	if len(annotations) != 2 || annotations[mode] != "auto" || annotations["a"] != "b" {
		t.Errorf("its annotations are %v", annotations)
	}
}

// What the Pod Security Standards say of CAP_ALL.
func TestCapAllByPodSecurity(t *testing.T) {
	twin, err := withOverride(t, ``, hardened, `{template: {spec: {containers: [{name: web, image: "web:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [CAP_ALL]}}}]}}}`)
	if err != nil {
		return
	}
	a, b := typed(t, object(t, `{metadata: {labels: {app: web}}, spec: {`+hardened+`}}`)), typed(t, templateOf(twin.Object.Object["spec"].(map[string]any)))
	for _, check := range policy.DefaultChecks() {
		look := check.Versions[len(check.Versions)-1].CheckPod
		if before, after := look(&a.ObjectMeta, &a.Spec), look(&b.ObjectMeta, &b.Spec); before.Allowed && !after.Allowed {
			t.Errorf("%s: the source passes, the twin does not: %s", check.ID, after.ForbiddenDetail)
		}
	}
}

// A Service of the pod of a number gets the twin's pod of that number, too: the controller gives it the label.
func TestServiceOfANumber(t *testing.T) {
	for name, selector := range map[string]map[string]string{
		"of the source": {"app": "db", "apps.kubernetes.io/pod-index": "0"}, "of any": {"apps.kubernetes.io/pod-index": "0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := wanted(t, `{}`)
			w.Services = []Service{{Name: "db-primary", Selector: selector}}
			from := strings.Replace(database, "  ordinals: {start: 5}\n", "", 1)
			twin := build(t, from, w)
			pod := labelsOfPods(twin.Object)
			// As the controller of StatefulSets makes them.
			first, last := numbers(twin.Object.Object["spec"].(map[string]any))
			pod[podIndex], pod[podName] = strconv.FormatInt(first, 10), fmt.Sprintf("%s-%d", w.Name, first)
			if first < apartBy || last != first || selects(selector, pod) || len(twin.Services) > 0 && twin.Services[0].Shared {
				t.Errorf("pods %d to %d, with labels %v, and the status says %+v", first, last, pod, twin.Services)
			}
			w.Override = object(t, `{ordinals: {start: 0}}`)
			twin = build(t, from, w)
			if len(twin.Services) != 1 || !twin.Services[0].Shared || !strings.Contains(twin.Services[0].Message, "ordinals.start") {
				t.Errorf("its pod 0 is behind Service db-primary, and the status says %+v", twin.Services)
			}
		})
	}
}

// Numbers that no Service has are found at once, however many pods are asked for, and whatever numbers Services name.
func TestServicesOfHighNumbers(t *testing.T) {
	w := wanted(t, `{}`)
	w.Replicas = ptr.To[int32](math.MaxInt32 - 2*apartBy)
	for i := range 100 {
		w.Services = append(w.Services, Service{Name: fmt.Sprintf("db-%d", i), Selector: map[string]string{"app": "db", podIndex: strconv.Itoa(math.MaxInt32 - 10*apartBy - i)}})
	}
	var twin *Twin
	took := taken(func() { twin = build(t, database, w) })
	if first, _ := numbers(twin.Object.Object["spec"].(map[string]any)); first != (math.MaxInt32-10*apartBy)/apartBy*apartBy+apartBy || took > 16<<20 {
		t.Errorf("they begin with %d, which has taken %d bytes", first, took)
	}
}

// The API server gives a source both names of its account.
func TestServiceAccountOfBothNames(t *testing.T) {
	const both = `serviceAccountName: web, serviceAccount: web, ` + hardened
	for _, override := range []string{`{template: {spec: {serviceAccountName: null, automountServiceAccountToken: false}}}`, `{template: {spec: {serviceAccount: other}}}`} {
		twin, err := withOverride(t, ``, both, override)
		if err != nil {
			continue // refused, as other accounts are
		}
		spec := templateOf(twin.Object.Object["spec"].(map[string]any))["spec"].(map[string]any)
		t.Errorf("%s: accepted, and without effect: serviceAccountName %v, serviceAccount %v", override, spec["serviceAccountName"], spec["serviceAccount"])
	}
}

// What both write is told of.
func TestSharedData(t *testing.T) {
	for _, volume := range []string{`hostPath: {path: /data}`, `nfs: {server: nas, path: /data}`, `cephfs: {monitors: [m]}`, `awsElasticBlockStore: {volumeID: v}`} {
		twin, err := withOverride(t, ``, `containers: [{name: web, image: "web:1", volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, `+volume+`}]`, `{}`)
		if err != nil {
			t.Fatal(err)
		}
		if says(twin, WarnSharedVolume) == "" {
			t.Errorf("%s: it says %+v", volume, twin.Warnings)
		}
	}
}

// No secret in a diff.
func TestDiffOfArguments(t *testing.T) {
	from := source(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}, annotations: {example.com/api-token: canary-value-1, kubectl.kubernetes.io/last-applied-configuration: canary-value-4}}, spec: {containers: [{name: web, image: "web:1", command: [web, --token=canary-value-2], args: [--api-key, canary-value-3]}]}}}}`)
	twin, err := Build(from, wanted(t, `{template: {spec: {containers: [{name: web, image: "web:2"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(Diff(from, twin.Object), "\n") {
		if strings.Contains(line, "canary-value") {
			t.Error(line)
		}
	}
}

// A variable whose name says nothing may have secrets in what it is set to.
func TestDiffOfSettings(t *testing.T) {
	for _, value := range []string{
		`{"user": "shop", "password": "hunter2"}`, `{"apiKey":"hunter2"}`, "user: shop\npassword: hunter2", `Server=db;User Id=sa;Pwd=hunter2`, `host=db PASSWORD = hunter2`, `{'secret': 'hunter2'}`,
		`{"auths": {"ghcr.io": {"auth": "hunter2"}}}`, `curl -H "Authorization: token hunter2" localhost`, "-----BEGIN PRIVATE KEY-----\nhunter2",
		`root:hunter2@tcp(db:3306)/shop`, `root:hunter2@unix(/run/db)/shop`, `--database=root:hunter2@tcp(db)/shop`, `scott/hunter2@db:1521/x`, `sqlplus -S scott/hunter2@db`, `jdbc:oracle:thin:scott/hunter2@db:1521:x`,
		`postgres://shop:ab/hunter2+ef==@db:5432/x`, `postgres://shop:/hunter2@db`, `redis://:hunter2@cache`, `:hunter2@cache:6379`, `amqps://u:hunter2@mq/x`, `jdbc:mysql://db/x?user=a&password=hunter2`,
		`curl -d "{\"password\":\"hunter2\"}" x`, `[{"name":"DB_PASSWORD","value":"hunter2"}]`, "- name: API_KEY\n  value: hunter2", `<password>hunter2</password>`,
		`mysqldump -uroot -phunter2 shop`, `exec /usr/bin/mysql -p hunter2`, `redis-cli -h x -a hunter2 ping`, `[ "$(redis-cli -a hunter2 ping)" = PONG ]`, "X=`mysql -uroot -phunter2`", `ls; sshpass -p hunter2 ssh x`,
		`exec redis-server --requirepass hunter2`, `run --api-token  hunter2 --fast`, `admin:$apr1$x$hunter2`, `admin:$2y$05$hunter2`, `admin:$argon2id$v=19$hunter2`,
		`git clone https://ghp_hunter2@github.com/x`, `https://0123456789abchunter2@sentry.example.com/7`, `curl -u admin:hunter2 https://x`, `curl --user=admin:hunter2 x`, `curl -su  admin:hunter2 x`, `curl -u :hunter2 x`, `clone with glpat-hunter2 now`, `clone with github_pat_hunter2 now`, `sends xoxb-hunter2 along`, `say eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2 twice`,
	} {
		from, to := source(t, plain), source(t, plain)
		containers, _, _ := unstructured.NestedSlice(to.Object, "spec", "template", "spec", "containers")
		containers[0].(map[string]any)["env"] = []any{map[string]any{"name": "CONFIG", "value": value}}
		containers[0].(map[string]any)["args"] = []any{"-c", value}
		_ = unstructured.SetNestedSlice(to.Object, containers, "spec", "template", "spec", "containers")
		for _, diff := range []string{Diff(from, to), Diff(to, from)} {
			if strings.Contains(diff, "hunter2") || !strings.Contains(diff, "CONFIG") {
				t.Errorf("%s is shown: %s", value, diff)
			}
		}
	}
}

// What has a name, a port or a digest in it, and no password, is shown.
func TestDiffOfAddresses(t *testing.T) {
	for field, values := range map[string][]string{
		"image": {"registry.example.com:5000/web:2@sha256:abc", "team/web@sha256:abc", "web:2@sha256:abc"},
		"workingDir": {
			"postgres://db:5432/shop", "postgres://reader@db/shop", "git@example.com:team/web.git", "ops@example.com", "10.0.0.1:80,10.0.0.2:80", "team/web", "example.com/team/web@sha256:abc",
			"go install example.com/team/web@latest", "npm install @team/web@2", "run --mode fast --listen :8080",
		},
	} {
		for _, value := range values {
			from, to := source(t, plain), source(t, plain)
			containers, _, _ := unstructured.NestedSlice(to.Object, "spec", "template", "spec", "containers")
			containers[0].(map[string]any)[field] = value
			_ = unstructured.SetNestedSlice(to.Object, containers, "spec", "template", "spec", "containers")
			if diff := Diff(from, to); !strings.Contains(diff, value) {
				t.Errorf("%s %s is not shown: %s", field, value, diff)
			}
		}
	}
}

// Arguments that are none are shown, whatever the command is called.
func TestDiffOfOrdinaryArguments(t *testing.T) {
	for command, args := range map[string]string{
		`[bash, -ceu]`: `["exec server --port 8080"]`, `[server, --max-connections=500]`: `[--fast]`, `[mysqld_exporter]`: `[-p, "9104"]`, `[mysqld]`: `[--port=3307]`,
		`[sh, -c]`: `["[ -f /ready ] && echo yes"]`,
	} {
		from, to := source(t, plain), source(t, plain)
		overlay(to.Object, object(t, `{spec: {template: {spec: {containers: [{name: web, image: "web:1", command: `+command+`, args: `+args+`}]}}}}`))
		if diff := Diff(from, to); !strings.Contains(diff, "args: nothing -> [") || strings.Contains(diff, `["`+redacted) {
			t.Errorf("%s %s is hidden: %s", command, args, diff)
		}
	}
}

// So may a variable that is called after what is asked with it, an address that is signed, and what a driver of volumes is told.
func TestDiffOfOthersSecrets(t *testing.T) {
	one := func(rest string) string { return `containers: [{name: web, image: "web:1", ` + rest + `}]` }
	for name, pod := range map[string]string{
		"a webhook":           one(`env: [{name: SLACK_WEBHOOK_URL, value: "https://hooks.example.com/services/hunter2"}]`),
		"a signed address":    one(`env: [{name: SHARE, value: "https://files.example.com/x?sv=2026&sig=hunter2"}]`),
		"signed by its parts": one(`env: [{name: SHARE, value: "https://files.example.com/x?X-Amz-Signature=hunter2"}]`),
		"a driver":            one(`volumeMounts: [{name: v, mountPath: /v}]`) + `, volumes: [{name: v, csi: {driver: smb, volumeAttributes: {password: hunter2, share: this}}}]`,
		"a short name":        one(`env: [{name: LDAP_BINDPW, value: hunter2}, {name: WIFI_PSK, value: hunter2}]`),
		"a flag before args":  one(`command: [redis-server, --requirepass], args: [hunter2]`),
		"a client's args":     one(`command: [/usr/bin/mysqldump], args: [-uroot, -phunter2, shop]`),
		"a client's command":  one(`command: [redis-cli, -a, hunter2]`),
		"an old driver":       one(`volumeMounts: [{name: v, mountPath: /v}]`) + `, volumes: [{name: v, flexVolume: {driver: x/smb, options: {password: hunter2, share: this}}}]`,
	} {
		from, to := source(t, plain), source(t, plain)
		overlay(to.Object, object(t, `{spec: {template: {spec: {`+pod+`}}}}`))
		other := source(t, plain)
		overlay(other.Object, object(t, `{spec: {template: {spec: {`+strings.ReplaceAll(strings.ReplaceAll(pod, "hunter2", "hunter3"), "this", "that")+`}}}}`))
		for _, diff := range []string{Diff(from, to), Diff(to, from), Diff(to, other)} {
			if strings.Contains(diff, "hunter") || strings.Contains(pod, "share") && !strings.Contains(diff, "this") || !strings.Contains(diff, "template.spec.") {
				t.Errorf("%s is shown: %s", name, diff)
			}
		}
	}
}

// That a value has changed which is not shown is told, whatever it is hidden for.
func TestDiffOfHiddenValues(t *testing.T) {
	from, to := source(t, plain), source(t, plain)
	for i, u := range []*unstructured.Unstructured{from, to} {
		containers, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "containers")
		containers[0].(map[string]any)["env"] = []any{map[string]any{"name": "DB", "value": fmt.Sprintf("postgres://shop:%d@db", i)}}
		_ = unstructured.SetNestedSlice(u.Object, containers, "spec", "template", "spec", "containers")
	}
	if diff := Diff(from, to); !strings.Contains(diff, "env[DB].value: ") || strings.Contains(diff, "postgres") {
		t.Errorf("it says %q", diff)
	}
}

// The server has the account of pods by two names.
func TestDiffOfAccounts(t *testing.T) {
	const pod = `serviceAccountName: web, serviceAccount: web, ` + hardened
	from := source(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: shop}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {`+pod+`}}}}`)
	twin, err := Build(from, wanted(t, `{}`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := Diff(from, twin.Object); strings.Contains(diff, "serviceAccount") {
		t.Errorf("the same account is another: %s", diff)
	}
}

// Labels that the API server gives pods when they are bound.
func TestServiceOfAZone(t *testing.T) {
	w := wanted(t, `{template: {metadata: {labels: {app: null}}}}`)
	w.Services = []Service{{Name: "web-a", Selector: map[string]string{"app": "web", "topology.kubernetes.io/zone": "a"}}}
	twin := build(t, plain, w)
	if labelsOfPods(twin.Object)["app"] != "web" || len(twin.Services) != 1 {
		t.Errorf("labels %v, Services %+v", labelsOfPods(twin.Object), twin.Services)
	}
}

// s3: the volumes of the source are not the twin's, even if the override has them from the source's YAML.
func TestVolumesOfTheSource(t *testing.T) {
	for _, claim := range []string{`volumeName: pv-7`, `selector: {matchLabels: {a: b}}`} {
		twin, err := Build(source(t, database), wanted(t, `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], `+claim+`, resources: {requests: {storage: 1Gi}}}}]}`))
		if err != nil {
			refused(t, err, "of a volumeClaimTemplate")
			continue
		}
		spec := twin.Object.Object["spec"].(map[string]any)
		t.Errorf("%s: it is built, with %v, persistentVolumeClaimRetentionPolicy %v and warnings %v", claim, spec["volumeClaimTemplates"], spec["persistentVolumeClaimRetentionPolicy"], twin.Warnings)
	}
}
