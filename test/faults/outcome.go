package faults

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// outcome is what a run has come to: the value of every field by the role of its object and
// its path, without what is different in every run.
type outcome map[string]string

// volatile fields of metadata are different in every run.
var volatile = []string{"resourceVersion", "uid", "creationTimestamp", "deletionTimestamp", "managedFields", "selfLink", "generateName"}

// times are RFC 3339.
var times = regexp.MustCompile(`\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})`)

// hide hides what is different in every run from a name.
func (r *run) hide(s string) string { return hider(r.stage.Namespace, r.words)(s) }

// said is what is written like a hash anywhere in a run.
func (r *run) said(history []Entry) vocabulary {
	out := vocabulary{}
	for _, e := range history {
		if text, err := json.Marshal(e.Object); err == nil {
			maps.Copy(out, hashesIn(string(text)))
		}
	}
	for _, w := range r.proxy.story() {
		maps.Copy(out, hashesIn(w.object.Name, w.object.Namespace))
	}
	return out
}

// mask hides what is different in every run in what an object says, and has every time say how far it is from the epoch, at
// which the manager's clock is the same in all of them: TIME is within the run and may be of a clock of the others, CLOCK is when
// the manager's has stood, and DUE is what somebody has computed, be it from when the object was created.
func (r *run) mask(s string, created time.Time) string {
	return times.ReplaceAllStringFunc(r.hide(s), func(s string) string {
		t, err := time.Parse(time.RFC3339, s)
		since := t.Sub(r.lab.epoch)
		switch {
		case err != nil:
			return s
		case !t.Before(r.begun.Truncate(time.Second)) && !t.After(r.ended):
			return fmt.Sprintf("TIME(%s)", since)
		case since == 0 || slices.Contains(r.advances, since):
			return fmt.Sprintf("CLOCK(%s)", since)
		}
		return fmt.Sprintf("DUE(%s, %s after it came)", since, t.Sub(created))
	})
}

// versions are resource versions in what is written.
var versions = regexp.MustCompile(`"resourceVersion":"\d+"`)

// payload is a hash of what a run writes in a body, without what is different in every run, and without times but the clock's.
func (r *run) payload(body string) string {
	body = versions.ReplaceAllString(r.mask(body, r.begun), "")
	body = moments.ReplaceAllStringFunc(body, func(moment string) string {
		if strings.HasPrefix(moment, "CLOCK") {
			return moment
		}
		return "TIME"
	})
	return fmt.Sprintf("%.8x", sha256.Sum256([]byte(undrawn(body))))
}

// moments are times as mask writes them.
var moments = regexp.MustCompile(`(CLOCK|DUE|TIME)\(([^,)]*)(?:, (\S+) after it came)?\)`)

// same says whether two values are, but for the times that the others' clocks may have said.
func same(a, b string) bool {
	if a == b {
		return true
	}
	x, y := moments.FindAllStringSubmatch(a, -1), moments.FindAllStringSubmatch(b, -1)
	if len(x) != len(y) || moments.ReplaceAllString(a, "") != moments.ReplaceAllString(b, "") {
		return false
	}
	for i := range x {
		told, since, old := x[i][1] == "TIME" && y[i][1] == "TIME", x[i][2] == y[i][2], x[i][3] != "" && x[i][3] == y[i][3]
		if !told && !since && !old { // what is due, or when the manager's clock stood, may come to lie within a run
			return false
		}
	}
	return true
}

// incarnations tell apart what is different in every run and must not be the same within one: an
// object and the one that took its place, and the names with a hash of each. They are numbered in
// the order in which they came, those of which objects only speak last: what could not be read may be told of.
type incarnations struct {
	uids *strings.Replacer
	// words are no hashes.
	words vocabulary
	// hashes by what stands before them in a name.
	hashes map[string]map[string]int
}

func incarnationsOf(history []Entry, role func(*unstructured.Unstructured) string, words vocabulary) *incarnations {
	in := &incarnations{words: words, hashes: map[string]map[string]int{}}
	known, of := map[types.UID]bool{}, map[string]int{}
	var pairs []string
	for _, e := range history {
		in.number(e.Object.GetName())
	}
	for _, e := range history {
		if uid := e.Object.GetUID(); !known[uid] {
			known[uid] = true
			of[role(e.Object)]++
			pairs = append(pairs, string(uid), fmt.Sprintf("UID(%s %d)", role(e.Object), of[role(e.Object)]))
		}
		if text, err := json.Marshal(unmanaged(e.Object)); err == nil {
			in.number(string(text))
		}
	}
	in.uids = strings.NewReplacer(pairs...)
	return in
}

// unmanaged is what an object says without who has written which of its fields, which is half of it and is in no outcome.
func unmanaged(u *unstructured.Unstructured) map[string]any {
	metadata, _ := u.Object["metadata"].(map[string]any)
	metadata, object := maps.Clone(metadata), maps.Clone(u.Object)
	delete(metadata, "managedFields")
	object["metadata"] = metadata
	return object
}

// names are those of objects, and what else is written like them.
var names = regexp.MustCompile(`[a-z0-9]+(-[a-z0-9]+)+`)

// number numbers the hashes in a text.
func (in *incarnations) number(text string) string {
	return names.ReplaceAllStringFunc(text, func(word string) string {
		parts := strings.Split(word, "-")
		for i, part := range parts[1:] {
			if !hash.MatchString(part) || in.words[part] {
				continue
			}
			before := strings.Join(parts[:i+1], "-")
			if in.hashes[before] == nil {
				in.hashes[before] = map[string]int{}
			}
			if in.hashes[before][part] == 0 {
				in.hashes[before][part] = len(in.hashes[before]) + 1
			}
			parts[i+1] = fmt.Sprintf("HASH%d", in.hashes[before][part])
		}
		return strings.Join(parts, "-")
	})
}

// outcome reads the outcome of a state. Every UID that was ever seen reads as the role of
// its object.
func (r *run) outcome(state State, history []Entry) outcome {
	world, role := r.lab.world, r.lab.world.Role
	in := incarnationsOf(history, role, r.words)

	out := outcome{}
	for _, u := range state {
		readable := u.DeepCopy()
		if world.Readable != nil {
			world.Readable(readable)
		}
		object := readable.Object
		for _, field := range volatile {
			unstructured.RemoveNestedField(object, "metadata", field)
		}
		if u.GetKind() == "Secret" {
			decode(object)
		}
		name := role(u)
		for i := 2; ; i++ {
			if _, taken := out[name]; !taken {
				break
			}
			name = fmt.Sprintf("%s (%d)", role(u), i)
		}
		out[name] = "there"
		flatten(out, name, object, func(s string) string { return r.mask(in.number(in.uids.Replace(s)), created(u)) })
	}
	return out
}

// decode makes the values of a Secret readable for masks.
func decode(secret map[string]any) {
	data, _, _ := unstructured.NestedStringMap(secret, "data")
	for key, value := range data {
		if decoded, err := base64.StdEncoding.DecodeString(value); err == nil {
			data[key] = string(decoded)
		}
	}
	_ = unstructured.SetNestedStringMap(secret, data, "data")
}

// flatten writes down the leaves of a value, as JSON: what is empty is not nothing, and "1" is not 1.
func flatten(out outcome, path string, value any, mask func(string) string) {
	switch v := value.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(out, path+"."+mask(key), value, mask)
		}
		if len(v) == 0 {
			out[path] = "{}"
		}
	case []any:
		for i, value := range v {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), value, mask)
		}
		if len(v) == 0 {
			out[path] = "[]"
		}
	case string:
		out[path] = encoded(mask(v))
	default:
		out[path] = encoded(v)
	}
}

func encoded(scalar any) string {
	text, err := json.Marshal(scalar)
	if err != nil {
		return fmt.Sprint(scalar)
	}
	return string(text)
}

// differences are the fields in which two outcomes differ; those that are masked are compared without what is drawn in them.
func differences(want, got outcome, masked map[string]bool) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(want)) {
		value, found := got[path]
		switch {
		case !found:
			out = append(out, fmt.Sprintf("%s: %s is not there", path, want[path]))
		case masked[path] && same(undrawn(value), undrawn(want[path])):
		case !same(value, want[path]):
			out = append(out, fmt.Sprintf("%s: %s, in the reference %s", path, value, want[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, found := want[path]; !found {
			out = append(out, fmt.Sprintf("%s: %s, in the reference nothing", path, got[path]))
		}
	}
	return out
}

// learn masks the fields in which two references differ.
func learn(a, b outcome) map[string]bool {
	masked := map[string]bool{}
	for path, value := range a {
		if other, found := b[path]; !found || !same(other, value) {
			masked[path] = true
		}
	}
	for path := range b {
		if _, found := a[path]; !found {
			masked[path] = true
		}
	}
	return masked
}

// drawn are generated names, and hashes of what is different in every run, as Kubernetes and the manager write them. A short one of
// digits alone is a number, unless it ends a name.
var drawn = regexp.MustCompile(`([0-9A-Za-z]-)?\b([0-9a-f]{16}|[bcdfghjklmnpqrstvwxz2456789]{5,10})\b`)

// numberedTwice is what has the hash of a name, and one of its own that happens to be written like that.
var numberedTwice = regexp.MustCompile(`(HASH\d+-)HASH\d+\b`)

// undrawn is a text without what is drawn.
func undrawn(text string) string {
	text = numberedTwice.ReplaceAllString(text, "${1}HASH")
	return drawn.ReplaceAllStringFunc(text, func(s string) string {
		before, after, ends := strings.Cut(s, "-")
		switch {
		case ends:
			return before + "-HASH"
		case len(s) < 16 && strings.Trim(after+before, "0123456789") == "":
			return s
		}
		return "HASH"
	})
}

// more says where two outcomes differ by more than hashes: a field of which nobody knows what it comes to must not go
// uncompared.
func more(a, b outcome, masked map[string]bool) string {
	for _, path := range slices.Sorted(maps.Keys(masked)) {
		x, y := a[path], b[path]
		if !same(undrawn(x), undrawn(y)) {
			return fmt.Sprintf("%s is %s and %s", path, cmp.Or(x, "nothing"), cmp.Or(y, "nothing"))
		}
	}
	return ""
}
