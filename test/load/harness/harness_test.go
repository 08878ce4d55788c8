package harness

import (
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/labkeeper/labkeeper/test/load/measure"
)

func TestMetrics(t *testing.T) {
	m := ParseMetrics(`# HELP requests Requests.
# TYPE requests counter
requests{code="200",method="GET"} 3
requests{code="409",method="PATCH"} 1
requests{code="200",method="PATCH",path="/a b"} 4
requests_total 9
heap 1.5e+06
apiserver_request_total{code="200",resource="applications",subresource="",verb="APPLY"} 5
apiserver_request_total{code="201",resource="applications",subresource="",verb="APPLY"} 7
apiserver_request_total{code="200",resource="applications",subresource="",verb="PATCH"} 11
apiserver_request_total{code="200",resource="deployments",subresource="",verb="APPLY"} 1
apiserver_request_total{code="200",resource="deployments",subresource="status",verb="APPLY"} 13
`)
	if got := m.Applies(); got != 6 {
		t.Errorf("%v objects that were there are applied, not 6", got)
	}
	for want, labels := range map[float64][]string{
		8: nil, 5: {`method="PATCH"`}, 1: {`method="PATCH"`, `code="409"`}, 3: {`code="200"`, `method="GET"`}, 0: {`method="PUT"`},
	} {
		if got := m.Sum("requests", labels...); got != want {
			t.Errorf("requests with %v are %v, want %v", labels, got, want)
		}
	}
	if got := m.Sum("heap"); got != 1.5e6 {
		t.Errorf("heap is %v", got)
	}
	if got := m.Sum("requests", `ethod="GET"`); got != 0 {
		t.Errorf("half of a label's name finds %v", got)
	}
}

func TestErrorLines(t *testing.T) {
	log := strings.Join([]string{
		`{"level":"info","msg":"an \"error\" that is told of"}`,
		`{"level":"error","msg":"this"}`,
		`E0102 03:04:05.000000       1 reflector.go:1] this`,
		`Every line is not one`,
		`panic: this`,
		`{"level":"error","msg":"this, without an end"}`,
	}, "\n")
	lines, err := errorLines(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) != 4 {
		t.Errorf("errors are %q", lines)
	}
	for _, line := range lines {
		if !strings.Contains(line, "this") {
			t.Errorf("%q is no error", line)
		}
	}
}

// floorOf is a floor at a pace.
func floorOf(pace, create4, create16, status4, status16 float64) measure.Floor {
	return measure.Floor{Pace: pace, Costs: map[string]measure.Cost{
		"create @4": {CPU: create4}, "create @16": {CPU: create16}, "status @4": {CPU: status4}, "status @16": {CPU: status16},
	}}
}

func TestFloorDrift(t *testing.T) {
	before := floorOf(1, 1, 1, 2, 2)
	for name, test := range map[string]struct {
		after measure.Floor
		want  float64
	}{
		"evens out between clients":    {floorOf(1, 1.1, 0.9, 2, 2), 0},
		"evens out between operations": {floorOf(1, 0.8, 0.8, 2.2, 2.2), 0},
		"dearer":                       {floorOf(1, 1.1, 1.1, 2.2, 2.2), 0.2 / 2.1},
		"whatever the pace":            {floorOf(2, 1, 1, 2, 2), 0},
	} {
		if got := FloorDrift(Writes{Creates: 1, Patches: 1}, before, test.after); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%s: the drift is %v, want %v", name, got, test.want)
		}
	}
}

// What the pace of the machine explains is no drift, and the ceiling is that of the window.
func TestCompare(t *testing.T) {
	l := &Lab{Subject: &Subject{Minimal: Writes{Creates: 2, Patches: 4}}, Before: floorOf(2, 1, 1, 2, 2), window: &Window{pace: 4}}
	for name, test := range map[string]struct {
		after      measure.Floor
		drift, raw float64
		minimal    float64 // in the window
	}{
		"a slower machine":        {floorOf(3, 1.5, 1.5, 3, 3), 0, 0.4, 20},
		"dearer software":         {floorOf(2, 1.5, 1.5, 3, 3), 0.4, 0.4, 25},
		"the one hides the other": {floorOf(1.5, 1, 1, 2, 2), 2.0 / 7, 0, (20 + 10*4/1.5) / 2},
	} {
		t.Run(name, func(t *testing.T) {
			rep := measure.Rep{Figures: measure.Figures{"rate": 10, "cpu_all": 50}}
			l.compare(&rep, test.after)
			ceiling := 1000 * float64(l.cores()) / test.minimal
			got := map[string]float64{"drift": rep.FloorDrift, "raw": rep.FloorDriftRaw}
			maps.Copy(got, rep.Figures)
			for figure, want := range map[string]float64{
				"drift": test.drift, "raw": test.raw,
				"ceiling_rate": ceiling, "ceiling_percent": 1000 / ceiling, "minimal_cpu_percent": 2 * test.minimal,
			} {
				if math.Abs(got[figure]-want) > 1e-9 {
					t.Errorf("%s is %v, want %v", figure, got[figure], want)
				}
			}
			if want := (measure.Paces{Before: 2, Window: 4, After: test.after.Pace}); *rep.Pace != want {
				t.Errorf("the paces are %v, want %v", *rep.Pace, want)
			}
			if rep.Before["create @4"].CPU != 1 || rep.After["create @4"] != test.after.Costs["create @4"] {
				t.Errorf("the floors are not raw: %v, %v", rep.Before, rep.After)
			}
		})
	}
}

// The watcher takes the first of every moment, whatever comes first, and counts what is
// published.
func TestWatcher(t *testing.T) {
	w := newWatcher(&Subject{
		FieldManager: "manager",
		Story: func(e Event) Beat {
			return Beat{Owner: e.Object.Metadata.Labels["owner"], Marks: []string{e.Type + " " + e.Object.Kind}}
		},
	}, func(err error) { t.Error(err) })
	revision := 0
	happens := func(kind, verb, status string) {
		revision++
		o := Object{Kind: kind, Status: []byte(status), Metadata: Metadata{
			Namespace: "a", Name: "b", ResourceVersion: strconv.Itoa(revision), Labels: map[string]string{"owner": "uid"},
		}}
		o.Metadata.ManagedFields = append(o.Metadata.ManagedFields, struct {
			Manager string `json:"manager"`
		}{"manager"})
		if kind == "Child" {
			o.Resource.Resource = "children"
		}
		w.happened(Event{verb, o})
	}
	happens("Child", "ADDED", "") // before its owner
	happens("Owner", "ADDED", "")
	happens("Owner", "MODIFIED", `{"a":1}`)
	first := w.Story("a", "b").Marks["MODIFIED Owner"]
	happens("Owner", "MODIFIED", `{"a":1}`)
	happens("Owner", "MODIFIED", `{"a":2}`)
	s := w.Story("a", "b")
	if got := s.Marks["MODIFIED Owner"]; !got.Equal(first) || got.IsZero() {
		t.Errorf("the first was at %s, the mark says %s", first, got)
	}
	if want := map[string]int64{"ADDED Child": 1, "ADDED Owner": 2, "MODIFIED Owner": 3}; !maps.Equal(s.Revisions, want) {
		t.Errorf("the firsts were at %v, not %v", s.Revisions, want)
	}
	if len(s.Statuses) != 2 || len(s.Paths) != 2 {
		t.Errorf("the story is %+v", s)
	}
	for _, mark := range []string{"ADDED Child", "ADDED Owner", "MODIFIED Owner"} {
		if got := w.Count("a", mark); got != 1 {
			t.Errorf("%d have %q", got, mark)
		}
	}
	if err := w.Await(t.Context(), "a", "ADDED Child", 2, time.Millisecond); err == nil || !strings.Contains(err.Error(), "1 are") {
		t.Errorf("waiting for two says %v", err)
	}
}

// A figure that is not told is no small one.
func TestMemoryThatIsNotTold(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, pprof := range []string{"", address} {
		m := &Manager{metrics: address, pprof: pprof}
		if heap, err := m.Heap(t.Context()); err == nil {
			t.Errorf("there is no such metric, and the heap is %v", heap)
		}
	}
	m := &Manager{PID: 1 << 30}
	if peak, now, err := m.Memory(); err == nil {
		t.Errorf("there is no such process, and it has %v, %v", peak, now)
	}
}

// Nor is an effect before its cause a fast one, however little; that a watch is behind another makes none.
func TestEffectBeforeItsCause(t *testing.T) {
	now := time.Now()
	story := func(took time.Duration, before int64) *Story {
		return &Story{Marks: map[string]time.Time{"ready": now, "Workflow": now.Add(took)}, Revisions: map[string]int64{"ready": 10, "Workflow": 11 - before}}
	}
	got, early := timed([]Reaction{{Name: "submit", Cause: "ready", Effect: "Workflow"}},
		[]*Story{story(-time.Minute, 2), story(time.Millisecond, 2), story(-time.Millisecond, 0), story(time.Millisecond, 0)})
	if want := []time.Duration{0, time.Millisecond}; early != 2 || !slices.Equal(got["submit"], want) {
		t.Errorf("%v, and %d early", got, early)
	}
}

// An older edit that is applied after a newer one is seen, though the last one is the newest.
func TestVersionsThatGoBack(t *testing.T) {
	var v Version
	for _, value := range []string{"", "1", "2", "5", "3", "6"} {
		v = v.then(value, time.Now())
	}
	if v.Back != 1 || v.Value != "6" {
		t.Errorf("%+v", v)
	}
}
