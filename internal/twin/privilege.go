package twin

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Privileges are what pods of a template may do that others may not, sorted: the account that they are, what of
// their node they reach, and which Secrets and volumes. A twin must have none that its source does not have
// (o3), or whoever can make a twin could run anything as anybody. Values of variables are not among them, nor ConfigMaps:
// these are no place for secrets, and another one is what a twin may be there to try.
func Privileges(template map[string]any) []string { return privilegesOf(template).sorted() }

func privilegesOf(template map[string]any) privileges {
	p := privileges{}
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	for name, value := range annotations {
		if grants(name) {
			p.add("annotation %s %s", name, hashOf(value))
		}
	}
	for name, value := range labelsOf(template) {
		if begins(name, identifying) || slices.Contains(ofGroups, name) {
			p.add("label %s %s", name, hashOf(value))
		}
	}
	spec := podOf(template)
	mounted, claims := mounts(byName(objects(spec["volumes"])), containers(spec)), byName(objects(spec["resourceClaims"]))
	p.pod(spec, mounted)
	p.devices(claims, spec) // which its containers have, too
	for _, c := range containers(spec) {
		p.context(annotations, spec, c)
		p.container(claims, c)
	}
	for _, of := range mounted {
		for _, m := range of {
			p.fields(template, m.fields)
		}
	}
	return p
}

// fields are labels and annotations that make a path in a volume: what the pods have, or that they have none.
func (p privileges) fields(template map[string]any, paths []string) {
	for _, path := range paths {
		if kind, name, is := metadataOf(path); is {
			values, _, _ := unstructured.NestedFieldNoCopy(template, "metadata", kind)
			of, _ := values.(map[string]any)
			p.add("a path in a volume by %s %s", path, hashOf(of[name]))
		}
	}
}

// metadataOf is the label or annotation that a fieldPath is of.
func metadataOf(path string) (kind, name string, is bool) {
	for _, kind := range []string{"labels", "annotations"} {
		if rest, is := strings.CutPrefix(path, "metadata."+kind+"['"); is {
			return kind, strings.TrimSuffix(rest, "']"), true
		}
	}
	return "", "", false
}

// Exceeding are the privileges of a twin's template that its source's does not have: its pods, or, as what a process does
// with a file, a capability, or a device depends on the user that it is, any one container beside each of the source's.
func Exceeding(source, twin map[string]any) []string {
	if more := slices.Concat(privilegesOf(source).without(Privileges(twin)), exposed(source, twin)); len(more) > 0 {
		return more
	}
	var more []string
	have := processes(source)
	for _, c := range processes(twin) {
		best, least := c, len(c.all)+1
		for _, s := range have {
			if n := s.lacks(c.all, least); n < least {
				best, least = s, n
			}
		}
		for _, p := range best.without(c.all) {
			more = append(more, fmt.Sprintf("%s for container %s beside what container %s of the source has", p, c.name, best.name))
		}
	}
	return more
}

// without are the privileges of another that are not among these, nor in one of them.
func (p privileges) without(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), p.covers)
}

// lacks is how many these are, and counts no further than to a limit.
func (p privileges) lacks(all []string, limit int) (n int) {
	for _, other := range all {
		if n == limit {
			return n
		}
		if !p.covers(other) {
			n++
		}
	}
	return n
}

// covers says whether a privilege is among these, or in one of them.
func (p privileges) covers(other string) bool {
	if p[other] || p[wholeOf(other)] {
		return true
	}
	for _, narrower := range []string{atAddress, unlessDropped} {
		if wider, _, one := strings.Cut(other, narrower); one && p[wider] {
			return true
		}
	}
	return slices.ContainsFunc(covering, func(c cover) bool { return p[c.have] && strings.HasPrefix(other, c.also) && other != c.but })
}

// process is a container, and what its processes may do.
type process struct {
	privileges

	name string
	// all are the privileges, sorted.
	all []string
}

// processes are the containers of a template, the first alone of those that may do the same. Secrets are not among what they have:
// whatever one container of a pod can read it can hand to the others.
func processes(template map[string]any) (all []process) {
	spec := podOf(template)
	annotations, _, _ := unstructured.NestedStringMap(template, "metadata", "annotations")
	volumes, claims, seen := byName(objects(spec["volumes"])), byName(objects(spec["resourceClaims"])), map[string]bool{}
	for _, c := range containers(spec) {
		p := privileges{}
		p.context(annotations, spec, c)
		p.devices(claims, c)
		for name, of := range mounts(volumes, []map[string]any{c}) {
			for _, v := range volumes[name] {
				files := maps.Clone(v)
				delete(files, "secret")
				delete(files, "projected")
				p.volume(files, of)
			}
		}
		of := process{privileges: p, name: nameOf(c), all: p.sorted()}
		if id := fmt.Sprintf("%q", of.all); !seen[id] { // they have text of whoever has written the override
			seen[id] = true
			all = append(all, of)
		}
	}
	return all
}

// userRoot can be any other user, too, and userAny is whom the image says, which the override chooses; so it is with groups.
const (
	userRoot, userAny     = "user root", "any user but root"
	groupAny, groupPrefix = "primary group that the image says", "primary group "
	callsAll, callsNode   = "every system call", "every system call, unless the node forbids some"
	callsDefault          = "the system calls of RuntimeDefault"
	appArmorAll           = "AppArmor Unconfined"
)

// cover is a privilege that has others in it: those that begin so, but for one.
type cover struct{ have, also, but string }

var covering = []cover{
	{have: userRoot, also: userAny}, {have: userRoot, also: "user "}, {have: userAny, also: "user ", but: userRoot},
	{have: userRoot, also: groupPrefix}, {have: groupAny, also: groupPrefix},
	{have: callsAll, also: "the system calls of "}, {have: callsNode, also: callsDefault}, {have: appArmorAll, also: "AppArmor "},
}

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func without(all, have []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(have, p) })
}

// granting are prefixes of annotations by which pods get more than their spec says: profiles, devices, identities,
// secrets, networks, and containers that are put into them, with their images and volumes.
var granting = []string{
	"admission.datadoghq.com/", "akeyless/", "appmesh.k8s.aws/secretMounts", "appmesh.k8s.aws/volumeMounts", "cdi.k8s.io/", "cni.projectcalico.org/", "config.linkerd.io/debug-image", "config.linkerd.io/init-image", "config.linkerd.io/proxy-image",
	"consul.hashicorp.com/consul-sidecar-user-volume", appArmorOf, "container.seccomp.security.alpha.kubernetes.io/", "dapr.io/", "dev.gvisor.", "devices.gke.io/", "iam.amazonaws.com/", "inject.istio.io/templates",
	"instrumentation.opentelemetry.io/", "io.containers.trace-syscall", "io.katacontainers.", "io.kubernetes.cri-o.", "k8s.ovn.org/", "k8s.v1.cni.cncf.io/", "keeper.security/",
	"kuma.io/container-patches", "kuma.io/service-account-token-volume",
	"networking.gke.io/", "org.infisical.com/", "org.systemd.property.", "ovn.kubernetes.io/", "proxy.istio.io/config",
	"proxy.istio.io/overrides",
	"seccomp.security.alpha.kubernetes.io/", "secrets-webhook.security.bank-vaults.io/", "sidecar.istio.io/bootstrapOverride", "sidecar.istio.io/proxyImage", "sidecar.istio.io/userVolume",
	"sidecar.opentelemetry.io/", "spiffe.io/", "v1.multus-cni.io/", "vault.hashicorp.com/", "vault.security.banzaicloud.io/",
}

// nodes are the ends of the domains by which runtimes and plugins of nodes know their annotations, whose names need not have anything after.
var nodes = []string{".crio.io", ".cri-o.io", ".noderesource.dev", ".nri.io"}

// grants says whether pods may get more by an annotation.
func grants(annotation string) bool {
	domain, _, _ := strings.Cut(annotation, "/")
	return begins(annotation, granting) || slices.ContainsFunc(nodes, func(end string) bool { return strings.HasSuffix(domain, end) })
}

// isolating are prefixes of annotations by which runtimes keep pods apart from their nodes. Of two nobody can tell which does so better.
var isolating = []string{"dev.gvisor.", "io.katacontainers.", "io.kubernetes.cri-o.", "seccomp-profile.crio.io", "seccomp-profile.kubernetes.cri-o.io", "userns-mode.crio.io"}

// exposed is what pods of a twin do not say of that, and those of its source do.
func exposed(source, twin map[string]any) (all []string) {
	for _, name := range lacking(source, twin) {
		if begins(name, isolating) {
			all = append(all, "no annotation "+name)
		}
	}
	return all
}

// lacking are the annotations of pods of a source that those of its twin do not have, sorted.
func lacking(source, twin map[string]any) []string {
	theirs, _, _ := unstructured.NestedStringMap(source, "metadata", "annotations")
	mine, _, _ := unstructured.NestedStringMap(twin, "metadata", "annotations")
	maps.DeleteFunc(theirs, func(name, _ string) bool { _, has := mine[name]; return has })
	return slices.Sorted(maps.Keys(theirs))
}

// appArmorOf begins the annotation that says the AppArmor profile of a container, where no field does.
const appArmorOf = "container.apparmor.security.beta.kubernetes.io/"

// appArmorBy is that profile as a field says it.
func appArmorBy(annotation string) any {
	switch file, local := strings.CutPrefix(annotation, "localhost/"); {
	case local:
		return map[string]any{"type": "Localhost", "localhostProfile": file}
	case annotation == "unconfined":
		return map[string]any{"type": "Unconfined"}
	case annotation == "runtime/default":
		return map[string]any{"type": "RuntimeDefault"}
	}
	return nil
}

// identifying are prefixes of labels by which pods get the identity of somebody, at a cloud or at each other.
var identifying = []string{"aadpodidbinding", "azure.workload.identity/", "spiffe.io/"}

// claimed is what the volumes of a StatefulSet's spec are made of, beside new room: data that is there already.
func claimed(spec map[string]any) (all []string) {
	for _, claim := range objects(spec["volumeClaimTemplates"]) {
		of, _ := claim["spec"].(map[string]any)
		for _, field := range []string{"dataSource", "dataSourceRef", "selector", "volumeName"} {
			if value := of[field]; value != nil {
				all = append(all, fmt.Sprintf("%s %s of a volumeClaimTemplate", field, hashOf(value)))
			}
		}
		if of["storageClassName"] == "" { // of which nobody makes any
			all = append(all, `storageClassName "" of a volumeClaimTemplate`)
		}
	}
	return all
}

// described are the labels and annotations of the volumes that a StatefulSet's spec makes. Some drivers copy data by them that is
// there already (trident.netapp.io/cloneFromPVC), and provisioners may be told to make paths of any.
func described(spec map[string]any) (all []string) {
	for _, claim := range objects(spec["volumeClaimTemplates"]) {
		metadata, _ := claim["metadata"].(map[string]any)
		for kind, field := range map[string]string{"label": "labels", "annotation": "annotations"} {
			values, _ := metadata[field].(map[string]any)
			for name, value := range values {
				all = append(all, fmt.Sprintf("%s %s %s of a volumeClaimTemplate", kind, name, hashOf(value)))
			}
		}
	}
	slices.Sort(all)
	return all
}

type privileges map[string]bool

func (p privileges) add(format string, args ...any) { p[fmt.Sprintf(format, args...)] = true }

func (p privileges) sorted() []string { return slices.Sorted(maps.Keys(p)) }

// account is the one that pods have without another.
const account = "default"

func (p privileges) pod(spec map[string]any, mounted map[string][]mount) {
	p.identity(spec)
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} {
		if spec[field] == true {
			p.add("%s", field)
		}
	}
	if spec["hostUsers"] != false {
		p.add("the users of the node")
	}
	// Which of two runtimes isolates better nobody can tell by their names.
	p.add("the runtime of class %q", or(spec["runtimeClassName"]))
	if or(spec["priorityClassName"]) == "" { // it may be lower than that of a class, or higher
		p.add("the priority of pods without a class")
	}
	if group, _, _ := unstructured.NestedString(spec, "schedulingGroup", "podGroupName"); group != "" {
		p.add("PodGroup %s", group)
	}
	for _, field := range []string{"priorityClassName", "nodeName", "schedulerName"} {
		if value, ok := spec[field].(string); ok && value != "" && value != "default-scheduler" {
			p.add("%s %s", field, value)
		}
	}
	for _, claim := range objects(spec["resourceClaims"]) {
		p.add("%s", resourceClaim(claim))
	}
	sysctls, _, _ := unstructured.NestedFieldNoCopy(spec, "securityContext", "sysctls")
	for _, s := range objects(sysctls) {
		p.add("sysctl %v", s["name"])
	}
	for _, toleration := range objects(spec["tolerations"]) {
		p.toleration(toleration)
	}
	for _, v := range objects(spec["volumes"]) {
		p.volume(v, mounted[nameOf(v)])
	}
}

// atAddress separates a port of a node from the one address that it is taken at.
const atAddress = " at address "

// controlPlane are the taints by which pods are kept off the nodes of the control plane, with their effects.
var controlPlane = []struct{ taint, effect string }{
	{"node-role.kubernetes.io/control-plane", "NoSchedule"}, {"node-role.kubernetes.io/master", "NoSchedule"},
	{"node-role.kubernetes.io/etcd", "NoExecute"}, {"CriticalAddonsOnly", "NoExecute"}, // k3s and RKE2
}

// toleration lets pods onto nodes; most are of nodes that are there for whoever knows their taints.
func (p privileges) toleration(of map[string]any) {
	for _, node := range controlPlane {
		if effect := or(of["effect"]); effect != "" && effect != node.effect {
			continue
		}
		if of["key"] == node.taint || or(of["key"]) == "" && of["operator"] == "Exists" {
			p.add("the nodes of the control plane, whose taint is %s", node.taint)
		}
	}
}

// identity is who the pods are.
func (p privileges) identity(spec map[string]any) {
	name, _ := spec["serviceAccountName"].(string)
	if name == "" {
		name, _ = spec["serviceAccount"].(string)
	}
	if name == "" {
		name = account
	}
	// Where nothing is said the ServiceAccount says whether, which it may change.
	if mount, said := spec["automountServiceAccountToken"].(bool); !said || mount {
		p.add("the token of ServiceAccount %s, if that has it mounted", name)
		if said {
			p.add("the token of ServiceAccount %s", name)
		}
	}
	p.add("ServiceAccount %s", name)
	for _, s := range objects(spec["imagePullSecrets"]) {
		p.add("Secret %v, to pull images", or(s["name"]))
	}
	if policy, _, _ := unstructured.NestedString(spec, "securityContext", "supplementalGroupsPolicy"); policy != "Strict" {
		p.add("the groups that the image gives its user")
	}
	groups, _, _ := unstructured.NestedSlice(spec, "securityContext", "supplementalGroups")
	if own, found, _ := unstructured.NestedFieldNoCopy(spec, "securityContext", "fsGroup"); found {
		groups = append(groups, own)
		// By which the node takes what is in volumes from the group that has it, and lets this one write there.
		p.add("the files of volumes, which are given to group %v", own)
		if policy, _, _ := unstructured.NestedString(spec, "securityContext", "fsGroupChangePolicy"); policy != "OnRootMismatch" {
			p.add("the files of volumes, which are given to group %v at each start", own)
		}
	}
	for _, group := range groups {
		p.add("group %v", group)
	}
}

// mount is of a volume in a container.
type mount struct {
	// path within a volume that others have, too, as it is told of; empty is all of it.
	path string
	// fields of the pod that the path is made of.
	fields []string
	// write says that the container may write there, and below that it may to what is mounted below.
	write, below bool
	// lacks are the options that restrict what is there, and that the mount does not have.
	lacks []string
}

// restricting are the options of mounts that take something from who uses them.
var restricting = []string{"nodev", "noexec", "nosuid"}

// byName are objects by their names.
func byName(list []map[string]any) map[string][]map[string]any {
	all := map[string][]map[string]any{}
	for _, o := range list {
		all[nameOf(o)] = append(all[nameOf(o)], o)
	}
	return all
}

// mounts are those of containers of a pod with some volumes, by the names of these.
func mounts(volumes map[string][]map[string]any, containers []map[string]any) map[string][]mount {
	all := map[string][]mount{}
	for _, c := range containers {
		made := map[string]mount{} // by expressions
		for _, m := range objects(c["volumeMounts"]) {
			name, of := nameOf(m), mount{}
			if slices.ContainsFunc(volumes[name], func(v map[string]any) bool { return sharedKind(v) != "" }) {
				of = placed(c, m, made)
			}
			of.write = m["readOnly"] != true
			of.below = of.write || m["recursiveReadOnly"] != "Enabled"
			options, _, _ := unstructured.NestedStringSlice(m, "bindMountOptions")
			of.lacks = without(restricting, options)
			all[name] = append(all[name], of)
		}
		for _, device := range objects(c["volumeDevices"]) {
			all[nameOf(device)] = append(all[nameOf(device)], mount{write: true})
		}
	}
	return all
}

func nameOf(o map[string]any) string {
	name, _ := o["name"].(string)
	return name
}

// placed says where in its volume a mount is. One that is made of variables is another wherever one of them is.
func placed(container, m map[string]any, made map[string]mount) (of mount) {
	expression, _ := m["subPathExpr"].(string)
	if expression == "" {
		if sub, _ := m["subPath"].(string); path.Clean(sub) != "." {
			of.path = strconv.Quote(path.Clean(sub))
		}
		return of
	}
	of, known := made[expression]
	if !known {
		v := variablesOf(container, expression)
		of.fields = v.fields
		if !v.written {
			of.path = fmt.Sprintf("%q of %s", expression, v.hash(container))
		}
		made[expression] = of
	}
	return of
}

var reference = regexp.MustCompile(`\$\(([^)]+)\)`)

// longestPath is more than a node mounts, in bytes. Without a bound the variables of many mounts would keep the manager busy for minutes.
const longestPath = 1 << 13

// variables are those that a text is made of, with those that they are made of.
type variables struct {
	env []map[string]any
	// at are the positions in env of a name.
	at map[string][]int
	// order is where in all what is at a position was taken in.
	order map[int]int
	// all are what they are, in the order of the text, or what else they are that is there already.
	all []any
	// outside: one is not in env, or only where some key is, and may be in envFrom.
	outside bool
	// written: one is what a file says, or a limit, which an override may make anything; or they are longer than a path may be.
	written bool
	// length of the texts that were looked through.
	length int
	// fields of the pod that they are.
	fields []string
}

func variablesOf(container map[string]any, text string) *variables {
	v := &variables{env: objects(container["env"]), at: map[string][]int{}, order: map[int]int{}}
	for i, variable := range v.env {
		v.at[nameOf(variable)] = append(v.at[nameOf(variable)], i)
	}
	v.expand(text, len(v.env))
	return v
}

func (v *variables) hash(container map[string]any) string {
	if v.outside {
		return hashOf([]any{v.all, container["envFrom"]})
	}
	return hashOf([]any{v.all})
}

// expand takes in the variables of a text as the node does: each has the value of the last before some position, or of
// envFrom; and one of an optional key that is not there has the value that it would have without that.
func (v *variables) expand(text string, before int) {
	if v.length += len(text); v.length > longestPath {
		v.written = true
		return
	}
	for _, match := range reference.FindAllStringSubmatch(text, -1) {
		at := v.at[match[1]]
		last, _ := slices.BinarySearch(at, before)
		if last == 0 {
			v.all, v.outside = append(v.all, match[1]), true
			continue
		}
		i := at[last-1]
		if order, seen := v.order[i]; seen {
			v.all = append(v.all, int64(order))
			continue
		}
		v.order[i] = len(v.all)
		v.all = append(v.all, v.env[i])
		if field, is, _ := unstructured.NestedString(v.env[i], "valueFrom", "fieldRef", "fieldPath"); is {
			v.fields = append(v.fields, field)
		}
		for _, kind := range []string{"configMapKeyRef", "secretKeyRef"} {
			if optional, _, _ := unstructured.NestedBool(v.env[i], "valueFrom", kind, "optional"); optional {
				v.expand(match[0], i)
			}
		}
		for _, kind := range []string{"fileKeyRef", "resourceFieldRef"} {
			_, is, _ := unstructured.NestedMap(v.env[i], "valueFrom", kind)
			v.written = v.written || is
		}
		value, _ := v.env[i]["value"].(string)
		v.expand(value, i)
	}
}

func or(value any) any {
	if value == nil {
		return ""
	}
	return value
}

func (p privileges) secret(name any) { p.add("Secret %v", or(name)) }

// keyIn is what separates a Secret from one of its keys.
const keyIn = ", key "

// keyOf is one key of a Secret; keysOf are those that a volume names, or the whole Secret.
func (p privileges) keyOf(name, key any) { p.add("Secret %v%s%v", or(name), keyIn, or(key)) }

func (p privileges) keysOf(name, items any) {
	named := objects(items)
	if len(named) == 0 {
		p.secret(name)
	}
	for _, item := range named {
		p.keyOf(name, item["key"])
	}
}

// What there is of a volume that others have, too: all of it, or a path.
const (
	allOf, pathIn  = ", all of it", ", path "
	toWrite        = ", to write"
	toWriteBelow   = ", to write to what is mounted below"
	withoutOptions = ", without "
)

// wholeOf is the privilege of all of a volume, or Secret, where one is of a path, or key, in it; empty where it is not.
func wholeOf(privilege string) string {
	if secret, _, is := strings.Cut(privilege, keyIn); is {
		return secret
	}
	volume, _, is := strings.Cut(privilege, pathIn)
	if !is {
		return ""
	}
	for _, more := range ofMounts {
		if strings.HasSuffix(privilege, more) {
			return volume + more
		}
	}
	return volume + allOf
}

// ofMounts are what else there is of a path.
var ofMounts = func() []string {
	all := []string{toWrite, toWriteBelow}
	for _, option := range restricting {
		all = append(all, withoutOptions+option)
	}
	return all
}()

// unlisted takes out what separates the privileges of a volume.
var unlisted = strings.NewReplacer("%", "%25", ",", "%2C")

// own are the fields of volumes that nobody else writes.
var own = []string{"name", "configMap", "downwardAPI", "emptyDir", "ephemeral", "image", "projected", "secret"}

// sharedKind is what a volume is of that others may have, too; empty for any other.
func sharedKind(v map[string]any) string {
	for kind := range v {
		if !slices.Contains(own, kind) {
			return kind
		}
	}
	return ""
}

// shared is a volume that others have, too, as it is mounted.
func (p privileges) shared(volume string, mounts []mount, readOnly bool) {
	p.add("%s", volume)
	for _, m := range mounts {
		read, of := volume+allOf, volume
		if m.path != "" {
			read = volume + pathIn + m.path
			of = read
		}
		p.add("%s", read)
		if m.write && !readOnly {
			p.add("%s", of+toWrite)
		}
		if m.below {
			p.add("%s", of+toWriteBelow)
		}
		for _, option := range m.lacks {
			p.add("%s", of+withoutOptions+option)
		}
	}
}

// volume is what one gives access to, as it is mounted.
func (p privileges) volume(v map[string]any, mounts []mount) {
	at := func(path ...string) any {
		value, _, _ := unstructured.NestedFieldNoCopy(v, path...)
		return value
	}
	if of := at("hostPath", "path"); of != nil {
		p.shared("hostPath "+unlisted.Replace(fmt.Sprint(of)), mounts, false)
	}
	if name := at("secret", "secretName"); name != nil {
		p.keysOf(name, at("secret", "items"))
	}
	if claim := at("persistentVolumeClaim", "claimName"); claim != nil {
		p.shared(fmt.Sprintf("PersistentVolumeClaim %v", claim), mounts, at("persistentVolumeClaim", "readOnly") == true)
	}
	projected, _, _ := unstructured.NestedFieldNoCopy(v, "projected", "sources")
	for _, source := range objects(projected) {
		p.projected(source)
	}
	if of, ok := v["ephemeral"].(map[string]any); ok { // new for each pod, and made of what it says
		p.add("volume ephemeral %s", hashOf(of))
	}
	for kind, source := range v {
		if slices.Contains(own, kind) || slices.Contains([]string{"hostPath", "persistentVolumeClaim"}, kind) {
			continue
		}
		// A driver, with whatever it is told: each is a privilege of its own.
		p.shared(fmt.Sprintf("volume %s %s", kind, hashOf(source)), mounts, false)
		of, _ := source.(map[string]any)
		for field, ref := range of {
			if named, ok := ref.(map[string]any); ok && strings.HasSuffix(strings.ToLower(field), "secretref") {
				p.secret(named["name"])
			}
		}
	}
}

// projected is what a source of a projected volume gives access to.
func (p privileges) projected(source map[string]any) {
	if of, ok := source["secret"].(map[string]any); ok && of["name"] != nil {
		p.keysOf(of["name"], of["items"])
	}
	if token, ok := source["serviceAccountToken"].(map[string]any); ok {
		p.add("a token for audience %q", or(token["audience"]))
		p.lasts(fmt.Sprintf("a token for audience %q", or(token["audience"])), token["expirationSeconds"], time.Hour)
	}
	for _, kind := range []string{"clusterTrustBundle", "podCertificate"} {
		if of, ok := source[kind].(map[string]any); ok {
			p.add("%s %v%v", kind, or(of["name"]), or(of["signerName"]))
			p.lasts(fmt.Sprintf("%s %v", kind, or(of["signerName"])), of["maxExpirationSeconds"], 24*time.Hour)
			if told := of["userAnnotations"]; told != nil { // by which the signer may choose what the certificate is for
				p.add("%s %v with userAnnotations %s", kind, or(of["signerName"]), hashOf(told))
			}
		}
	}
}

// lasts is how long something can be used that nobody takes back: others than the API server take a token, or a certificate, also when the
// pod is gone. One that lasts no longer than by default is no more, and times are told apart by doubling.
func (p privileges) lasts(what string, seconds any, byDefault time.Duration) {
	most, _ := seconds.(int64)
	for n := int64(byDefault.Seconds()); n > 0 && n < most; n *= 2 {
		p.add("%s for more than %d s", what, n)
	}
}

// hashOf stands for a value that is not shown.
func hashOf(value any) string { return Hash(map[string]any{"": value}) }

// usual are the capabilities that containers have unless they drop them.
var usual = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// context is what the securityContexts of a container and its pod give it: what is not denied, it has.
func (p privileges) context(annotations map[string]string, spec, of map[string]any) {
	pod, _ := spec["securityContext"].(map[string]any)
	container, _ := of["securityContext"].(map[string]any)
	effective := func(field string) any {
		if value, ok := container[field]; ok && value != nil {
			return value
		}
		return pod[field]
	}
	if container["privileged"] == true {
		p.add("privileged")
	}
	if container["allowPrivilegeEscalation"] != false {
		p.add("privilege escalation")
	}
	switch user := effective("runAsUser"); {
	case user == int64(0), user == nil && effective("runAsNonRoot") != true:
		p.add(userRoot)
	case user == nil:
		p.add(userAny)
	default:
		p.add("user %v", user)
	}
	if group := effective("runAsGroup"); group == nil { // root, unless the image says another
		p.add(groupAny)
	} else {
		p.add("%s%v", groupPrefix, group)
	}
	if mount, ok := container["procMount"].(string); ok && mount != "Default" {
		p.add("procMount %s", mount)
	}
	appArmor := container["appArmorProfile"]
	if appArmor == nil { // the API server takes the annotation before what the pod says
		appArmor = appArmorBy(annotations[appArmorOf+nameOf(of)])
	}
	if appArmor == nil {
		appArmor = pod["appArmorProfile"]
	}
	p.profiles(effective("seccompProfile"), appArmor)
	p.windows(pod["windowsOptions"], container["windowsOptions"])
	if options := effective("seLinuxOptions"); options != nil {
		p.add("seLinuxOptions %s", hashOf(options))
	} else {
		p.add("the SELinux label that the node gives")
	}
	p.capabilities(container)
}

// windows are the options of a container on a node with Windows: its own laid over its pod's, field by field, but for the account of a
// group (gMSA), both fields of which come from one of the two. Without a user it is the one of the image, which the override chooses.
func (p privileges) windows(pod, container any) {
	fields := map[string]any{}
	all, _ := pod.(map[string]any)
	own, _ := container.(map[string]any)
	maps.Copy(fields, all)
	if own["gmsaCredentialSpecName"] != nil || own["gmsaCredentialSpec"] != nil {
		delete(fields, "gmsaCredentialSpecName")
		delete(fields, "gmsaCredentialSpec")
	}
	for field, value := range own {
		if value != nil {
			fields[field] = value
		}
	}
	for field, value := range fields {
		if value != nil {
			p.add("windowsOptions %s %s", field, hashOf(value))
		}
	}
	if fields["runAsUserName"] == nil {
		p.add("the Windows user of the image")
	}
}

// profiles are what the kernel lets a container do.
func (p privileges) profiles(seccomp, appArmor any) {
	profile := func(value any) (kind, file string) {
		of, _ := value.(map[string]any)
		kind, _ = of["type"].(string)
		file, _ = of["localhostProfile"].(string)
		return kind, file
	}
	switch kind, file := profile(seccomp); kind {
	case "", "Unconfined":
		p.add(callsNode)
		if kind != "" {
			p.add(callsAll)
		}
	case "Localhost":
		p.add("the system calls of %s", file)
	default:
		p.add(callsDefault)
	}
	// Which of two profiles lets a container do more nobody can tell by their names.
	switch kind, file := profile(appArmor); kind {
	case "Localhost":
		p.add("AppArmor %s %s", kind, file)
	case "Unconfined":
		p.add(appArmorAll)
	default:
		p.add("AppArmor RuntimeDefault")
	}
}

// unlessDropped is of a capability that is dropped by its name with CAP_, which drops nothing with containerd, and the capability with
// CRI-O.
const unlessDropped = ", unless the runtime knows it by CAP_"

func (p privileges) capabilities(context map[string]any) {
	list := func(field string) (names []string) {
		all, _, _ := unstructured.NestedFieldNoCopy(context, "capabilities", field)
		elements, _ := all.([]any)
		for _, e := range elements {
			if name, is := e.(string); is { // not null, which the API server takes for a name of nothing, with all others
				names = append(names, strings.ToUpper(name))
			}
		}
		return names
	}
	dropped := list("drop")
	for _, name := range usual {
		switch {
		case slices.Contains(dropped, "ALL"), slices.Contains(dropped, name):
		case slices.Contains(dropped, "CAP_"+name):
			p.add("capability %s%s", name, unlessDropped)
		default:
			p.add("capability %s", name)
		}
	}
	for _, name := range list("add") {
		p.add("capability %s", strings.TrimPrefix(name, "CAP_"))
	}
}

func (p privileges) container(claims map[string][]map[string]any, c map[string]any) {
	for _, port := range objects(c["ports"]) {
		if number, ok := port["hostPort"].(int64); ok && number > 0 {
			if ip := or(port["hostIP"]); ip != "" && ip != "0.0.0.0" {
				p.add("port %d of the node%s%v", number, atAddress, ip)
			} else {
				p.add("port %d of the node", number)
			}
		}
	}
	for _, variable := range objects(c["env"]) {
		if ref, ok, _ := unstructured.NestedMap(variable, "valueFrom", "secretKeyRef"); ok && ref["name"] != nil {
			p.keyOf(ref["name"], ref["key"])
		}
	}
	for _, from := range objects(c["envFrom"]) {
		if name, ok, _ := unstructured.NestedString(from, "secretRef", "name"); ok {
			p.secret(name)
		}
	}
	for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
		p.handler(c[probe])
	}
	hooks, _ := c["lifecycle"].(map[string]any)
	for _, hook := range []string{"postStart", "preStop"} {
		p.handler(hooks[hook])
	}
	p.devices(claims, c)
}

// resourceClaim is which one a pod has, or of what each pod gets one.
func resourceClaim(of map[string]any) string {
	if name := or(of["resourceClaimName"]); name != "" {
		return fmt.Sprintf("ResourceClaim %v", name)
	}
	return fmt.Sprintf("a ResourceClaim of template %v", or(of["resourceClaimTemplateName"]))
}

// handler is what the node asks somebody else than the pod for.
func (p privileges) handler(of any) {
	handler, _ := of.(map[string]any)
	for _, kind := range []string{"httpGet", "tcpSocket"} {
		request, _ := handler[kind].(map[string]any)
		if host, _ := request["host"].(string); host != "" {
			p.add("a request of its node to %s %s", host, hashOf(request))
		}
	}
}

// devices are those of a container: of its volumes, of what its pod claims, and what plugins of the node have to give.
func (p privileges) devices(claims map[string][]map[string]any, c map[string]any) {
	uses, _, _ := unstructured.NestedFieldNoCopy(c, "resources", "claims")
	for _, use := range objects(uses) {
		for _, of := range claims[nameOf(use)] {
			p.add("device %v of %s", or(use["request"]), resourceClaim(of))
		}
	}
	for _, field := range []string{"requests", "limits"} {
		all, _, _ := unstructured.NestedFieldNoCopy(c, "resources", field)
		resources, _ := all.(map[string]any)
		for name := range resources {
			if domain, _, extended := strings.Cut(name, "/"); extended && domain != "kubernetes.io" {
				p.add("resource %s", name)
			}
		}
	}
	for _, device := range objects(c["volumeDevices"]) {
		p.add("device %v", device["devicePath"])
	}
}
