package faults

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

func TestSignature(t *testing.T) {
	tests := map[string]struct{ method, path, body, want string }{
		"create":            {http.MethodPost, "/apis/example.com/v1/namespaces/run-x/toys", `{"metadata":{"name":"a-toy-abcd2345"}}`, "create toys.example.com NAMESPACE/a-toy-HASH #0"},
		"core":              {http.MethodDelete, "/api/v1/namespaces/argocd/secrets/s", "", "delete secrets argocd/s #0"},
		"status":            {http.MethodPatch, "/apis/example.com/v1/namespaces/run-x/toys/t/status", "", "patch toys.example.com/status NAMESPACE/t #0"},
		"a namespace":       {http.MethodDelete, "/api/v1/namespaces/run-x", "", "delete namespaces /NAMESPACE #0"},
		"of a namespace":    {http.MethodPut, "/api/v1/namespaces/n/finalize", "", "update namespaces/finalize /n #0"},
		"not a change":      {http.MethodGet, "/api/v1/namespaces/n", "", ""},
		"a Lease":           {http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", "", ""},
		"an event":          {http.MethodPost, "/apis/events.k8s.io/v1/namespaces/n/events", `{}`, ""},
		"a review":          {http.MethodPost, "/apis/authorization.k8s.io/v1/subjectaccessreviews", `{}`, ""},
		"not of the API":    {http.MethodPost, "/metrics", "", ""},
		"cluster-wide kind": {http.MethodPatch, "/apis/example.com/v1/toys/t", "", "patch toys.example.com /t #0"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w, counts := readWrite(httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
			hide, got := hider("run-x", nil), ""
			if counts {
				w.Name, w.Namespace = hide(w.Name), hide(w.Namespace)
				got = w.Signature()
			}
			if got != test.want {
				t.Errorf("signature is %q, not %q", got, test.want)
			}
		})
	}
}

// ask sends a request for an object of namespace n.
func ask(server, method, kind, name string) (int, metav1.Status) {
	path, body := server+"/api/v1/namespaces/n/"+kind, `{"metadata":{"name":"`+name+`"}}`
	if method != http.MethodPost {
		path += "/" + name
	}
	request, _ := http.NewRequest(method, path, strings.NewReader(body))
	response, err := http.DefaultClient.Do(request)
	var status metav1.Status
	if err != nil {
		return 0, status
	}
	defer response.Body.Close()
	_ = json.NewDecoder(response.Body).Decode(&status)
	return response.StatusCode, status
}

// alsoRefused sends what some modes refuse too while they last, and says how many were.
func alsoRefused(t *testing.T, mode Mode, code int, send func(method, kind, name string) (int, metav1.Status)) int {
	refused := 0
	for _, other := range []struct {
		method, kind, name string
		modes              []Mode
	}{
		{http.MethodPatch, "pods", "b", []Mode{Conflicts, Forbidden, Webhook}},
		{http.MethodPatch, "pods", "a", []Mode{Forbidden, Webhook}},
		{http.MethodPost, "pods", "c", []Mode{Forbidden, Webhook, Terminating, Quota}},
		{http.MethodPost, "secrets", "c", []Mode{Forbidden, Terminating}},
	} {
		want := 200
		if slices.Contains(other.modes, mode) {
			want = code
			refused++
		}
		if got, _ := send(other.method, other.kind, other.name); got != want {
			t.Errorf("%s %s %s is answered %d, not %d", other.method, other.kind, other.name, got, want)
		}
	}
	return refused
}

// Every mode that refuses or loses does to the writes what it says, and nothing to the others.
func TestProxy(t *testing.T) {
	t.Parallel()
	codes := map[Mode]int{
		Crash: 0, Lost: 0, Conflict: 409, Conflicts: 409, TooMany: 429, Internal: 500, Unavailable: 503, Reset: 0,
		Forbidden: 403, Webhook: 500, Terminating: 403, Quota: 403,
	}
	for _, mode := range Modes {
		want, is := codes[mode]
		if !is {
			continue
		}
		t.Run(string(mode), func(t *testing.T) {
			fault := Fault{mode, 2}
			t.Parallel()
			var stored, killed atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				stored.Add(1)
				fmt.Fprint(w, "{}")
			}))
			defer server.Close()
			target := Write{Verb: "create", Name: "b", Namespace: "n"}
			target.Resource.Version, target.Resource.Resource = "v1", "pods"
			p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
				Fault: fault, road: []Write{{}, target}, hide: hider("run-x", nil), kill: func() { killed.Add(1) },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			send := func(method, kind, name string) (int, metav1.Status) { return ask(p.url, method, kind, name) }
			if code, _ := send(http.MethodPost, "pods", "a"); code != 200 || p.faultOver() {
				t.Errorf("the first is answered %d, or the fault is over", code)
			}
			if code, status := send(http.MethodPost, "pods", "b"); code != want || strings.Contains(status.Message, "%") {
				t.Errorf("the second is answered %d, not %d: %v", code, want, status)
			}
			refused := alsoRefused(t, mode, want, send)
			if fault.refuses() {
				refused++
			}
			<-p.over
			before := stored.Load()
			if code, _ := send(http.MethodPost, "pods", "b"); code != 200 || stored.Load() != before+1 {
				t.Errorf("when it is over, the write is answered %d", code)
			}
			if got := p.tally().Refused; got != refused || (killed.Load() == 1) != (mode == Crash) || int(stored.Load())+refused != 7 {
				t.Errorf("%d are refused, not %d; %d are stored; killed %d times", got, refused, stored.Load(), killed.Load())
			}
		})
	}
}

// A manager that reads or sends Events for ever after the end is in a hot loop, whatever it writes.
func TestHotLoops(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{hide: hider("run-x", nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, path := range []string{"/api/v1/namespaces/n/pods/a", "/api/v1/namespaces/n/pods", "/api/v1/namespaces/n/pods?watch=true", "/apis/apps/v1", "/apis"} {
		if response, err := http.Get(p.url + path); err == nil {
			response.Body.Close()
		}
	}
	for what, steady := range map[string]bool{"/apis": true, "/apis/apps/v1": false} {
		if p.requests()[request{"GET " + what, steady}] != 1 {
			t.Errorf("%s is not counted so that steady is %t: %v", what, steady, p.requests())
		}
	}
	_, _ = ask(p.url, http.MethodPost, "events", "e")
	if _, _ = ask(p.url, http.MethodPost, "pods", "a"); len(p.requests()) != 6 || p.happenings() != 1 {
		t.Errorf("%v are requested beside a write, of them %d Events", p.requests(), p.happenings())
	}
	for name, test := range map[string]struct {
		run             run
		refused, things int
		want            string
	}{
		"nothing":                {},
		"few":                    {run: run{idly: map[request]int{{"a", true}: chatter, {"b", true}: chatter, {"c", false}: 1, {"d", false}: 1}}},
		"many":                   {run: run{idly: map[request]int{{"a", true}: chatter + 1}}, want: "O6"},
		"one again":              {run: run{idly: map[request]int{{"a", false}: 2}}, want: "O6"},
		"all the time":           {run: run{restless: true, up: true}, want: "O6"},
		"of a manager that dies": {run: run{restless: true}, want: "O5"},
		"refused as it starts":   {refused: hot, things: 20},
		"refused again":          {refused: hot + 1, things: 1, want: "O6"},
	} {
		p.refusals = map[string]int{}
		for i := range test.things * test.refused {
			p.refused(Write{Verb: "read", Name: strconv.Itoa(i % test.things)})
		}
		test.run.proxy = p
		var out findings
		got := ""
		if test.run.judgeQuiet(&out, nil); len(out) > 0 {
			got = out[0].Oracle
		}
		if got != test.want || len(out) > 1 {
			t.Errorf("%s: %v, not %q", name, out, test.want)
		}
	}
}

// What a reference writes changes something: what it comes to is another version than there was.
func TestIdleWrites(t *testing.T) {
	start := time.Now()
	kind := schema.GroupVersionResource{Resource: "pods"}
	entry := func(version string, after time.Duration) Entry {
		u := &unstructured.Unstructured{Object: map[string]any{}}
		u.SetResourceVersion(version)
		return Entry{Resource: kind, Time: start.Add(after), Object: u}
	}
	write := func(verb, version string) Write {
		return Write{Verb: verb, Resource: kind, Code: 200, version: version, sent: start.Add(time.Minute)}
	}
	for name, test := range map[string]struct {
		writes []Write
		seen   Entry
		idle   int
	}{
		"what it has become":       {[]Write{write("patch", "7")}, entry("7", 2*time.Minute), 0},
		"what it was":              {[]Write{write("patch", "7")}, entry("7", 0), 1},
		"what another is":          {[]Write{write("patch", "7")}, entry("8", 0), 0},
		"twice the same":           {[]Write{write("update", "7"), write("patch", "7")}, entry("7", 2*time.Minute), 1},
		"asked to go twice":        {[]Write{write("delete", "7"), write("delete", "7")}, entry("7", 0), 0},
		"what goes with the write": {[]Write{write("patch", ""), write("patch", "")}, entry("7", 0), 0},
	} {
		r := &run{proxy: &proxy{writes: test.writes}, record: &record{entries: []Entry{test.seen}}}
		var out findings
		if r.judgeIdle(&out); len(out) != test.idle {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// What the user asks for is his to write, and the manager's are statuses and finalizers.
func TestOverwritten(t *testing.T) {
	world := World{
		Role: func(u *unstructured.Unstructured) string { return u.GetKind() },
		Rank: func(u *unstructured.Unstructured) (int, bool) { return 0, u.GetKind() == "Toy" },
	}
	object := func(kind string, fields ...metav1.ManagedFieldsEntry) Entry {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		u.SetUID(types.UID(kind))
		u.SetManagedFields(fields)
		return Entry{Object: u}
	}
	by := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource, FieldsType: "FieldsV1",
			APIVersion: "v1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	author := by("user", "", `{"f:spec":{".":{},"f:size":{}}}`)
	finalizer := by("tool", "", `{"f:metadata":{"f:finalizers":{".":{},"v:\"toy\"":{}}}}`)
	for name, test := range map[string]struct {
		history []Entry
		found   int
	}{
		"what it may":         {[]Entry{object("Toy", author), object("Toy", author, finalizer, by("tool", "status", `{"f:status":{"f:phase":{}}}`))}, 0},
		"the author again":    {[]Entry{object("Toy", author), object("Toy", by("user", "", `{"f:spec":{"f:size":{},"f:more":{}}}`))}, 0},
		"the spec":            {[]Entry{object("Toy", author), object("Toy", author, by("tool", "", `{"f:spec":{"f:size":{}}}`))}, 1},
		"a label":             {[]Entry{object("Toy", author), object("Toy", author, by("tool", "", `{"f:metadata":{"f:finalizers":{},"f:labels":{"f:x":{}}}}`))}, 1},
		"another kind's":      {[]Entry{object("Part", author), object("Part", author, by("tool", "", `{"f:spec":{"f:size":{}}}`))}, 0},
		"what it made itself": {[]Entry{object("Toy", by("tool", "", `{"f:spec":{"f:size":{}}}`))}, 0},
		"told of once":        {[]Entry{object("Toy", author), object("Toy", author, by("tool", "", `{"f:spec":{"f:a":{}}}`)), object("Toy", author, by("tool", "", `{"f:spec":{"f:a":{}}}`))}, 1},
	} {
		r := &run{lab: &Lab{world: world}}
		if got := r.overwritten(test.history); len(got) != test.found {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What is written again and again while something is wrong is a hot loop, whatever the end is.
func TestWrittenAgain(t *testing.T) {
	status := Write{Verb: "patch", Name: "road", Subresource: "status", Code: 200}
	refused := status
	refused.Code = 409
	reference := &Reference{Writes: []Write{status, status}, events: 5}
	for name, test := range map[string]struct {
		write     Write
		n, events int
		reference *Reference
		hot       bool
	}{
		"some more than usual": {status, 2 + hot, 5 + hot, reference, false},
		"too often":            {status, 3 + hot, 0, reference, true},
		"refused":              {refused, 3 + hot, 0, reference, false}, // which is counted elsewhere
		"of a reference":       {status, 3 + hot, 6 + hot, nil, false},
		"Events without end":   {status, 2, 6 + hot, reference, true},
	} {
		r := &run{proxy: &proxy{writes: slices.Repeat([]Write{test.write}, test.n), events: test.events}}
		var out findings
		if r.judgeBusy(&out, test.reference); (len(out) == 1) != test.hot || test.hot && out[0].Oracle != "O6" {
			t.Errorf("%s: %v", name, out)
		}
	}
}

// A fault that happens several times waits for its write each time, and does not happen where the road is another.
func TestProxyRepeats(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	for name, test := range map[string]struct {
		mode   Mode
		writes []int
		road   string // the names in the reference; what is written is aaaaa
		codes  []int
		struck []int
		over   int // when it is, by the requests before
	}{
		"all":                    {road: "aaaaa", codes: []int{200, 0, 200, 0, 200}, struck: []int{2, 4}, over: 4},
		"off between":            {road: "aabaa", codes: []int{200, 0, 200, 200, 200}, struck: []int{2}, over: 3},
		"off at the write":       {road: "aaaba", codes: []int{200, 0, 200, 200, 200}, struck: []int{2}, over: 4},
		"off behind":             {road: "aaaab", codes: []int{200, 0, 200, 0, 200}, struck: []int{2, 4}, over: 4},
		"off as of itself":       {road: "abaaa", codes: []int{200, 0, 200, 200, 200}, struck: []int{2}, over: 3},
		"shorter":                {road: "aa", codes: []int{200, 0, 200, 200, 200}, struck: []int{2}, over: 3},
		"refused":                {mode: Conflict, writes: []int{2, 4}, road: "aaaaa", codes: []int{200, 409, 200, 200, 409, 200}, struck: []int{2, 4}, over: 5},
		"refused, off":           {mode: Conflict, writes: []int{2, 4}, road: "aabaa", codes: []int{200, 409, 200, 200, 200}, struck: []int{2}, over: 4},
		"for a while":            {mode: Conflicts, writes: []int{2, 4}, road: "aaaaa", codes: []int{200, 409, 200, 200, 409, 200}, struck: []int{2, 4}, over: 5},
		"killed twice":           {mode: Again, writes: []int{1, 4}, road: "aaaaa", codes: []int{0, 0, 200, 0, 0}, struck: []int{1, 2, 4, 5}, over: 5},
		"killed twice, off":      {mode: Again, writes: []int{1, 4}, road: "abaaa", codes: []int{0, 0, 200, 200, 200}, struck: []int{1, 2}, over: 3},
		"killed twice, too near": {mode: AgainSecond, writes: []int{1, 3}, road: "aaaaa", codes: []int{0, 200, 0, 200, 200}, struck: []int{1, 3}, over: 3},
	} {
		road := podsOf(test.road)
		if test.mode == "" {
			test.mode, test.writes = Lost, []int{2, 4}
		}
		plan := Plan{Fault: Fault{Mode: test.mode}}.at(test.writes...)
		p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{Fault: plan.Fault, also: plan.strikes()[1:], road: road, hide: hider("run-x", nil), kill: func() {}})
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range test.codes {
			if over := p.faultOver(); over != (i >= test.over) {
				t.Errorf("%s: before request %d it is over: %t", name, i+1, over)
			}
			if code, _ := ask(p.url, http.MethodPost, "pods", "a"); code != want {
				t.Errorf("%s: request %d is answered %d, not %d", name, i+1, code, want)
			}
			until(t, "the fault is over", func() bool { return !p.happens() })
		}
		if at := p.struckAt(); !slices.Equal(at, test.struck) {
			t.Errorf("%s: it has happened at writes %v, not %v", name, at, test.struck)
		}
		p.close()
	}
}

// podsOf is a road on which pods are created, each named by a letter.
func podsOf(names string) (road []Write) {
	seen := map[rune]int{}
	for _, c := range names {
		seen[c]++
		road = append(road, Write{Verb: "create", Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "n", Name: string(c), Occurrence: seen[c]})
	}
	return road
}

// Watches come late before the write is answered that they come late for, and that may turn out to be another than was meant.
func TestProxyLeavesWhatHasBegun(t *testing.T) {
	for _, mode := range []Mode{Coalesced, Held, Expired} {
		p, err := newProxy(&rest.Config{Host: "http://localhost"}, disturbance{Fault: Fault{mode, 1}, also: []int{2}, road: podsOf("aa"), mine: func(*unstructured.Unstructured) bool { return true }})
		if err != nil {
			t.Fatal(err)
		}
		writes := podsOf("ab") // of which the second is another than was meant
		p.delay()
		p.answered(writes[0], http.StatusOK)
		p.streams.release()
		p.delay()
		p.answered(writes[1], http.StatusOK)
		ceased := p.ceased
		p.streams.release()
		if !p.faultOver() || !p.ceased.Equal(ceased) || !slices.Equal(p.struckAt(), []int{1}) {
			t.Errorf("%s: over: %t, at writes %v, and again after %s", mode, p.faultOver(), p.struckAt(), p.ceased.Sub(ceased))
		}
		p.close()
	}
}

// A write that was on its way already when watches were to come late for it is left out, or the fault has not happened.
func TestProxyMissesWhatIsOnItsWay(t *testing.T) {
	for _, mode := range []Mode{Coalesced, Held, Expired} {
		for name, test := range map[string]struct {
			writes, struck []int
			over           bool
		}{
			"the only one":  {writes: []int{1}},
			"the last":      {writes: []int{2, 4}, struck: []int{2}, over: true},
			"one of others": {writes: []int{2, 4, 6}, struck: []int{2, 6}, over: true},
		} {
			road := podsOf("aaaaaa")
			plan := disturbance{Fault: Fault{mode, test.writes[0]}, also: test.writes[1:], road: road, mine: func(*unstructured.Unstructured) bool { return true }}
			p, err := newProxy(&rest.Config{Host: "http://localhost"}, plan)
			if err != nil {
				t.Fatal(err)
			}
			for i := range road {
				if k := i + 1; k != 1 && k != 4 { // those are on their way
					p.delay()
				}
				p.answered(road[0], http.StatusOK)
				if p.happens() {
					p.streams.release()
				}
			}
			if at := p.struckAt(); !slices.Equal(at, test.struck) || p.faultOver() != test.over {
				t.Errorf("%s, %s: it has happened at writes %v, over: %t", mode, name, at, p.faultOver())
			}
			p.close()
		}
	}
}

// The next manager that is killed is so at a write of its own, whichever it is, or not at all.
func TestProxyKillsAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	road := podsOf("aaaaa")
	for mode, codes := range map[Mode][]int{Again: {200, 0, 0, 200, 200}, AgainSecond: {200, 0, 200, 0, 200}, AgainThird: {200, 0, 200, 200, 0}, Crash: {200, 0, 200, 200, 200}} {
		f, kills := Fault{mode, 2}, 0
		plan := disturbance{Fault: f, road: road, hide: hider("run-x", nil), kill: func() { kills++ }}
		if n := f.after(); n > 0 {
			plan.also = []int{f.K + n}
		}
		p, err := newProxy(&rest.Config{Host: server.URL}, plan)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range codes {
			name := "a"
			if i > 1 {
				name = "b" // it goes another way than the reference
			}
			if code, _ := ask(p.url, http.MethodPost, "pods", name); code != want {
				t.Errorf("%s: request %d is answered %d, not %d", mode, i+1, code, want)
			}
			until(t, "the fault is over", func() bool { return !p.happens() })
		}
		if at := p.struckAt(); len(at) != kills || kills != strings.Count(fmt.Sprint(codes), " 0") || !p.faultOver() {
			t.Errorf("%s: %d are killed, at writes %v", mode, kills, at)
		}
		p.close()
	}
	for k, want := range map[int]bool{1: true, 2: true, 3: false} {
		if (Fault{AgainThird, k}).possible(&Reference{Writes: road}) != want {
			t.Errorf("of %d writes the next manager has a third after write %d: %t", len(road), k, !want)
		}
	}
}

// lead takes the Lease, or renews that of a version, and returns what it is answered.
func lead(t *testing.T, url, who, version string) int {
	t.Helper()
	method := http.MethodPut
	if version == "" {
		method = http.MethodPost
	}
	body := `{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l", "resourceVersion": "` + version + `"}, "spec": {"holderIdentity": "` + who + `"}}`
	request, _ := http.NewRequest(method, url+"/apis/coordination.k8s.io/v1/namespaces/default/leases/l", strings.NewReader(body))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode
}

// leadsOnce has one take the Lease and renew it, and another not take it.
func leadsOnce(t *testing.T, url string) {
	t.Helper()
	for _, step := range []struct {
		who, version string
		want         int
	}{{"one", "", 200}, {"other", "", 409}, {"other", "7", 409}, {"one", "1", 200}} {
		if got := lead(t, url, step.who, step.version); got != step.want {
			t.Errorf("%s leads by version %q: %d", step.who, step.version, got)
		}
	}
}

// Who stands still is answered, and what he writes when another has taken his place is told of if it is stored.
func TestProxyHalts(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(code.Load()))
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	var halted, resumed atomic.Bool
	resume := make(chan struct{})
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
		Fault: Fault{Halted, 2}, hide: hider("run-x", nil), halt: func() error { halted.Store(true); return nil },
		resume: func() error { resumed.Store(true); <-resume; return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	write := func(url string) {
		t.Helper()
		if got, err := ask(url, http.MethodPost, "pods", "a"); got != int(code.Load()) {
			t.Fatalf("a write is answered %d (%v)", got, err)
		}
	}
	leadsOnce(t, p.url)
	if write(p.url); halted.Load() {
		t.Fatal("it stands still at the first write")
	}
	if write(p.url); !halted.Load() || p.lease.taken() || p.faultOver() {
		t.Fatal("it does not stand still at the second")
	}
	p.lease.free()
	if write(p.urlOfNext); p.lease.holder() != "one" || lead(t, p.urlOfNext, "other", "2") != 200 {
		t.Fatal("another does not take its place")
	}
	for ; !resumed.Load(); time.Sleep(poll) {
	}
	write(p.urlOfNext)
	leading := p.usurpations()
	code.Store(http.StatusConflict)
	write(p.url)
	code.Store(http.StatusOK)
	write(p.url)
	if got := p.usurpations(); len(leading) > 0 || len(got) != 1 || !strings.Contains(got[0], "create pods") {
		t.Errorf("of who leads: %q, and of who has stood still: %q", leading, got)
	}
	close(resume)
	<-p.over
	if p.lease.free(); p.lease.holder() != "" {
		t.Errorf("%s leads still", p.lease.holder())
	}
}

// A manager that travels has lists of the past and watches that wait; what it reads live is true.
func TestProxyTravels(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		queries = append(queries, r.Method+" "+r.URL.RawQuery)
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	moment := 100
	var killed atomic.Int32
	pods := Write{Verb: "create", Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "n"}
	road := slices.Repeat([]Write{pods}, 4)
	for i := range road {
		road[i].Occurrence = i + 1
	}
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
		Fault: Fault{Travel, 2}, also: []int{4}, road: road, hide: hider("run-x", nil), kill: func() { killed.Add(1) },
		now:   func() (string, error) { moment++; return fmt.Sprint(moment), nil },
		about: func(k int) (schema.GroupResource, int) { return schema.GroupResource{}, k - 2 },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	get := func(path string) {
		if response, err := http.Get(p.url + "/api/v1/namespaces/n/" + path); err == nil {
			response.Body.Close()
		}
	}
	write := func() {
		if response, err := http.Post(p.url+"/api/v1/namespaces/n/pods", "application/json", strings.NewReader(`{}`)); err == nil {
			response.Body.Close()
		}
	}
	get("pods?limit=500&resourceVersion=0")
	write()
	write()
	if killed.Load() != 1 {
		t.Errorf("it was killed %d times", killed.Load())
	}
	get("pods?limit=500&resourceVersion=0")
	get("pods")                     // live
	get("pods/a?resourceVersion=0") // not a list
	begun := time.Now()
	get("pods?watch=true&resourceVersion=101")
	if waited := time.Since(begun); waited < lateness {
		t.Errorf("the watch waited %s, not %s", waited, lateness)
	}
	get("pods?limit=500&resourceVersion=0")
	get("pods?watch=true&resourceVersion=101")
	if p.happens() || p.faultOver() {
		t.Error("it is not to happen once more")
	}
	write()
	write()
	get("pods?limit=500&resourceVersion=0")
	get("pods?watch=true&resourceVersion=103")
	get("pods?limit=500&resourceVersion=0")
	want := []string{
		"GET limit=500&resourceVersion=0", "POST ", "POST ", "GET limit=500&resourceVersion=101&resourceVersionMatch=Exact",
		"GET ", "GET resourceVersion=0", "GET watch=true&resourceVersion=101", "GET limit=500&resourceVersion=0",
		"GET watch=true&resourceVersion=101", "POST ", "POST ", "GET limit=500&resourceVersion=103&resourceVersionMatch=Exact",
		"GET watch=true&resourceVersion=103", "GET limit=500&resourceVersion=0",
	}
	if diff := cmp.Diff(want, queries); diff != "" {
		t.Errorf("what the API server was asked (-want +got):\n%s", diff)
	}
	if tally := p.tally(); tally.Rewritten != 2 || tally.Waited != 2 || killed.Load() != 2 || !p.faultOver() {
		t.Errorf("tally: %+v, %d are killed, over: %t", tally, killed.Load(), p.faultOver())
	}
}

// A manager that still does something by the past that it was shown is left in it.
func TestProxyTravelsOnWhileBusy(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
		Fault: Fault{Travel, 1}, hide: hider("run-x", nil), kill: func() {}, now: func() (string, error) { return "7", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	get := func(path string) {
		if response, err := http.Get(p.url + "/api/v1/namespaces/n/" + path); err == nil {
			response.Body.Close()
		}
	}
	_, _ = ask(p.url, http.MethodPost, "pods", "a")
	go get("pods?watch=true&resourceVersion=7")
	for begun := time.Now(); time.Since(begun) < 2*lateness; time.Sleep(stillness / 5) {
		get("pods/a")
		if p.faultOver() {
			t.Fatalf("it is back after %s", time.Since(begun))
		}
	}
	select {
	case <-p.over:
	case <-time.After(lateness):
		t.Error("it is not back when it does nothing any more")
	}
}

// When one kind is behind, the others are as they are.
func TestProxyTravelsOneKind(t *testing.T) {
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		queries = append(queries, r.URL.RawQuery)
		fmt.Fprint(w, "{}")
	}))
	defer server.Close()
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
		Fault: Fault{Behind, 1}, hide: hider("run-x", nil), held: schema.GroupResource{Resource: "pods"}, kill: func() {},
		now: func() (string, error) { return "7", nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	_, _ = ask(p.url, http.MethodPost, "pods", "a")
	for _, kind := range []string{"pods", "secrets"} {
		if response, err := http.Get(p.url + "/api/v1/namespaces/n/" + kind + "?resourceVersion=0"); err == nil {
			response.Body.Close()
		}
	}
	if diff := cmp.Diff([]string{"", "resourceVersion=7&resourceVersionMatch=Exact", "resourceVersion=0"}, queries); diff != "" {
		t.Errorf("what the API server was asked (-want +got):\n%s", diff)
	}
}

// What is refused of reads is what the mode says, from its write on.
func TestProxyRefusesReads(t *testing.T) {
	t.Parallel()
	const once, list, informer, watch, other = "pods/a", "pods", "pods?resourceVersion=0", "pods?watch=true&sendInitialEvents=true", "secrets/a"
	for mode, want := range map[Mode]map[string]int{
		Unread:     {once: 500, list: 200, informer: 200, watch: 200, other: 200},
		Unreadable: {once: 403, list: 403, informer: 200, watch: 200, other: 200},
		Blind:      {once: 200, list: 200, informer: 403, watch: 403, other: 200},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
			defer server.Close()
			var killed atomic.Int32
			p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
				Fault: Fault{mode, 2}, hide: hider("run-x", nil), held: schema.GroupResource{Resource: "pods"}, kill: func() { killed.Add(1) },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			expect := func(when string, want map[string]int) (refused int) {
				for _, path := range []string{once, list, informer, watch, other} {
					response, err := http.Get(p.url + "/api/v1/namespaces/n/" + path)
					if err != nil {
						t.Fatal(err)
					}
					response.Body.Close()
					if response.StatusCode != max(want[path], http.StatusOK) {
						t.Errorf("%s %s is answered %d, not %d", when, path, response.StatusCode, want[path])
					}
					if want[path] > http.StatusOK {
						refused++
					}
				}
				return refused
			}
			expect("before its write", nil)
			_, _ = ask(p.url, http.MethodPost, "pods", "a")
			expect("after another write", nil)
			_, _ = ask(p.url, http.MethodPost, "pods", "b")
			refused := expect("after its write", want)
			<-p.over
			expect("when it is over", nil)
			if got := p.tally().Refused; got != refused || (killed.Load() == 1) != (mode == Blind) {
				t.Errorf("%d are refused, not %d, and it was killed %d times", got, refused, killed.Load())
			}
			reads := []schema.GroupResource{{Resource: "pods"}, {Resource: "secrets"}}
			if got := p.looked(); !slices.Equal(got[0], reads) || !slices.Equal(got[1], reads) {
				t.Errorf("what was read live: %v", got)
			}
		})
	}
}

// A read is refused where both references have it, and of what is watched each kind has its turn.
func TestUnread(t *testing.T) {
	pods, secrets := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "secrets"}
	reference := &Reference{
		Writes: make([]Write, 3), watched: map[schema.GroupResource]bool{pods: true, secrets: true},
		reads: inBoth(map[int][]schema.GroupResource{1: {secrets, pods}, 2: {secrets}, 3: {pods}}, map[int][]schema.GroupResource{1: {pods, secrets}, 2: {pods}}),
	}
	if n := len(Every([]Mode{Unread, Unreadable}, Workload{}, reference)); n != 2 {
		t.Errorf("%d plans of reads", n)
	}
	for k, want := range map[int]schema.GroupResource{1: secrets, 2: pods, 3: secrets} {
		if got := reference.held(Fault{Blind, k}); got != want {
			t.Errorf("at write %d %s cannot be listed, not %s", k, got, want)
		}
	}
	if got := reference.held(Fault{Unreadable, 1}); got != secrets {
		t.Errorf("after write 1 %s cannot be read, not %s", got, secrets)
	}
}

// event is an event of a watch of Toys.
func event(kind, name, version string) string {
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":"v1","kind":"Toy","metadata":{"namespace":"run-x","name":%q,"resourceVersion":%q}}}`+"\n", kind, name, version)
}

// told reads what a manager was told: type, name and version of every event.
func told(lines string) []string {
	var out []string
	for line := range strings.Lines(lines) {
		var f frame
		if json.Unmarshal([]byte(line), &f) == nil {
			_ = f.object.UnmarshalJSON(f.Object)
			out = append(out, strings.TrimSpace(string(f.Type)+" "+f.object.GetName()+" "+f.object.GetResourceVersion()))
		}
	}
	return out
}

// toys serves watches of Toys: a, then, once something was written, b and changes of both.
func toys(t *testing.T, end string, written <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			fmt.Fprint(w, "{}")
			return
		}
		if accept := r.Header.Get("Accept"); accept != "application/json" {
			t.Errorf("it is asked for %s", accept)
		}
		fmt.Fprint(w, event("ADDED", "a", "1")+end)
		w.(http.Flusher).Flush()
		<-written
		fmt.Fprint(w, event("ADDED", "b", "2")+event("MODIFIED", "b", "3")+event("MODIFIED", "a", "4"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
}

// watching is a watch of Toys.
func watching(t *testing.T, server string) *bufio.Reader {
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"/api/v1/toys?watch=true&sendInitialEvents=true", nil)
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf, application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return bufio.NewReader(response.Body)
}

// read reads events and says what they are.
func read(from *bufio.Reader, n int) []string {
	var lines strings.Builder
	for range n {
		line, err := from.ReadString('\n')
		if err != nil {
			break
		}
		lines.WriteString(line)
	}
	return told(lines.String())
}

// The modes of watches do to the events what they say.
func TestProxyDelays(t *testing.T) {
	t.Parallel()
	const end = `{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Toy","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	initial := []string{"ADDED a 1", "BOOKMARK  1"}
	tests := map[Mode]struct {
		want  []string
		tally Tally
	}{
		Coalesced: {[]string{"ADDED b 3", "MODIFIED a 4"}, Tally{Held: 3, Coalesced: 1}},
		Held:      {[]string{"ADDED b 2", "MODIFIED b 3", "MODIFIED a 4"}, Tally{Held: 3}},
		Expired:   {[]string{"ERROR"}, Tally{Ended: 1}},
	}
	for mode, test := range tests {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			written := make(chan struct{})
			server := httptest.NewServer(toys(t, end, written))
			defer server.Close()
			p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
				Fault: Fault{mode, 1}, hide: hider("run-x", nil), held: schema.GroupResource{Resource: "toys"},
				mine: func(u *unstructured.Unstructured) bool { return u.GetNamespace() == "run-x" },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer p.close()
			stream := watching(t, p.url)
			if diff := cmp.Diff(initial, read(stream, 2)); diff != "" {
				t.Errorf("what was there (-want +got):\n%s", diff)
			}
			response, err := http.Post(p.url+"/api/v1/namespaces/run-x/toys", "application/json", strings.NewReader(`{}`))
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			begun := time.Now()
			close(written)
			if diff := cmp.Diff(test.want, read(stream, len(test.want))); diff != "" {
				t.Errorf("what came (-want +got):\n%s", diff)
			}
			if mode == Expired {
				if line, err := stream.ReadString('\n'); err == nil || p.faultOver() {
					t.Errorf("the watch goes on: %s", line)
				}
				again := []string{"ADDED a 1", "BOOKMARK  1", "ADDED b 2", "ADDED b 2", "MODIFIED b 3", "MODIFIED b 3", "MODIFIED a 4", "MODIFIED a 4"}
				if diff := cmp.Diff(again, read(watching(t, p.url), len(again))); diff != "" {
					t.Errorf("what comes then (-want +got):\n%s", diff)
				}
				test.tally.Doubled = 3
			} else if late := time.Since(begun); late < lateness {
				t.Errorf("it came after %s, not %s", late, lateness)
			}
			if tally := p.tally(); tally != test.tally || !p.faultOver() {
				t.Errorf("tally: %+v; over: %t", tally, p.faultOver())
			}
		})
	}
}

// What happens several times is about the kind of each, and lasts each time.
func TestProxyIsAboutAnotherKind(t *testing.T) {
	t.Parallel()
	for _, mode := range []Mode{Held, Expired, Unreadable} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			happensTwice(t, mode)
		})
	}
}

// telling is an API server whose watches tell one line, when there is one.
func telling(lines <-chan string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			fmt.Fprint(w, "{}")
			return
		}
		w.(http.Flusher).Flush()
		select {
		case line := <-lines:
			fmt.Fprint(w, line)
		case <-r.Context().Done():
		}
	}
}

// sender asks a server, and leaves open what it answers.
func sender(t *testing.T, server string) func(method, path string) *http.Response {
	return func(method, path string) *http.Response {
		t.Helper()
		request, _ := http.NewRequestWithContext(t.Context(), method, server+"/api/v1/"+path, strings.NewReader("{}"))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
}

// until waits for what comes true by itself.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(startLimit); !is(); time.Sleep(poll) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to this: %s", what)
		}
	}
}

// happensTwice lets a mode happen at a write about toys, and at the next about pods.
func happensTwice(t *testing.T, mode Mode) {
	kinds, told := []string{"toys", "pods"}, make(chan string, 1)
	server := httptest.NewServer(telling(told))
	defer server.Close()
	toy := Write{Verb: "create", Namespace: "run-x", Occurrence: 1}
	toy.Resource.Version, toy.Resource.Resource = "v1", "toys"
	road := []Write{toy, toy}
	road[1].Occurrence = 2
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
		Fault: Fault{mode, 1}, also: []int{2}, road: road, hide: func(s string) string { return s },
		mine:  func(*unstructured.Unstructured) bool { return true },
		about: func(k int) (schema.GroupResource, int) { return schema.GroupResource{Resource: kinds[k-1]}, 0 },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	send := sender(t, p.url)
	for i, kind := range kinds {
		stream := send(http.MethodGet, kind+"?watch=true")
		send(http.MethodPost, "namespaces/run-x/toys")
		begun, want := time.Now(), "ERROR"
		if mode != Expired {
			want = fmt.Sprintf("ADDED a %d", i+1)
			told <- event("ADDED", "a", fmt.Sprint(i+1))
		}
		for _, read := range kinds {
			if code := send(http.MethodGet, read).StatusCode; (code == http.StatusForbidden) != (mode == Unreadable && read == kind) {
				t.Errorf("at write %d a read of %s is answered %d", i+1, read, code)
			}
		}
		if got := read(bufio.NewReader(stream.Body), 1); !slices.Equal(got, []string{want}) {
			t.Errorf("the watch of %s tells %v, not %s", kind, got, want)
		}
		stream.Body.Close()
		if late := time.Since(begun); mode == Held && late < lateness {
			t.Errorf("%s came after %s, not %s", kind, late, lateness)
		}
		if mode == Expired { // it is over when all that has ended is watched again
			send(http.MethodGet, kind+"?watch=true").Body.Close()
			// One that the proxy takes for open is to be watched again, too, when it ends at the next write.
			until(t, "the watches are closed", func() bool { p.streams.mu.Lock(); defer p.streams.mu.Unlock(); return len(p.streams.open) == 0 })
		}
		until(t, "the fault is over", func() bool { return !p.happens() })
	}
	if at := p.struckAt(); !slices.Equal(at, []int{1, 2}) || !p.faultOver() {
		t.Errorf("it has happened at writes %v; over: %t", at, p.faultOver())
	}
}

// The event of a write that a watch ends at is not seen, as early as it comes: the kind is listed anew.
func TestProxyExpiresBeforeTheEvent(t *testing.T) {
	written := make(chan struct{})
	watches := toys(t, "", written)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isWatch(r) {
			close(written)
			time.Sleep(stillness)
		}
		watches(w, r)
	}))
	defer server.Close()
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{
		Fault: Fault{Expired, 1}, hide: hider("run-x", nil), mine: func(*unstructured.Unstructured) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	stream := watching(t, p.url)
	read(stream, 1)
	response, err := http.Post(p.url+"/api/v1/namespaces/run-x/toys", "application/json", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if diff := cmp.Diff([]string{"ERROR"}, read(stream, 1)); diff != "" {
		t.Errorf("what came (-want +got):\n%s", diff)
	}
}

func TestCoalesce(t *testing.T) {
	tests := map[string]struct{ events, want []string }{
		"nothing":         {nil, nil},
		"a new one":       {[]string{"ADDED a 1", "MODIFIED a 2", "MODIFIED a 3"}, []string{"ADDED a 3"}},
		"a change":        {[]string{"MODIFIED a 1", "MODIFIED a 2"}, []string{"MODIFIED a 2"}},
		"an end":          {[]string{"MODIFIED a 1", "DELETED a 2"}, []string{"DELETED a 2"}},
		"came and went":   {[]string{"ADDED a 1", "ADDED b 2", "DELETED a 3"}, []string{"ADDED b 2"}},
		"went and came":   {[]string{"DELETED a 1", "ADDED a 2"}, []string{"MODIFIED a 2"}},
		"came once more":  {[]string{"ADDED a 1", "DELETED a 2", "ADDED a 3"}, []string{"ADDED a 3"}},
		"in their order":  {[]string{"MODIFIED a 1", "MODIFIED b 2", "MODIFIED a 3"}, []string{"MODIFIED b 2", "MODIFIED a 3"}},
		"went for good":   {[]string{"DELETED a 1", "ADDED a 2", "DELETED a 3"}, []string{"DELETED a 3"}},
		"each on its own": {[]string{"DELETED a 1", "ADDED b 2"}, []string{"DELETED a 1", "ADDED b 2"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var frames []frame
			for _, e := range test.events {
				part := strings.Fields(e)
				var f frame
				if err := json.Unmarshal([]byte(event(part[0], part[1], part[2])), &f); err != nil {
					t.Fatal(err)
				}
				_ = f.object.UnmarshalJSON(f.Object)
				frames = append(frames, f)
			}
			var got []string
			for _, f := range coalesce(frames) {
				got = append(got, string(f.Type)+" "+f.object.GetName()+" "+f.object.GetResourceVersion())
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Only what goes back within a cycle does.
func TestBackward(t *testing.T) {
	toy := func(version, rank, generation, observed int64) Entry {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy", "status": map[string]any{
			"rank": rank, "conditions": []any{map[string]any{"type": "Ready", "observedGeneration": observed}},
		}}}
		u.SetUID("a")
		u.SetGeneration(generation)
		return Entry{Version: version, Object: u}
	}
	others := func(version, observed int64, conditions ...string) Entry {
		e := toy(version, 0, 3, 0)
		unstructured.RemoveNestedField(e.Object.Object, "status")
		var told []any
		for _, name := range conditions {
			told = append(told, map[string]any{"type": name, "observedGeneration": observed})
		}
		_ = unstructured.SetNestedSlice(e.Object.Object, told, "status", "conditions")
		return e
	}
	generation := func(u *unstructured.Unstructured) string { return fmt.Sprint(u.GetGeneration()) }
	takesBack := func(_ *unstructured.Unstructured, condition string) bool { return condition == "Synced" }
	forbids := func(before, after *unstructured.Unstructured) string {
		if before.GetGeneration() != after.GetGeneration() {
			return "another cycle"
		}
		a, _, _ := unstructured.NestedInt64(before.Object, "status", "rank")
		b, _, _ := unstructured.NestedInt64(after.Object, "status", "rank")
		if b > a+1 {
			return "a step is left out"
		}
		return ""
	}
	tests := map[string]struct {
		world   World
		history []Entry
		want    int
	}{
		"forward":                   {World{}, []Entry{toy(1, 1, 1, 1), toy(2, 1, 1, 1), toy(3, 2, 1, 1)}, 0},
		"back":                      {World{}, []Entry{toy(1, 1, 1, 1), toy(2, 2, 1, 1), toy(3, 1, 1, 1)}, 1},
		"back in the next cycle":    {World{Cycle: generation}, []Entry{toy(1, 2, 1, 1), toy(2, 1, 2, 2)}, 0},
		"back in the next, for all": {World{}, []Entry{toy(1, 2, 1, 1), toy(2, 1, 2, 2)}, 1},
		"back within a cycle":       {World{Cycle: generation}, []Entry{toy(1, 2, 2, 2), toy(2, 1, 2, 2)}, 1},
		"what the world forbids":    {World{Cycle: generation, Forbids: forbids}, []Entry{toy(1, 1, 1, 1), toy(2, 3, 1, 1), toy(3, 0, 2, 2)}, 1},
		"less observed":             {World{}, []Entry{toy(1, 1, 2, 2), toy(2, 1, 2, 1)}, 1},
		"observed before it was":    {World{}, []Entry{toy(1, 1, 1, 2)}, 1},
		"without a rank":            {World{}, []Entry{others(1, 2, "Ready"), others(2, 3, "Ready"), others(3, 3, "Ready", "Synced")}, 0},
		"less without a rank":       {World{}, []Entry{others(1, 3, "Ready"), others(2, 1, "Ready"), others(3, 0, "Ready"), others(4, 99, "Ready")}, 3},
		"less after it was gone":    {World{}, []Entry{others(1, 2, "Ready"), others(2, 2), others(3, 1, "Ready")}, 1},
		"nothing of what it saw":    {World{}, []Entry{others(1, 0, "Ready"), others(2, 0)}, 0},
		"gone":                      {World{}, []Entry{others(1, 3, "Ready", "Synced"), others(2, 3, "Ready"), others(3, 3, "Ready")}, 1},
		"gone as it may":            {World{TakesBack: takesBack}, []Entry{others(1, 3, "Ready", "Synced"), others(2, 3, "Ready"), others(3, 3)}, 1},
		"gone with what it saw":     {World{}, []Entry{others(1, 2, "Ready", "Synced"), others(2, 3, "Ready")}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.world.Role = func(*unstructured.Unstructured) string { return "Toy" }
			test.world.Rank = func(u *unstructured.Unstructured) (int, bool) {
				rank, ok, _ := unstructured.NestedInt64(u.Object, "status", "rank")
				return int(rank), ok
			}
			r := &run{lab: &Lab{world: test.world}}
			if got := r.backward(test.history); len(got) != test.want {
				t.Errorf("%d findings, not %d: %v", len(got), test.want, got)
			}
		})
	}
}

// Changes of all kinds are judged in the order in which they were stored.
func TestBroken(t *testing.T) {
	entry := func(version int64, verb watch.EventType, uid string) Entry {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy"}}
		u.SetUID(types.UID(uid))
		return Entry{Verb: verb, Version: version, Object: u}
	}
	told := &record{entries: []Entry{entry(1, watch.Added, "a"), entry(4, watch.Added, "b"), entry(2, watch.Modified, "a"), entry(3, watch.Deleted, "a")}}
	both := &record{entries: append(told.entries, entry(5, watch.Added, "a"))}
	alone := map[string]func([]Entry) string{"alone": func(history []Entry) string {
		if n := len(StateOf(history)); n > 1 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	}}
	tests := map[string]struct {
		record *record
		breaks []string
		want   int
	}{
		"one after the other": {told, nil, 0},
		"two":                 {both, nil, 1},
		"by the user":         {both, []string{"alone"}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &run{lab: &Lab{world: World{Invariants: alone}}, workload: Workload{Breaks: test.breaks}}
			if got := r.broken(test.record.history()); len(got) != test.want {
				t.Errorf("%d findings, not %d: %v", len(got), test.want, got)
			}
		})
	}
}

// What goes because the manager has asked for that is told from what it finds going, and of two objects of one name each is for itself.
func TestAscribed(t *testing.T) {
	now := metav1.Now()
	entry := func(version int64, verb watch.EventType, uid string, going bool) Entry {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy"}}
		u.SetUID(types.UID(uid))
		u.SetResourceVersion(fmt.Sprint(version))
		if going {
			u.SetDeletionTimestamp(&now)
		}
		return Entry{Verb: verb, Version: version, Object: u}
	}
	deleted := map[deletion]bool{}
	for _, answer := range []string{
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"a","kind":"toys","uid":"at once"}}`,
		`{"kind":"Toy","metadata":{"uid":"ours","resourceVersion":"6","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["x"]}}`,
		`{"kind":"Toy","metadata":{"uid":"theirs","resourceVersion":"8","deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["x"]}}`,
		`{"kind":"ToyList","metadata":{"resourceVersion":"11"},"items":[{"metadata":{"uid":"of many","resourceVersion":"5"}}]}`,
		"it is something else",
	} {
		for _, d := range deletionsIn([]byte(answer)) {
			deleted[d] = true
		}
	}
	history := ascribed([]Entry{
		entry(1, watch.Added, "at once", false), entry(2, watch.Added, "ours", false), entry(3, watch.Added, "theirs", false),
		entry(4, watch.Added, "gone", false), entry(5, watch.Added, "of many", false), entry(6, watch.Modified, "ours", true),
		entry(7, watch.Modified, "theirs", true), entry(8, watch.Modified, "theirs", true), entry(9, watch.Deleted, "at once", false),
		entry(10, watch.Deleted, "ours", true), entry(11, watch.Deleted, "of many", false), entry(12, watch.Deleted, "theirs", true),
		entry(13, watch.Deleted, "gone", false),
	}, deleted)
	var own []int64
	for n, e := range history {
		if e.Own {
			own = append(own, e.Version)
		}
		fresh := slices.Clone(history[:n+1])
		for i := range fresh {
			fresh[i].state = nil
		}
		if known, found := StateOf(history[:n+1]), StateOf(fresh); !slices.Equal(known, found) {
			t.Errorf("after %d there is %v, not %v", e.Version, known, found)
		}
	}
	if want := []int64{6, 9, 10, 11}; !slices.Equal(own, want) {
		t.Errorf("the manager's are %v, not %v", own, want)
	}
}

// What has happened unseen, because the API server was restarted and knows no older moment, is told with the resource
// versions at which it did: what happened before and after it is of other kinds.
func TestRecorderTellsWhenItHappened(t *testing.T) {
	const now = 40
	was := map[string]map[int]string{ // UIDs by names and resource versions
		"road":  {10: "old", 14: "old", 15: "old", 17: "", 20: "new", 25: ""},
		"other": {11: "other", 12: "other"},
		"still": {9: "still"},
	}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		version, only := now, strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
		if r.URL.Query().Get("resourceVersionMatch") == "Exact" {
			_, _ = fmt.Sscan(r.URL.Query().Get("resourceVersion"), &version)
		}
		var items []string
		for name, versions := range was {
			last := 0
			for v := range versions {
				if v <= version {
					last = max(last, v)
				}
			}
			if uid := versions[last]; uid != "" && (only == "" || only == name) {
				items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"n","uid":%q,"resourceVersion":"%d"}}`, name, uid, last))
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"%d"},"items":[%s]}`, version, strings.Join(items, ","))
	}))
	defer server.Close()
	client, err := dynamic.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "toys"}
	r := &recorder{world: World{Run: (*unstructured.Unstructured).GetNamespace}, runs: map[string]*record{}}
	story := r.begin("n")
	k := &recorded{recorder: r, resource: resource, client: client.Resource(resource), live: map[types.UID]*unstructured.Unstructured{}}
	for name, of := range map[string]struct{ uid, version string }{"road": {"old", "10"}, "still": {"still", "9"}} {
		k.saw(watch.Added, &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"name": name, "namespace": "n", "uid": of.uid, "resourceVersion": of.version,
		}}})
	}
	if err := k.list(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range story.history() {
		got = append(got, fmt.Sprintf("%d %s %s", e.Version, e.Verb, e.Object.GetUID()))
	}
	want := []string{"9 ADDED still", "10 ADDED old", "11 ADDED other", "12 MODIFIED other", "14 MODIFIED old", "15 MODIFIED old", "17 DELETED old"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	if asked > 12 {
		t.Errorf("it took %d lists", asked)
	}
}

// What the manager writes and is of no run is an orphan, and what is taken from a run afterwards stays in it.
func TestStrays(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "toys"}
	other := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "tools"}
	world := World{
		Kinds: []schema.GroupVersionResource{resource},
		Run:   func(u *unstructured.Unstructured) string { return u.GetAnnotations()["run"] },
	}
	toy := func(name, run string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy"}}
		u.SetNamespace("n")
		u.SetName(name)
		u.SetUID(types.UID("uid-" + name))
		u.SetAnnotations(map[string]string{"run": run})
		return u
	}
	write := func(resource schema.GroupVersionResource, name, subresource string, code int) Write {
		return Write{Verb: "create", Resource: resource, Subresource: subresource, Name: name, Code: code, object: types.NamespacedName{Namespace: "n", Name: name}}
	}
	drawn := func(name string) Write {
		w := write(resource, "", "", 201)
		w.generated = name
		return w
	}
	rec := &recorder{world: world, runs: map[string]*record{}}
	r := &run{lab: &Lab{world: world}, record: rec.begin("run-x"), proxy: &proxy{writes: []Write{
		write(resource, "ours", "", 201), write(resource, "lost", "", 201), write(resource, "changed", "", 200), write(resource, "refused", "", 409),
		write(resource, "lost", "token", 201), write(other, "tool", "", 201), drawn("ours"), drawn("lost"),
	}}}
	rec.begin("run-y")
	rec.happened(watch.Added, resource, toy("ours", "run-x"))
	rec.happened(watch.Added, resource, toy("lost", ""))
	rec.happened(watch.Modified, resource, toy("ours", ""))
	rec.happened(watch.Deleted, resource, toy("ours", ""))
	if got := r.strays(); len(got) != 4 || !strings.Contains(got[0], "/lost ") || !strings.Contains(got[1], "/changed ") {
		t.Errorf("what belongs to no run: %q", got)
	}
	var verbs []watch.EventType
	for _, e := range r.record.history() {
		verbs = append(verbs, e.Verb)
	}
	if !slices.Equal(verbs, []watch.EventType{watch.Added, watch.Modified, watch.Deleted}) {
		t.Errorf("what was seen of an object that says of its run no more: %v", verbs)
	}
}

// What is somebody else's is not written, whatever is done to it; of a name that was given up another may be the manager's.
func TestTrespasses(t *testing.T) {
	resource := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "toys"}
	world := World{
		Kinds:  []schema.GroupVersionResource{resource},
		Run:    func(*unstructured.Unstructured) string { return "run-x" },
		Role:   (*unstructured.Unstructured).GetName,
		Others: func(u *unstructured.Unstructured) bool { return u.GetLabels()["owner"] == "" },
	}
	rec := &recorder{world: world, runs: map[string]*record{}}
	r := &run{lab: &Lab{world: world}, record: rec.begin("run-x"), proxy: &proxy{}}
	for name, owners := range map[string][]string{"ours": {"us"}, "theirs": {""}, "given-up": {"", "us"}} {
		for _, owner := range owners {
			u := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy"}}
			u.SetName(name)
			u.SetUID(types.UID(name + owner))
			u.SetLabels(map[string]string{"owner": owner})
			rec.happened(watch.Added, resource, u)
		}
	}
	for _, verb := range []string{"patch", "delete"} {
		for _, name := range []string{"ours", "theirs", "given-up"} {
			r.proxy.writes = append(r.proxy.writes, Write{Verb: verb, Resource: resource, Name: name, Code: 200, object: types.NamespacedName{Name: name}})
		}
	}
	r.proxy.writes = append(r.proxy.writes, Write{Verb: "create", Resource: resource, Name: "theirs", Code: 409, object: types.NamespacedName{Name: "theirs"}})
	got := r.trespasses()
	if len(got) != 2 || !strings.HasPrefix(got[0], "patch ") || !strings.HasPrefix(got[1], "delete ") || strings.Contains(fmt.Sprint(got), "of ours") {
		t.Errorf("what is written of others: %q", got)
	}
	if r.lab.world.Others = nil; len(r.trespasses()) > 0 {
		t.Error("where the world says nothing of that, something is somebody else's")
	}
}

// The name that the API server gives an object is known from its answer, which the manager has as it was.
func TestGeneratedNames(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"metadata":{"name":"a-x7k2p"},"message":"whole"}`)
	}))
	defer server.Close()
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{hide: hider("run-x", nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for _, name := range []string{"", "named"} {
		if code, answer := ask(p.url, http.MethodPost, "pods", name); code != http.StatusCreated || answer.Message != "whole" {
			t.Errorf("the answer is %d: %v", code, answer)
		}
	}
	if got := p.story(); len(got) != 2 || got[0].generated != "a-x7k2p" || got[0].Name != "" || got[1].generated != "" || got[1].Name != "named" {
		t.Errorf("what was created: %+v", got)
	}
}

// An object is named by a body in the encoding that a client of its kind sends.
func TestNameIn(t *testing.T) {
	var built bytes.Buffer
	object := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &built); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{built.String(): "a", `{"metadata":{"name":"b"}}`: "b", "": "", "{": ""} {
		if got := nameIn([]byte(body)); got != want {
			t.Errorf("%q names %q, not %q", body, got, want)
		}
	}
}

// A run that is given up because its fault has not happened is late, and hangs no more when that happens right then.
func TestGivenUpBeforeItsFault(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }))
	defer server.Close()
	target := Write{Verb: "create", Name: "a", Namespace: "n"}
	target.Resource.Version, target.Resource.Resource = "v1", "pods"
	p, err := newProxy(&rest.Config{Host: server.URL}, disturbance{Fault: Fault{Internal, 1}, road: []Write{target}, hide: hider("run-x", nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	r := &run{proxy: p, begun: time.Now().Add(-time.Minute)}
	if !r.hopeless(time.Second, time.Hour, false) || r.hung {
		t.Errorf("it is not given up, or hangs (%t)", r.hung)
	}
	if _, _ = ask(p.url, http.MethodPost, "pods", "a"); !p.faultOver() || r.hung {
		t.Errorf("the fault is not over, or it hangs (%t)", r.hung)
	}
	if r.hopeless(time.Second, time.Hour, false) {
		t.Error("it is given up although it may yet come to its end")
	}
	if !r.hopeless(time.Second, time.Second, false) || !r.hung {
		t.Errorf("it is not given up, or does not hang (%t)", r.hung)
	}
}

// Who goes on takes a seat even if there is none, and then nobody else begins.
func TestSeats(t *testing.T) {
	s := newSeats(1, nil)
	s.take()
	s.leave()
	s.take()
	s.retake()
	s.leave()
	began := make(chan struct{})
	go func() {
		s.take()
		close(began)
	}()
	select {
	case <-began:
		t.Error("there are two on one seat")
	case <-time.After(50 * time.Millisecond):
	}
	s.leave()
	<-began
}

// A sweep goes on where another one of the same manager ended.
func TestJournal(t *testing.T) {
	dir := t.TempDir()
	path, binary := filepath.Join(dir, "record"), filepath.Join(dir, "manager")
	passed, failed := Plan{Workload: Workload{Name: "toy"}, Fault: Fault{Crash, 1}}, Plan{Workload: Workload{Name: "toy"}, Fault: Fault{Crash, 2}}
	for i, content := range []string{"one", "one", "another"} {
		if err := os.WriteFile(binary, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(path, binary)
		if err != nil {
			t.Fatal(err)
		}
		if j.has(passed) != (i == 1) || j.has(failed) {
			t.Errorf("of %q it says %q", content, slices.Collect(maps.Keys(j.passed)))
		}
		j.add(Verdict{Plan: passed})
		j.add(Verdict{Plan: failed, Findings: []Finding{{"O1", "bad"}}})
		j.close()
	}
}

// A run of several faults that breaks something is played again by the next sweep, although each of them passes by itself.
func TestJournalKeepsNothingOfWhatFailsTogether(t *testing.T) {
	path, w := filepath.Join(t.TempDir(), "record"), Workload{Name: "w"}
	defer func(was int) { *inOne = was }(*inOne)
	*inOne = 2
	var last []Plan
	for range 2 {
		j, err := openJournal(path, "faults_test.go")
		if err != nil {
			t.Fatal(err)
		}
		trial := trialOf(t, []Mode{Crash}, nil, false, 1, j)
		last = trial.Plans(0, w, &Reference{Writes: make([]Write, 6)})
		for _, p := range last {
			broken := p.Fault.K == 1
			for _, point := range p.points() {
				trial.Told(Verdict{Plan: point, planned: planned{Plan: point, apart: broken}})
			}
		}
		j.close()
	}
	if len(last) != 1 || !slices.Equal(last[0].writes(), []int{1, 4}) {
		t.Errorf("played again is %v, not what failed together", last)
	}
}

// What is installed is part of what has passed.
func TestJournalReadsFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "rbac", "more"), 0o755); err != nil {
		t.Fatal(err)
	}
	hashes := map[string]bool{}
	for _, content := range []string{"one", "another"} {
		if err := os.WriteFile(filepath.Join(dir, "rbac", "more", "role.yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		j, err := openJournal(filepath.Join(dir, "record"), filepath.Join(dir, "rbac"))
		if err != nil {
			t.Fatal(err)
		}
		j.close()
		hashes[j.programs] = true
	}
	if _, err := openJournal(filepath.Join(dir, "record"), filepath.Join(dir, "none")); len(hashes) != 2 || err == nil {
		t.Errorf("%d hashes of two installations; one that is not there: %v", len(hashes), err)
	}
}

func TestPart(t *testing.T) {
	all, played := make([]Workload, 7), 0
	for _, part := range []string{"1/3", "2/3", "3/3"} {
		some, err := partOf(all, part)
		if played += len(some); err != nil || len(some) < 2 {
			t.Errorf("part %s has %d: %v", part, len(some), err)
		}
	}
	if played != len(all) {
		t.Errorf("the parts have %d of %d", played, len(all))
	}
	for _, part := range []string{"0/3", "4/3", "x"} {
		if _, err := partOf(all, part); err == nil {
			t.Errorf("%s is a part", part)
		}
	}
}

func TestWantedWrites(t *testing.T) {
	for list, want := range map[string][]int{"": nil, "3": {3}, "3,9,15": {3, 9, 15}} {
		if ks, err := wantedWrites(list); err != nil || !slices.Equal(ks, want) {
			t.Errorf("%q: %v, %v", list, ks, err)
		}
	}
	for _, list := range []string{"0", "x", "3,", "9,3", "3,3"} {
		if ks, err := wantedWrites(list); err == nil {
			t.Errorf("%q: %v", list, ks)
		}
	}
}

// Whatever the number of faults in a run, each write has its own, and those of a run are apart.
func TestCoupled(t *testing.T) {
	for _, mode := range Modes {
		for writes := range 20 {
			for n := 1; n <= 5; n++ {
				coupled(t, mode, writes, n)
			}
		}
	}
}

func coupled(t *testing.T, mode Mode, writes, n int) {
	t.Helper()
	plans := []Plan(nil)
	for k := range writes {
		plans = append(plans, Plan{Fault: Fault{mode, k + 1}})
	}
	times := map[int]int{}
	for _, p := range Coupled(plans, n) {
		points := p.points()
		if len(points) > n || len(points) > 1 && (mode == Restart || mode == Halted) {
			t.Errorf("%s: %d are in a run, of which %d may be", mode, len(points), n)
		}
		for i, point := range points {
			times[point.Fault.K]++
			if i > 0 && point.Fault.K-points[i-1].Fault.K < apart+p.Fault.after() {
				t.Errorf("%s: of %d writes, %d in a run: %v", mode, writes, n, p)
			}
		}
		if all := p.strikes(); !slices.IsSorted(all) || len(all) != len(points)*(1+min(1, p.Fault.after())) {
			t.Errorf("%s: at %v it happens at %v", mode, p.list(), all)
		}
	}
	for k := range writes {
		if times[k+1] != 1 {
			t.Errorf("%s: of %d writes, %d in a run: %d times at write %d", mode, writes, n, times[k+1], k+1)
		}
	}
}

// What a run of several kills did not come to is played after it, in a run again.
func TestCredit(t *testing.T) {
	w := Workload{Name: "w"}
	reference := &Reference{Writes: make([]Write, 20)}
	for name, test := range map[string]struct{ writes, struck, left []int }{
		"all":   {writes: []int{3, 9, 15}, struck: []int{3, 9, 15}},
		"first": {writes: []int{3, 9, 15}, struck: []int{3}, left: []int{9, 15}},
		"two":   {writes: []int{3, 9, 15}, struck: []int{3, 9}, left: []int{15}},
	} {
		plan := Plan{Workload: w, Fault: Fault{Mode: Crash}}.at(test.writes...)
		tr := &trial{report: &Report{played: map[string]map[Mode]*progress{}}}
		tr.expect(plan)
		left := tr.credit(Verdict{Plan: plan, struck: test.struck, planned: planned{Plan: plan, reference: reference}})
		var passed, others []int
		for _, v := range tr.report.Verdicts {
			passed = append(passed, v.Plan.writes()...)
		}
		for _, p := range left {
			others = append(others, p.writes()...)
		}
		if !slices.Equal(passed, test.struck) || !slices.Equal(others, test.left) || len(left) > 1 || tr.report.played["w"][Crash].left != len(test.left) {
			t.Errorf("%s: passed %v, left %v in %d runs", name, passed, others, len(left))
		}
	}
}

func TestDifferences(t *testing.T) {
	a, b := outcome{"x": "1", "y": "2", "z": "3"}, outcome{"x": "1", "y": "3", "w": "4"}
	if n := len(differences(a, b, nil)); n != 3 {
		t.Errorf("%d differences: %v", n, differences(a, b, nil))
	}
	const hashed = `"web-exp-5bb9c5b86" is new`
	for name, test := range map[string]struct {
		a, b string
		more bool
	}{
		"another hash":          {hashed, `"web-exp-84c8db5567" is new`, false},
		"a hash of digits":      {hashed, `"web-exp-984254567" is new`, false},
		"another word":          {hashed, `"web-exp-5bb9c5b86" is old`, true},
		"no hash":               {hashed, `"web-exp is new"`, true},
		"nothing":               {hashed, "", true},
		"a long one of digits":  {`"0308790790411689"`, `"57158364b7ff67ce"`, false},
		"a hash alone":          {`"of 84c8db5567"`, `"of 5bb9c5b86"`, false},
		"one as names have":     {`"web-exp-HASH1-7c949d4884"`, `"web-exp-HASH1-HASH1"`, false},
		"another of its name":   {`"web-exp-HASH1"`, `"web-exp-HASH2"`, true},
		"another number":        {"24756", "98245", true},
		"another number within": {`"24756 lost"`, `"98245 lost"`, true},
		"a number below 0":      {"-24756", "-98245", true},
	} {
		a, b := outcome{"x": test.a}, outcome{"x": test.b}
		if found := more(a, b, learn(a, b)); (found != "") != test.more {
			t.Errorf("%s: it differs by more: %q", name, found)
		}
		// What two references differ in is compared without what is drawn.
		if d := differences(a, b, map[string]bool{"x": true}); (len(d) > 0) != test.more {
			t.Errorf("%s: differences of what is masked: %v", name, d)
		}
	}
	if d := differences(outcome{"x": hashed}, outcome{}, map[string]bool{"x": true}); len(d) != 1 {
		t.Errorf("what is masked is gone: %v", d)
	}
}

// A time that the manager has computed is compared, and one that others' clocks have said is not.
func TestTimes(t *testing.T) {
	epoch := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(begun, at time.Duration) outcome {
		r := &run{
			lab: &Lab{epoch: epoch}, stage: &Stage{Namespace: "run-x"}, advances: []time.Duration{30 * time.Minute},
			begun: epoch.Add(begun), ended: epoch.Add(begun + 20*time.Second),
		}
		out := outcome{}
		flatten(out, "Toy.status", map[string]any{"at": "since " + epoch.Add(at).Format(time.RFC3339Nano)}, func(s string) string { return r.mask(s, r.begun) })
		return out
	}
	const early, late = 10 * time.Second, time.Hour - 10*time.Second // one run is there when something of the other is due
	for name, c := range map[string]struct {
		want, got outcome
		differ    bool
	}{
		"a deadline":                        {of(early, time.Hour), of(early, time.Hour), false},
		"one that lies within the run":      {of(early, time.Hour), of(late, time.Hour), false},
		"one from when the object came":     {of(early, early+time.Hour), of(late, late+time.Hour), false},
		"the clock, within the run":         {of(early, 30*time.Minute), of(30*time.Minute-early, 30*time.Minute), false},
		"others' clock, at that time":       {of(early, 12*time.Second), of(30*time.Minute-early, 30*time.Minute), false},
		"a deadline after a restart":        {of(early, time.Hour), of(early, 90*time.Minute), true},
		"one that makes no sense":           {of(early, time.Hour), of(early, 1<<16*time.Hour), true},
		"another time of the clock":         {of(early, 0), of(early, 30*time.Minute), true},
		"a fraction of a second":            {of(early, time.Hour), of(early, time.Hour+time.Millisecond), true},
		"others' clocks":                    {of(early, 10*time.Second), of(late, time.Hour+3*time.Second), false},
		"others' clock, after a run":        {of(early, 10*time.Second), of(late, 10*time.Second-time.Hour), true},
		"others' clock, for the manager's":  {of(early, 0), of(early, 11*time.Second), true},
		"a deadline, for the others' clock": {of(early, 11*time.Second), of(early, time.Hour), true},
	} {
		if d := differences(c.want, c.got, nil); (len(d) > 0) != c.differ || (len(learn(c.want, c.got)) > 0) != c.differ {
			t.Errorf("%s: %v and %v: %v", name, c.want, c.got, d)
		}
	}
}

// What is empty is compared, and so is the type of a value.
func TestFlatten(t *testing.T) {
	of := func(value any) outcome {
		out := outcome{}
		flatten(out, "spec", map[string]any{"x": "a", "y": value}, hider("run-1", nil))
		return out
	}
	for name, c := range map[string]struct {
		a, b any
		n    int
	}{
		"an empty object is gone":   {map[string]any{"emptyDir": map[string]any{}}, map[string]any{}, 2},
		"an empty list":             {[]any{}, nil, 1},
		"a list and an object":      {[]any{}, map[string]any{}, 1},
		"a text and a number":       {"8080", int64(8080), 1},
		"a text and a truth":        {"true", true, 1},
		"nothing, and its name":     {"null", nil, 1},
		"another hash, another run": {"team-abcdefgh", "team-hgfedcba", 0},
	} {
		if d := differences(of(c.a), of(c.b), nil); len(d) != c.n {
			t.Errorf("%s: %d differences, not %d: %v", name, len(d), c.n, d)
		}
	}
	since := "Toy.status.conditions[0].lastTransitionTime"
	if d := differences(outcome{since: encoded("CLOCK(0s)")}, outcome{since: encoded("CLOCK(1h0m0s)")}, nil); len(d) != 1 || !sinceWhen.MatchString(d[0]) {
		t.Errorf("a difference in when a condition has come about is not known as one: %v", d)
	}
}

// What creates nothing is never refused a create, and no plan of that is missed.
func TestModesThatNoWriteAllows(t *testing.T) {
	for verb, creates := range map[string]bool{"create": true, "patch": false} {
		report := &Report{References: map[string]*Reference{"toy": {Writes: []Write{{Verb: "patch", Name: "a", Namespace: "n"}, {Verb: verb, Name: "a", Namespace: "n"}}}}}
		for m, want := range map[Mode]bool{Quota: creates, Terminating: creates, Crash: true} {
			if got := report.allows(m); got != want {
				t.Errorf("with a %s %s is allowed: %t", verb, m, got)
			}
		}
	}
}

// The halves have kills in common, and all modes together.
func TestHalves(t *testing.T) {
	played := map[Mode]int{}
	for half, want := range map[Half]int{NoHalf: 1, FirstHalf: 1 + len(Modes)/2, SecondHalf: 1 + (len(Modes)-1)/2} {
		of := half.of(Modes)
		if len(of) != want || of[0] != Crash {
			t.Errorf("half %d is %v, not %d", half, of, want)
		}
		for _, m := range of[1:] {
			played[m]++
		}
	}
	for _, m := range Modes[1:] {
		if played[m] != 1 {
			t.Errorf("%s is in %d halves", m, played[m])
		}
	}
}

func TestPlans(t *testing.T) {
	kind := schema.GroupResource{Resource: "toys"}
	reference := &Reference{
		Writes: make([]Write, 20), watched: map[schema.GroupResource]bool{kind: true}, reads: map[int][]schema.GroupResource{6: {kind}},
		others: map[int][]schema.GroupResource{9: {kind}}, edits: map[int][]schema.GroupResource{3: {kind}},
	}
	for k := range reference.Writes {
		reference.Writes[k] = Write{Verb: "patch", Name: "a", Namespace: "n"}
	}
	reference.Writes[4].Verb = "create"
	reference.Writes[7].Resource.Resource = "toys"
	w := Workload{Name: "toy"}
	// Modes that are for some writes only are played at those.
	if n := len(Every([]Mode{Quota, Terminating, Held}, w, reference)); n != 1+1+8 {
		t.Errorf("%d plans", n)
	}
	sampleHas(t, sample(Modes, w, reference, 0, 3*len(Modes)), reference)
	for k := 1; k <= 20; k++ {
		if past := reference.past(Fault{Travel, k}); past >= k || past < k-depths {
			t.Errorf("at write %d it is put back to the moment after write %d", k, past)
		}
	}
}

// patched is the road of a manager that watches owners, parts and runs, and patches some kinds.
func patched(kinds []string) *Reference {
	reference := &Reference{watched: map[schema.GroupResource]bool{{Resource: "owners"}: true, {Resource: "parts"}: true, {Resource: "runs"}: true}}
	for _, kind := range kinds {
		reference.Writes = append(reference.Writes, Write{Verb: "patch", Resource: schema.GroupVersionResource{Resource: kind}})
	}
	return reference
}

// The kind that is behind is another than that of the write, by the more of its writes the longer no other was written; or
// that of the write, by all of them.
func TestBehind(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		// want is the kind that is behind at each write, and to before which write; empty where none can be.
		want []string
		// own is the same where that of the write is.
		own []string
	}{
		"statuses tell of what was written before": {
			writes: []string{"owners", "parts", "owners", "owners", "parts", "owners", "owners", "owners"},
			want:   []string{"", "owners 1", "parts 2", "parts 2", "owners 4", "parts 5", "parts 2", "parts 5"},
			own:    []string{"owners 1", "parts 2", "owners 3", "owners 3", "parts 5", "owners 6", "owners 6", "owners 6"},
		},
		"the one and the other of several kinds": {
			writes: []string{"owners", "parts", "runs", "owners", "owners", "owners"},
			want:   []string{"", "owners 1", "parts 2", "runs 3", "parts 2", "runs 3"},
			own:    []string{"owners 1", "parts 2", "runs 3", "owners 4", "owners 4", "owners 4"},
		},
		"what is not watched is not behind": {
			writes: []string{"secrets", "secrets", "parts", "secrets", "owners"},
			want:   []string{"", "", "", "parts 3", "parts 3"},
			own:    []string{"", "", "parts 3", "", "owners 5"},
		},
		"what is not watched is of one kind": {
			writes: []string{"owners", "parts", "roles", "accounts", "secrets"},
			want:   []string{"", "owners 1", "parts 2", "owners 1", "parts 2"},
			own:    []string{"owners 1", "parts 2", "", "", ""},
		},
		"one kind alone": {
			writes: []string{"owners", "owners", "owners"}, want: []string{"", "", ""}, own: []string{"owners 1", "owners 1", "owners 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			reference := patched(c.writes)
			for mode, all := range map[Mode][]string{Behind: c.want, Forgetful: c.own} {
				for i, want := range all {
					got, f := "", Fault{mode, i + 1}
					if kind := reference.held(f); !kind.Empty() {
						got = fmt.Sprintf("%s %d", kind, reference.past(f)+1)
					}
					if got != want || f.possible(reference) != (want != "") {
						t.Errorf("%s is %q, not %q, and that is possible: %t", f, got, want, f.possible(reference))
					}
				}
			}
		})
	}
}

// A kind that others alone change is late, or as it was before that, by itself, and so is what others change of a kind that is written.
func TestOthers(t *testing.T) {
	reference := patched([]string{"owners", "owners", "owners", "owners", "owners", "owners"})
	for i := range reference.Writes {
		reference.Writes[i].version = strconv.Itoa(10 * (i + 1))
	}
	entry := func(verb watch.EventType, kind string, version int64) Entry {
		return Entry{Verb: verb, Resource: schema.GroupVersionResource{Resource: kind}, Version: version, Object: &unstructured.Unstructured{Object: map[string]any{}}}
	}
	reference.Writes[3].Verb, reference.Writes[3].version = "delete", "" // what is gone has none
	history := []Entry{
		entry(watch.Added, "owners", 4), entry(watch.Added, "parts", 5), entry(watch.Modified, "owners", 10), entry(watch.Added, "secrets", 32),
		entry(watch.Modified, "parts", 35), entry(watch.Modified, "parts", 36), entry(watch.Deleted, "owners", 40), entry(watch.Modified, "owners", 45),
	}
	reference.others, reference.edits = othersIn(history, reference.Writes, reference.watched)
	want := map[Mode][]string{
		Unwritten: {"", "", "parts late", "", "", ""},
		Outdated:  {"parts 0", "parts 0", "parts 0", "parts 3", "parts 3", "parts 3"},
		Edited:    {"owners 0", "owners 0", "owners 0", "", "owners 4", "owners 4"},
	}
	for mode, all := range want {
		for i, want := range all {
			got, f := "", Fault{mode, i + 1}
			switch kind := reference.held(f); {
			case kind.Empty():
			case mode == Unwritten:
				got = kind.Resource + " late"
			default:
				got = fmt.Sprintf("%s %d", kind, reference.past(f))
			}
			if got != want || f.possible(reference) != (want != "") {
				t.Errorf("%s is %q, not %q, and that is possible: %t", f, got, want, f.possible(reference))
			}
		}
	}
}

// The kind whose events are late is another than that of the write, and each of them has its turn, whatever statuses are between.
func TestLate(t *testing.T) {
	for name, c := range map[string]struct {
		writes []string
		// want is the kind that is late at each write; empty where none can be.
		want []string
	}{
		"statuses that tell of a part": {
			writes: []string{"owners", "parts", "owners", "owners", "parts", "owners", "owners", "owners"},
			want:   []string{"parts", "owners", "parts", "owners", "owners", "owners", "owners", "owners"},
		},
		"a status for each part": {
			writes: []string{"parts", "owners", "parts", "owners", "parts", "owners"},
			want:   []string{"owners", "parts", "owners", "parts", "owners", "owners"},
		},
		"one and the other of several kinds": {
			writes: []string{"owners", "owners", "owners", "owners", "parts", "runs"},
			want:   []string{"parts", "runs", "owners", "parts", "runs", "runs"},
		},
		"what is not watched is not late, and is of one kind": {
			writes: []string{"secrets", "roles", "secrets", "parts", "owners", "secrets"},
			want:   []string{"parts", "owners", "parts", "owners", "owners", ""},
		},
		"one kind alone": {writes: []string{"owners", "owners"}, want: []string{"owners", "owners"}},
	} {
		t.Run(name, func(t *testing.T) {
			reference := patched(c.writes)
			for i, want := range c.want {
				f := Fault{Held, i + 1}
				if got := reference.held(f); got.Resource != want || f.possible(reference) != (want != "") {
					t.Errorf("late at write %d is %q, not %q, and that is possible: %t", f.K, got.Resource, want, f.possible(reference))
				}
			}
		})
	}
}

// sampleHas checks that a sample has every mode, and kills at many writes in few runs.
func sampleHas(t *testing.T, sample []Plan, reference *Reference) {
	t.Helper()
	played, killed, runs := map[Mode]bool{}, map[int]bool{}, 0
	for _, p := range sample {
		played[p.Fault.Mode] = true
		if p.Fault.K < 1 || p.Fault.K > 20 || !p.Fault.possible(reference) {
			t.Errorf("it cannot be played: %s", p.Fault)
		}
		if p.Fault.Mode == Crash {
			runs++
			for _, k := range p.writes() {
				killed[k] = true
			}
		}
	}
	if len(played) != len(Modes) || len(killed) < 12 || runs > len(killed)/3+1 {
		t.Errorf("%d plans of %d modes; %d runs with crashes at %d writes", len(sample), len(played), runs, len(killed))
	}
}

// Of faults that a reconciler cannot tell apart each write has one, and of others all.
func TestInTurn(t *testing.T) {
	for k := 1; k <= 9; k++ {
		n := 0
		for _, mode := range Modes {
			if (Fault{mode, k}).inTurn() {
				n++
			}
		}
		if want := len(Modes) - len(alike) + 1; n != want || (Fault{alike[0], k}).inTurn() != (k%3 == 0) {
			t.Errorf("write %d has %d modes, not %d", k, n, want)
		}
	}
}

// A road that two workloads have in common ends where one of them goes on differently, or its user has done something.
func TestRoads(t *testing.T) {
	object := func(name string) []*unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion("v1")
		u.SetKind("ConfigMap")
		u.SetName(name)
		return []*unstructured.Unstructured{u}
	}
	road := func(alone int, names ...string) *Reference {
		r := &Reference{alone: alone}
		for _, name := range names {
			r.Writes = append(r.Writes, Write{Verb: "create", Name: name})
		}
		return r
	}
	wrote := func(r *Reference, payloads ...string) *Reference {
		r.payloads = payloads
		return r
	}
	reads := func(kind string, r *Reference) *Reference {
		r.reads = map[int][]schema.GroupResource{1: {{Resource: kind}}, 2: {{Resource: kind}}, 3: {{Resource: kind}}}
		return r
	}
	known := roads{}
	for _, test := range []struct {
		name      string
		workload  Workload
		mode      Mode
		reference *Reference
		had       []int
	}{
		{"the first", Workload{Objects: object("a")}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"another end", Workload{Objects: object("a")}, Crash, road(4, "a", "b", "c", "e"), []int{1, 2}},
		{"the user was there", Workload{Objects: object("a")}, Crash, road(2, "a", "b", "c", "d"), []int{1}},
		{"other objects", Workload{Objects: object("b")}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"other flags", Workload{Objects: object("a"), Args: []string{"--events=false"}}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"other outsides", Workload{Objects: object("a"), Holds: []string{"healthy"}}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"other invariants", Workload{Objects: object("a"), Breaks: []string{"healthy"}}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"other orphans", Workload{Objects: object("a"), Leaves: []string{"healthy"}}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"other errors", Workload{Objects: object("a"), Logs: []string{"healthy"}}, Crash, road(4, "a", "b", "c", "d"), nil},
		{"other payloads", Workload{Objects: object("a")}, Crash, wrote(road(4, "a", "b", "c", "d"), "w", "x", "y", "z"), nil},
		{"another payload at the end", Workload{Objects: object("a")}, Crash, wrote(road(4, "a", "b", "c", "d"), "w", "x", "y", ""), []int{1, 2}},
		{"another payload", Workload{Objects: object("a")}, Crash, wrote(road(4, "a", "b", "c", "d"), "w", "v", "y", "z"), nil},
		{"another fault", Workload{Objects: object("a")}, Lost, road(4, "a", "b", "c", "d"), nil},
		{"one that lasts", Workload{Objects: object("a")}, Restart, road(4, "a", "b", "c", "d"), nil},
		{"two kills", Workload{Objects: object("a")}, Again, road(9, "a", "b", "c", "d", "e"), nil},
		{"two kills, another end", Workload{Objects: object("a")}, Again, road(9, "a", "b", "c", "d", "f"), []int{1, 2}},
		{"two kills, the user was there", Workload{Objects: object("a")}, Again, road(3, "a", "b", "c", "d", "e"), []int{1}},
		{"a read", Workload{Objects: object("a")}, Unread, reads("parts", road(9, "a", "b", "c", "d")), nil},
		{"the same read", Workload{Objects: object("a")}, Unread, reads("parts", road(9, "a", "b", "c", "d")), []int{1, 2, 3}},
		{"another read", Workload{Objects: object("a")}, Unread, reads("toys", road(9, "a", "b", "c", "d")), nil},
		{"it lasts again", Workload{Objects: object("a")}, Restart, road(4, "a", "b", "c", "d"), nil},
	} {
		var had []int
		for k := range test.reference.Writes {
			if known.has(Fault{test.mode, k + 1}, test.workload, test.reference) {
				had = append(had, k+1)
			}
		}
		if !slices.Equal(had, test.had) {
			t.Errorf("%s: on a road that is known: %v, not %v", test.name, had, test.had)
		}
	}
}

// What two undisturbed runs have in common is no hash, and compared.
func TestVocabulary(t *testing.T) {
	u := func(namespace, team, hash string) undisturbed {
		toy := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy", "spec": map[string]any{"of": team + "-" + hash}}}
		toy.SetNamespace(namespace)
		toy.SetName("toy-" + hash)
		toy.SetUID(types.UID("uid-" + hash))
		var writes []Write
		for _, name := range []string{"toy-" + hash, team, "toy-" + hash, "team-database"} {
			write := Write{Verb: "delete", Code: 200, object: types.NamespacedName{Namespace: namespace, Name: name}}
			writes = append(writes, numbered(writes, write.in(hider(namespace, nil))))
		}
		world := World{Role: (*unstructured.Unstructured).GetKind, Owner: (*unstructured.Unstructured).GetUID}
		return undisturbed{
			run:   &run{lab: &Lab{world: world}, stage: &Stage{Namespace: namespace}, proxy: &proxy{writes: writes}},
			state: State{toy}, history: []Entry{{Verb: watch.Added, Object: toy}},
		}
	}
	one, two, other := u("run-x", "team-frontend", "abcd2345"), u("run-y", "team-frontend", "bcdefghi"), u("run-z", "team-platform", "cdefghij")
	words := one.said(one.history).and(two.said(two.history))
	a, b, c := one.reference(words), two.reference(words), other.reference(words)
	var road []string
	for _, w := range a.Writes {
		road = append(road, w.Signature())
	}
	want := []string{"delete  NAMESPACE/toy-HASH #1", "delete  NAMESPACE/team-frontend #1", "delete  NAMESPACE/toy-HASH #2", "delete  NAMESPACE/team-database #1"}
	if !slices.Equal(road, want) || differ(a.Writes, b.Writes) != "" || len(differences(a.outcome, b.outcome, nil)) > 0 {
		t.Errorf("the road is %q; %v and %v", road, a.outcome, b.outcome)
	}
	if differ(a.Writes, c.Writes) == "" || len(differences(a.outcome, c.outcome, nil)) != 1 {
		t.Errorf("another word is taken for a hash: %v and %v", a.outcome, c.outcome)
	}
}

// What is written is the same in another run but for its names, hashes, resource versions, and other clocks.
func TestPayload(t *testing.T) {
	epoch := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(namespace, format string, more ...any) string {
		r := &run{lab: &Lab{epoch: epoch}, stage: &Stage{Namespace: namespace}, words: vocabulary{"operator": true}, begun: epoch.Add(time.Minute), ended: epoch.Add(time.Hour)}
		return r.payload(fmt.Sprintf(format, more...))
	}
	const body = `{"metadata":{"namespace":%q,"name":%q,"resourceVersion":"%d"},"status":{"at":%q,"since":%q,"n":%d}}`
	at := func(d time.Duration) string { return epoch.Add(d).Format(time.RFC3339) }
	want := of("run-x", body, "run-x", "a-operator-abcd2345", 1, at(0), at(2*time.Minute), 7)
	for name, c := range map[string]struct {
		got  string
		same bool
	}{
		"another run":      {of("run-y", body, "run-y", "a-operator-bcde2345", 23, at(0), at(24*time.Hour), 7), true},
		"another number":   {of("run-x", body, "run-x", "a-operator-abcd2345", 1, at(0), at(2*time.Minute), 8), false},
		"another word":     {of("run-x", body, "run-x", "a-notfound-abcd2345", 1, at(0), at(2*time.Minute), 7), false},
		"not by the clock": {of("run-x", body, "run-x", "a-operator-abcd2345", 1, at(time.Minute), at(2*time.Minute), 7), false},
	} {
		if (c.got == want) != c.same {
			t.Errorf("%s: %s and %s", name, c.got, want)
		}
	}
}

func TestIncarnations(t *testing.T) {
	object := func(uid, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"kind": "Toy"}}
		u.SetUID(types.UID(uid))
		u.SetName(name)
		return u
	}
	in := incarnationsOf([]Entry{{Object: object("uid-a", "toy-abcd2345")}, {Object: object("uid-b", "toy-bcde3456-cdef4567")}}, func(u *unstructured.Unstructured) string { return u.GetKind() }, vocabulary{"operator": true})
	for text, want := range map[string]string{
		"toy-abcd2345":          "toy-HASH1",
		"toy-bcde3456":          "toy-HASH2",
		"toy-bcde3456-cdef4567": "toy-HASH2-HASH1",
		"ns/toy-bcde3456.x":     "ns/toy-HASH2.x",
		"uid-a":                 "UID(Toy 1)",
		"of uid-b":              "of UID(Toy 2)",
		"abcd2345":              "abcd2345",
		"an-operator":           "an-operator",
		"a-notfound":            "a-HASH1",
	} {
		if got := in.number(in.uids.Replace(text)); got != want {
			t.Errorf("%s reads as %s, want %s", text, got, want)
		}
	}
}

func TestDisguises(t *testing.T) {
	const secret = "canary-5be1c0"
	ways := Disguises(secret)
	hidden := func(text string) bool {
		return !slices.ContainsFunc(ways, func(way string) bool { return strings.Contains(text, way) })
	}
	for before := range 7 {
		text := strings.Repeat("-", before) + secret + "-and more"
		if hidden(text) || hidden(base64.StdEncoding.EncodeToString([]byte(text))) {
			t.Errorf("%q is not seen through", text)
		}
	}
	if !hidden("another-5be1c1") {
		t.Error("everything is taken for it")
	}
}

func TestSecretsAreOverheard(t *testing.T) {
	p := &proxy{plan: disturbance{secrets: []string{"s3cret-s3cret"}}}
	for path, method := range map[string]string{
		"/api/v1/namespaces/x/secrets":                     http.MethodPost,
		"/api/v1/namespaces/x/configmaps":                  http.MethodPost,
		"/apis/events.k8s.io/v1/namespaces/x/events":       http.MethodPost,
		"/apis/example.com/v1/namespaces/x/toys/a/status":  http.MethodPatch,
		"/apis/example.com/v1/namespaces/x/toys/harmless":  http.MethodPut,
		"/apis/example.com/v1/namespaces/x/toys/only-read": http.MethodGet,
	} {
		body := `{"note": "token s3cret-s3cret"}`
		if strings.HasSuffix(path, "harmless") {
			body = "{}"
		}
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		p.overhear(r)
		if read, err := io.ReadAll(r.Body); err != nil || string(read) != body {
			t.Errorf("%s: the server gets %q (%v)", path, read, err)
		}
	}
	want := []string{"create configmaps tells secret 1", "create events tells secret 1", "patch toys tells secret 1"}
	if got := p.betrayals(); !slices.Equal(got, want) {
		t.Errorf("overheard is %q, want %q", got, want)
	}
}

// What fails is played again by one command, which plays nothing else.
func TestAgain(t *testing.T) {
	w := Workload{Name: "w"}
	for want, p := range map[string]Plan{
		"go test ./x -run '^TestSweep$' -faults.workload=w -faults.full=none":           {Workload: w},
		"go test ./x -run '^TestSweep$' -faults.workload=w -faults.mode=C1 -faults.k=3": {Workload: w, Fault: Fault{Crash, 3}},
	} {
		if got := again("TestSweep", "./x", p); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
	defer func(was string) { *full = was }(*full)
	*full = nothing
	if modes, err := wantedModes(); err != nil || len(Every(modes, w, &Reference{Writes: make([]Write, 3)})) != 0 {
		t.Errorf("references alone are %v, %v", modes, err)
	}
}

func TestNothingIsDeleted(t *testing.T) {
	const list = `{"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [ITEMS]}`
	tests := map[string]struct {
		path, body string
		want       int
	}{
		"a collection with something": {"configmaps", strings.Replace(list, "ITEMS", `{"metadata": {"name": "a"}}`, 1), http.StatusOK},
		"one with nothing":            {"configmaps", strings.Replace(list, "ITEMS", "", 1), http.StatusNotFound},
		"an object":                   {"configmaps/a", strings.Replace(list, "ITEMS", "", 1), http.StatusOK},
		"what cannot be read":         {"configmaps", "\x1f\x8b", http.StatusOK},
	}
	for name, tt := range tests {
		w, ok := readWrite(httptest.NewRequest(http.MethodDelete, "/api/v1/namespaces/x/"+tt.path, nil))
		if !ok {
			t.Fatalf("%s is no write", name)
		}
		r := &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(tt.body))}
		if got, err := codeOf(w, r); err != nil || got != tt.want {
			t.Errorf("%s: %d (%v), want %d", name, got, err, tt.want)
		}
		if left, err := io.ReadAll(r.Body); err != nil || string(left) != tt.body {
			t.Errorf("%s: the manager gets %q (%v)", name, left, err)
		}
	}
}

// A plan that took so long beside others that its fault had no time to happen is excused by passing alone, as any that took
// too long is.
func TestExcuses(t *testing.T) {
	late, apart, wrong := []Finding{{"O5", "not done"}}, []Finding{{"plan", "it parts from the reference"}}, []Finding{{"O2", "created twice"}}
	for name, c := range map[string]struct {
		verdict       Verdict
		slow, strayed bool
	}{
		"late":                          {verdict: Verdict{Findings: late}, slow: true},
		"late before its fault":         {verdict: Verdict{Findings: late, off: true}, slow: true, strayed: true},
		"late alone, before its fault":  {verdict: Verdict{Findings: late, Alone: late, off: true}, strayed: true},
		"late alone":                    {verdict: Verdict{Findings: late, Alone: late}},
		"apart before its fault":        {verdict: Verdict{Findings: apart, off: true}, strayed: true},
		"slow, before its fault":        {verdict: Verdict{Findings: late, off: true, Slow: true}, slow: true},
		"hung":                          {verdict: Verdict{Findings: late, Hung: true}},
		"wrong":                         {verdict: Verdict{Findings: wrong}},
		"wrong and late before a fault": {verdict: Verdict{Findings: append(wrong, late...), off: true}},
	} {
		if v := c.verdict; v.mayBeSlow() != c.slow || v.mayHaveStrayed() != c.strayed {
			t.Errorf("%s: may be slow: %t, may have strayed: %t", name, v.mayBeSlow(), v.mayHaveStrayed())
		}
	}
}
