package restore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func newPoint() *Point {
	return &Point{Plan: "shop/nights", Target: "web", Executor: "workloadscaler", Cycle: "c1"}
}

// The second run must not destroy what the first has recorded.
func TestFirstLookCounts(t *testing.T) {
	p := newPoint()
	for _, key := range []string{"Deployment.apps/shop/web", "CronJob.batch/shop/report", "Deployment.apps/shop/api"} {
		if !p.Capture(key, raw(`{"replicas":3}`)) {
			t.Errorf("%s was not captured", key)
		}
	}
	const web = "Deployment.apps/shop/web"
	for what, prepare := range map[string]func(){
		"captured": func() {}, "asleep": func() { p.Slept(web, raw(`{"replicas":0}`)) },
	} {
		prepare()
		if p.Capture(web, raw(`{"replicas":0}`)) || string(p.Resource(web).Before) != `{"replicas":3}` {
			t.Errorf("%s: it was captured again: %+v", what, p.Resource(web))
		}
	}
	if keys := slices.Collect(func(yield func(string) bool) {
		for _, r := range p.Resources {
			if !yield(r.Key) {
				return
			}
		}
	}); !slices.IsSorted(keys) {
		t.Errorf("they are not sorted: %v", keys)
	}
	p.End(web, Restored, "")
	if !p.Capture(web, raw(`{"replicas":5}`)) || string(p.Resource(web).Before) != `{"replicas":5}` || p.Resource(web).Slept != nil {
		t.Errorf("one that is awake again was not captured: %+v", p.Resource(web))
	}
}

func TestSleptOnlyIfCaptured(t *testing.T) {
	p := newPoint()
	if p.Slept("a", raw("0")) || len(p.Resources) > 0 {
		t.Errorf("what nobody captured is asleep: %+v", p)
	}
	p.Capture("a", raw("1"))
	p.End("a", Left, "it is gone")
	if p.Slept("a", raw("0")) || p.Resource("a").State != Left {
		t.Errorf("what was left is asleep: %+v", p)
	}
}

func TestOpen(t *testing.T) {
	p := newPoint()
	for _, key := range []string{"a", "b", "c", "d"} {
		p.Capture(key, raw("1"))
	}
	p.Slept("b", raw("0"))
	p.End("c", Restored, "")
	p.End("d", Left, "somebody has scaled it to 7")
	p.End("e", Restored, "")
	var open []string
	for _, r := range p.Open() {
		open = append(open, r.Key)
	}
	if diff := cmp.Diff([]string{"a", "b"}, open); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// They are woken in the reverse of the order that they were put to sleep in, whatever their keys, and whatever was
// restored and captured again in between.
func TestOrder(t *testing.T) {
	p := newPoint()
	order := func() (keys []string) {
		for _, r := range p.Open() {
			keys = append(keys, r.Key)
		}
		return keys
	}
	for _, key := range []string{"c", "a", "d", "b"} {
		p.Capture(key, raw("1"))
	}
	p.Slept("a", raw("0"))
	p.End("c", Restored, "")
	p.End("d", Left, "it is gone")
	if diff := cmp.Diff([]string{"a", "b"}, order()); diff != "" {
		t.Errorf("open (-want +got):\n%s", diff)
	}
	p.Capture("0", raw("1"))
	p.Capture("c", raw("2"))
	content, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if p, err = Decode(content); err != nil {
		t.Fatal(err)
	}
	p.Capture("00", raw("1"))
	if diff := cmp.Diff([]string{"c", "a", "b", "0", "00"}, order()); diff != "" {
		t.Errorf("captured again (-want +got):\n%s", diff)
	}
}

func TestForget(t *testing.T) {
	p := newPoint()
	for _, key := range []string{"a", "b", "c"} {
		p.Capture(key, raw("1"))
	}
	p.End("b", Restored, "")
	p.Forget(func(r Resource) bool { return r.Over() })
	if p.Resource("b") != nil || p.Resource("a") == nil || p.Resource("c") == nil {
		t.Errorf("it is %+v", p)
	}
	if p.Capture("d", raw("1")); p.Resource("d").Order != 3 {
		t.Errorf("a place is taken twice: %+v", p)
	}
}

func filled(n int) *Point {
	p := newPoint()
	for i := range n {
		p.Capture(fmt.Sprintf("Deployment.apps/shop/web-%05d", i), raw(fmt.Sprintf(`{"replicas":%d}`, i%7)))
	}
	return p
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 1000, 20_000} {
		p := filled(n)
		p.Capture("a<b", raw(`{"command":"a && b > \u0026"}`))
		content, err := p.Encode()
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		got, err := Decode(content)
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Errorf("%d (-want +got):\n%s", n, diff)
		}
	}
}

func TestTooLarge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	p := newPoint()
	for i := range 10_000 {
		noise := make([]string, 12)
		for j := range noise {
			noise[j] = fmt.Sprintf("%016x", r.Uint64())
		}
		p.Capture(fmt.Sprint("vm-", i), raw(`"`+strings.Join(noise, "")+`"`))
	}
	_, err := p.Encode()
	var large *TooLargeError
	if !errors.As(err, &large) || large.Resources != 10_000 || large.Size <= MaxSize {
		t.Errorf("it is %v", err)
	}
}

// What was cut off, changed or swapped is an error, and never a point with less in it.
func TestCorrupt(t *testing.T) {
	for _, n := range []int{2, 1000} { // as it is, and compressed
		good, err := filled(n).Encode()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			at := i * len(good) / 200
			flipped := bytes.Clone(good)
			flipped[at] ^= 0x04
			for what, bad := range map[string][]byte{"cut off": good[:at], "changed": flipped, "more": append(bytes.Clone(good[:at]), good[:at]...)} {
				p, err := Decode(bad)
				var corrupt *CorruptError
				switch {
				case err == nil && !cmp.Equal(p, filled(n)): // a field of gzip's header says nothing of the content
					t.Errorf("%s at %d of %d: it is read as %+v", what, at, len(good), p)
				case err != nil && !errors.As(err, &corrupt):
					t.Errorf("%s at %d: %v", what, at, err)
				}
			}
		}
	}
	sealed := func(point string) string {
		return fmt.Sprintf(`{"version":1,"checksum":%q,"point":%s}`, checksum([]byte(point)), point)
	}
	for name, test := range map[string]struct{ content, says string }{
		"nothing":          {"", "EOF"},
		"an empty object":  {"{}", "no version"},
		"a newer one":      {`{"version":4,"checksum":"","point":{}}`, "newer manager: it has version 4, and this one knows 3; have runners of a newer image wake the target"},
		"another checksum": {`{"version":1,"checksum":"abc","point":{}}`, "checksum differs"},
		"an unknown field": {sealed(`{"plan":"","target":"","executor":"","cycle":"","resources":[],"more":1}`), "more"},
		"out of place":     {sealed(`{"resources":[{"key":"b","state":"Asleep","before":1},{"key":"a","state":"Asleep","before":1}]}`), `"a" is not in its place`},
		"twice":            {sealed(`{"resources":[{"key":"a","state":"Asleep","before":1},{"key":"a","state":"Asleep","before":1}]}`), `"a" is not in its place`},
		"no state":         {sealed(`{"resources":[{"key":"a","before":1}]}`), `the state ""`},
	} {
		if _, err := Decode([]byte(test.content)); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: it is %v", name, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	good, _ := filled(3).Encode()
	long, _ := filled(300).Encode()
	f.Add(good)
	f.Add(long)
	f.Fuzz(func(t *testing.T, content []byte) {
		p, err := Decode(content)
		if err != nil {
			return
		}
		again, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if q, err := Decode(again); err != nil || !cmp.Equal(p, q) {
			t.Fatalf("%v: %s", err, cmp.Diff(p, q))
		}
	})
}

// A program that does not know what a point says must not go by it.
func TestVersion(t *testing.T) {
	for want, p := range map[int]*Point{
		1: {Resources: []Resource{{Key: "web", State: Asleep, Before: raw("3")}}},
		2: {Cluster: "here", Resources: []Resource{{Key: "web", State: Asleep, Before: raw("3")}}},
		3: {Resources: []Resource{{Key: "db", State: Asleep, Before: raw("1"), Former: true}, {Key: "web", State: Asleep, Before: raw("3"), Order: 1}}},
	} {
		content, err := p.Encode()
		if got := p.version(); err != nil || got != want {
			t.Errorf("it is version %d, not %d: %v", got, want, err)
		}
		if again, err := Decode(content); err != nil || cmp.Diff(p, again) != "" {
			t.Errorf("version %d: it is read as %+v: %v", want, again, err)
		}
	}
}
