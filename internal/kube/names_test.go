package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const uid types.UID = "11111111-2222-3333-4444-555555555555"

// Objects exist under these names: whoever changes the scheme loses them.
func TestChildNameIsStable(t *testing.T) {
	tests := map[string]struct {
		max   int
		owner types.UID
		parts []string
		want  string
	}{
		"short":        {53, uid, []string{"tutorial", "app"}, "tutorial-app-bsddaqbs"},
		"cut":          {29, uid, []string{"a-rather-long-name", "application"}, "a-rather-long-name-a-tu7n7b2d"},
		"cut at dash":  {29, uid, []string{"a-name-of-nineteen-", "x"}, "a-name-of-nineteen-xolasjzk"},
		"dots":         {53, uid, []string{"v1.2.tutorial", "app"}, "v1-2-tutorial-app-dg4vidmp"},
		"another UID":  {53, "11111111-2222-3333-4444-555555555556", []string{"tutorial", "app"}, "tutorial-app-j4y663zj"},
		"another part": {53, uid, []string{"tutorial", "app2"}, "tutorial-app2-uqmips3i"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ChildName(test.max, test.owner, test.parts...); got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}

func TestNote41ChildNamesDiffer(t *testing.T) {
	seen := map[string]string{}
	for what, name := range map[string]string{
		"foo + bar-app":         ChildName(29, uid, "foo", "bar-app"),
		"foo-bar + app":         ChildName(29, uid, "foo-bar", "app"),
		"foo-bar-app":           ChildName(29, uid, "foo-bar-app"),
		"foo.bar + app":         ChildName(29, uid, "foo.bar", "app"),
		"another owner":         ChildName(29, "x", "foo", "bar-app"),
		"same start":            ChildName(29, uid, strings.Repeat("x", 60), "a"),
		"same start, other end": ChildName(29, uid, strings.Repeat("x", 60), "b"),
	} {
		if other, taken := seen[name]; taken {
			t.Errorf("%s and %s are both called %s", what, other, name)
		}
		seen[name] = what
	}
}

func FuzzChildName(f *testing.F) {
	f.Add(uint8(29), string(uid), "foo", "bar-app", "foo-bar", "app")
	f.Add(uint8(53), string(uid), "a.b", "c", "a-b", "c")
	f.Add(uint8(63), string(uid), strings.Repeat("a", 253), "x", strings.Repeat("a", 253), "y")
	f.Fuzz(func(t *testing.T, limit uint8, owner, a, b, c, d string) {
		a, c = dnsName(a, "abz09-.", 253), dnsName(c, "abz09-.", 253) // Experiments
		b, d = dnsName(b, "abz09-", 63), dnsName(d, "abz09-", 63)     // targets
		limit = 20 + limit%44
		one, other := ChildName(int(limit), types.UID(owner), a, b), ChildName(int(limit), types.UID(owner), c, d)
		if problems := validation.IsDNS1123Label(one); len(problems) > 0 || len(one) > int(limit) {
			t.Errorf("%q of at most %d: %v", one, limit, problems)
		}
		if (one == other) != (a == c && b == d) {
			t.Errorf("(%q, %q) is %q and (%q, %q) is %q", a, b, one, c, d, other)
		}
		if one != ChildName(int(limit), types.UID(owner), a, b) {
			t.Error("it is another name the second time")
		}
	})
}

// dnsName turns any text into a name of the given characters; what is such a name already
// stays as it is.
func dnsName(s, alphabet string, limit int) string {
	out := []byte(s)
	for i, c := range out {
		if strings.IndexByte("abcdefghijklmnopqrstuvwxyz0123456789", c) < 0 && strings.IndexByte(alphabet, c) < 0 {
			out[i] = alphabet[int(c)%len(alphabet)]
		}
	}
	out = out[:min(len(out), limit)]
	for i := range out { // a dot stands between letters or digits
		if out[i] == '.' && (i+1 == len(out) || !alphanumeric(out[i+1]) || i == 0 || !alphanumeric(out[i-1])) {
			out[i] = 'z'
		}
	}
	if name := strings.Trim(string(out), "-."); name != "" {
		return name
	}
	return "x"
}

func alphanumeric(c byte) bool { return c != '-' && c != '.' }

func TestNote41LabelValue(t *testing.T) {
	label := strings.Repeat("x", 63)
	tests := map[string]struct{ name, want string }{
		"short":         {"tutorial", "tutorial"},
		"dots":          {"a.b.c", "a.b.c"},
		"longest label": {label, label},
		"64":            {label + "y", label[:54] + "-2aazibzm"},
		"cut at dots":   {strings.Repeat("x", 53) + ".-.-" + label, label[:53] + "-gduwmeoh"},
		"253":           {strings.Repeat(label+".", 3) + label[:61], label[:54] + "-tztv5dts"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := LabelValue(test.name)
			if got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
			if problems := validation.IsValidLabelValue(got); len(problems) > 0 {
				t.Errorf("%q is no label: %v", got, problems)
			}
		})
	}
	if a, b := LabelValue(label+"a"), LabelValue(label+"b"); a == b {
		t.Errorf("two names are both %s", a)
	}
	for n := 1; n <= 253; n++ { // every length, with a dot or a dash at any place of a cut
		for _, pattern := range []string{"x", "x.", "x-"} {
			name := strings.Repeat(pattern, n)[:n-1] + "z"
			if problems := validation.IsValidLabelValue(LabelValue(name)); len(problems) > 0 {
				t.Errorf("%q of %q is no label: %v", LabelValue(name), name, problems)
			}
		}
	}
}

func TestNote41NamespaceName(t *testing.T) {
	long := strings.Repeat("x", 63)
	tests := map[string]struct{ name, want string }{
		"short":    {"tutorial", "tutorial"},
		"longest":  {long, long},
		"dots":     {"v1.tutorial", ChildName(63, uid, "v1.tutorial")},
		"too long": {long + "x", ChildName(63, uid, long+"x")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := NamespaceName(uid, test.name)
			if got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
			if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
				t.Errorf("%q is no namespace's name: %v", got, problems)
			}
		})
	}
}
