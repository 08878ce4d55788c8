package twin

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// MaxDiff is how long a diff may be, in bytes.
const MaxDiff = 8 << 10

// Diff is what the spec of a twin has that the source's does not have, and the other way round: a line for each
// field, with its path, what it is in the source and what in the twin, sorted, of at most MaxDiff bytes. Values of
// variables that may be secrets, by their names or what they look like, are not shown; nor are the source's replicas,
// which change all the time where something scales it.
func Diff(source, twin *unstructured.Unstructured) string {
	d := differ{}
	from, _ := source.Object["spec"].(map[string]any)
	to, _ := twin.Object["spec"].(map[string]any)
	from, to = maps.Clone(from), maps.Clone(to)
	d.lines = append(d.lines, fmt.Sprintf("replicas: the source's -> %v", to["replicas"]))
	delete(from, "replicas")
	delete(to, "replicas")
	d.objects("", from, to)
	slices.Sort(d.lines)
	text := strings.Join(d.lines, "\n")
	const more = "\n…"
	if len(text) <= MaxDiff {
		return text
	}
	text = text[:MaxDiff-len(more)]
	for !utf8.ValidString(text) {
		text = text[:len(text)-1]
	}
	return text + more
}

type differ struct{ lines []string }

// redacted stands for a value that is not shown.
const redacted = "(not shown)"

var (
	secretName = regexp.MustCompile(`(?i)pass|pwd|secret|token|key|cred|auth|cert|private|salt|dsn|conn|sign|session|cookie|jwt|webhook|psk|last-applied|(pin|pw)$|pw_`)
	// secretValue: with a password in a URL, or a token for its user; in a header, JSON, also in a text of its own, YAML, XML, a list of
	// settings or of variables, or behind a flag; hashed, or a token by how it begins; or as a token looks: long, and without words.
	secretValue = regexp.MustCompile(`://([^\s@]*:[^\s@]*|[^\s/@]{20,})@|(?i:bearer |basic |(pass(word|wd|phrase)?|pwd|secret|token|key|auth(orization)?|sig(nature)?)[\\"']*\s*[:=>]|-----begin)` +
		`|name[\\"']*\s*:\s*[\\"']*[\w.-]*(?i:pass|pwd|secret|token|key|cred|auth)[\w.-]*[\\"']*\s*[,\n]\s*[\\"']*value` +
		`|(^|\s)--?[\w.-]*(?i:pass|pwd|secret|token|key|cred|auth)[\w.-]*\s+[^\s-]|(^|\s)(-\w*u|--user)[\s=]*[^\s:]*:\S|\$(2[abxy]|apr1|argon2\w*)\$|\b(gh[opsru]_|github_pat_|glpat-|xox[a-z]-|eyJ[\w-]+\.eyJ)|^[A-Za-z0-9+/_=.-]{32,}$`)
	// secretClient are programs to which -p or -a is a password.
	secretClient = regexp.MustCompile("(^|[\\s/;&|\"'(`])((mysql|mongo)(admin|check|dump|export|files|import|restore|sh|show|stat|top)?|mariadb(-admin|-dump|-import)?|redis-cli|sshpass)(\\s|$)")
	shortFlag    = regexp.MustCompile(`(^|\s)-[pa]\s*\S`)
	// userFlag is before user:password.
	userFlag = regexp.MustCompile(`^(-\w*u|--user)$`)
	// secretAddress: user:password@database, or user/password@database. So looks an image by its digest, too.
	secretAddress = regexp.MustCompile(`:[^\s:/@"'][^\s@]*@|(^|[\s="'])[\w$#]+/[^\s/@]+@`)
)

func (d *differ) compare(path string, source, twin any, secret bool) {
	s, sourceIs := source.(map[string]any)
	t, twinIs := twin.(map[string]any)
	if sourceIs && twinIs {
		d.objects(path, s, t)
		return
	}
	from, fromIs := source.([]any)
	to, toIs := twin.([]any)
	if fromIs && toIs && named(from) && named(to) {
		d.lists(path, from, to)
		return
	}
	field := path[strings.LastIndex(path, ".")+1:]
	was, is := shown(field, source, secret), shown(field, twin, secret)
	if was != is || fmt.Sprint(source) != fmt.Sprint(twin) { // which two that are not shown may be, too
		d.lines = append(d.lines, fmt.Sprintf("%s: %s -> %s", path, was, is))
	}
}

func (d *differ) objects(path string, source, twin map[string]any) {
	in := path[strings.LastIndex(path, ".")+1:]
	all := maps.Clone(source)
	maps.Copy(all, twin)
	if twin["serviceAccount"] == nil && source["serviceAccount"] == source["serviceAccountName"] {
		delete(all, "serviceAccount") // the old name of the same, which the server puts beside it again
	}
	for _, field := range slices.Sorted(maps.Keys(all)) {
		secret := isSecret(in, field, source) || isSecret(in, field, twin)
		d.compare(strings.TrimPrefix(path+"."+field, "."), source[field], twin[field], secret)
	}
}

// named says whether every element of a list has a name, by which it is found in another.
func named(list []any) bool {
	return !slices.ContainsFunc(list, func(e any) bool {
		o, _ := e.(map[string]any)
		name, _ := o["name"].(string)
		return name == ""
	})
}

func (d *differ) lists(path string, source, twin []any) {
	find := func(list []any, name any) any {
		for _, e := range objects(list) {
			if e["name"] == name {
				return e
			}
		}
		return nil
	}
	seen := map[any]bool{}
	for _, e := range append(objects(source), objects(twin)...) {
		name := e["name"]
		if seen[name] {
			continue
		}
		seen[name] = true
		d.compare(fmt.Sprintf("%s[%v]", path, name), find(source, name), find(twin, name), false)
	}
}

// shown is a value as a diff shows it.
func shown(field string, value any, secret bool) string {
	if value == nil {
		return "nothing"
	}
	if secret {
		return redacted
	}
	raw, err := json.Marshal(hide(field, value))
	if err != nil {
		return "what JSON cannot say"
	}
	return string(raw)
}

// hideArguments takes the values of flags out of a command that may be secrets by their names: --token=…, and --token ….
func hideArguments(command []any) {
	for i := range command {
		argument, _ := command[i].(string)
		flag, _, valued := strings.Cut(argument, "=")
		next := ""
		if i+1 < len(command) {
			next, _ = command[i+1].(string)
		}
		switch {
		case userFlag.MatchString(argument) && strings.Contains(next, ":"):
			command[i+1] = redacted
		case !strings.HasPrefix(flag, "-") || !secretName.MatchString(flag):
		case valued:
			command[i] = flag + "=" + redacted
		case next != "" && !strings.HasPrefix(next, "-"):
			command[i+1] = redacted
		}
	}
}

// takesSecret says whether what a command goes on with in arguments may be a secret, by both together.
func takesSecret(command, args any) bool {
	before, _ := command.([]any)
	after, _ := args.([]any)
	all := slices.Concat(before, after)
	if tellsClient(spaced(all)) {
		return true
	}
	hideArguments(all)
	return len(after) > 0 && all[len(before)] == redacted
}

// spaced is a command as a shell has it, but for quotes.
func spaced(command []any) string {
	var all []string
	for _, word := range command {
		text, _ := word.(string)
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// isOpen says whether a field has keys that anybody may choose.
func isOpen(field string) bool {
	return slices.Contains([]string{"annotations", "labels", "options", "volumeAttributes"}, field)
}

// isSecret says whether a field of an object, which is in a field itself, may be a secret by its name, or by what is beside it.
func isSecret(in, field string, of map[string]any) bool {
	switch {
	case isOpen(in):
		return secretName.MatchString(field)
	case field == "value":
		name, _ := of["name"].(string)
		return secretName.MatchString(name)
	case field == "args":
		return takesSecret(of["command"], of["args"])
	}
	return false
}

// hide takes out of the value of a field what may be a secret.
func hide(in string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for field, below := range v {
			if out[field] = hide(field, below); isSecret(in, field, v) {
				out[field] = redacted
			}
		}
		return out
	case []any:
		command := in == "command" || in == "args"
		if command && tellsClient(spaced(v)) {
			return []any{redacted}
		}
		out := make([]any, len(v))
		for i := range v {
			out[i] = hide(in, v[i])
		}
		if command {
			hideArguments(out)
		}
		return out
	case string:
		if tells(in, v) {
			return redacted
		}
	}
	return value
}

// tells says whether the text of a field may have a secret in it.
func tells(field, text string) bool {
	image := field == "image" || field == "reference"
	return secretValue.MatchString(text) || !image && secretAddress.MatchString(text) || tellsClient(text)
}

// tellsClient says whether a command gives a password to a program by a short flag.
func tellsClient(command string) bool {
	return secretClient.MatchString(command) && shortFlag.MatchString(command)
}
