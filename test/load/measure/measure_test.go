package measure

import (
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

func TestQuantile(t *testing.T) {
	var samples []time.Duration
	for i := 100; i > 0; i-- {
		samples = append(samples, time.Duration(i)*time.Millisecond)
	}
	for q, want := range map[float64]float64{0: 1, 0.01: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := Quantile(samples, q); got != want {
			t.Errorf("the %v-quantile is %v, want %v", q, got, want)
		}
	}
	if got := Quantile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v", got)
	}
	if got := Quantile(samples[:1], 0.5); got != 100 {
		t.Errorf("the median of one is %v", got)
	}
}

func TestRange(t *testing.T) {
	if got, want := RangeOf([]float64{3, 1, 2}), (Range{2, 1, 3}); got != want {
		t.Errorf("range is %v, want %v", got, want)
	}
	if got, want := RangeOf([]float64{4, 1}), (Range{2.5, 1, 4}); got != want {
		t.Errorf("range is %v, want %v", got, want)
	}
	if got := Drift(1.1, 0.9); math.Abs(got-0.2) > 1e-9 {
		t.Errorf("drift is %v", got)
	}
}

func TestJudge(t *testing.T) {
	figures := map[string]Range{"a": {Median: 2, Min: 1, Max: 3}, "same": {Median: 2, Min: 2, Max: 2}}
	for name, test := range map[string]struct {
		limit Limit
		pass  bool
	}{
		"max holds":             {Limit{Figure: "a", Max: ptr.To(2.0)}, true},
		"max does not":          {Limit{Figure: "a", Max: ptr.To(1.9)}, false},
		"max of the worst":      {Limit{Figure: "a", Max: ptr.To(2.0), Of: "worst"}, false},
		"min holds":             {Limit{Figure: "a", Min: ptr.To(2.0)}, true},
		"min of the worst":      {Limit{Figure: "a", Min: ptr.To(2.0), Of: "worst"}, false},
		"exact holds":           {Limit{Figure: "same", Equals: ptr.To(2.0)}, true},
		"exact in the median":   {Limit{Figure: "a", Equals: ptr.To(2.0)}, false},
		"what was not measured": {Limit{Figure: "b", Max: ptr.To(2.0)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			gates := Judge([]Limit{test.limit}, figures)
			if len(gates) != 1 || gates[0].Pass != test.pass {
				t.Errorf("gates are %+v", gates)
			}
		})
	}
}

func TestRangeSpec(t *testing.T) {
	spec, err := ParseRangeSpec([]byte(`{"lamp": {"burst": {
		"any": [{"figure": "errors", "equals": 0, "source": "goal"}],
		"1000": [{"figure": "share", "min": 80, "source": "goal"}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]int{1000: 2, 50: 1} {
		if got := len(spec.For("lamp", "burst", n)); got != want {
			t.Errorf("%d: %d limits, want %d", n, got, want)
		}
	}
	if got := spec.For("other", "burst", 1000); len(got) > 0 {
		t.Errorf("the limits of another subject are %v", got)
	}
	for _, content := range []string{
		`{"burst": {"many": []}}`,
		`{"burst": {"any": [{"figure": "a", "max": 1}]}}`,
		`{"burst": {"any": [{"figure": "a", "source": "b"}]}}`,
		`{"burst": {"any": [{"figure": "a", "source": "b", "max": 1, "min": 1}]}}`,
		`{"burst": {"any": [{"figure": "a", "source": "b", "max": 1, "of": "best"}]}}`,
		`{"burst": {"any": [{"figure": "a", "source": "b", "maximum": 1}]}}`,
	} {
		if _, err := ParseRangeSpec([]byte(`{"lamp": ` + content + `}`)); err == nil {
			t.Errorf("%s is accepted", content)
		}
	}
}

func TestConclude(t *testing.T) {
	limits := []Limit{{Figure: "a", Max: ptr.To(2.0), Source: "test"}}
	rep := func(a, foreign float64, errors ...string) Rep {
		return Rep{Figures: Figures{"a": a}, ForeignCPU: foreign, Errors: errors}
	}
	discarded := rep(9, 1)
	discarded.Discarded = "drift"
	wrong := rep(9, 0, "lost")
	wrong.Discarded = "drift"
	for name, test := range map[string]struct {
		reps  []Rep
		exact bool
		want  string
	}{
		"good":                    {[]Rep{rep(1, 0)}, false, Pass},
		"a gate does not hold":    {[]Rep{rep(3, 0)}, false, Fail},
		"contended":               {[]Rep{rep(1, 0.06)}, false, Contended},
		"counts are not":          {[]Rep{rep(1, 0.06)}, true, Pass},
		"an error":                {[]Rep{rep(1, 0, "lost")}, false, Fail},
		"discarded do not count":  {[]Rep{discarded, rep(1, 0)}, false, Pass},
		"all discarded":           {[]Rep{discarded}, false, Fail},
		"an error in a discarded": {[]Rep{wrong, rep(1, 0)}, false, Fail},
		"a figure is missing":     {[]Rep{rep(1, 0), {Figures: Figures{}}}, false, Fail},
	} {
		t.Run(name, func(t *testing.T) {
			r := Report{Reps: test.reps}
			r.Conclude(limits, 1, test.exact)
			if r.Verdict != test.want {
				t.Errorf("the verdict is %s, want %s: %+v", r.Verdict, test.want, r)
			}
			if r.Contended && r.Gates[0].Pass {
				t.Error("a gate passes on a contended machine")
			}
		})
	}
}

func TestConcludeWithTooLittle(t *testing.T) {
	limits := []Limit{{Figure: "a", Max: ptr.To(2.0), Source: "test"}}
	r := Report{Reps: []Rep{{Figures: Figures{"a": 1}}}}
	if r.Conclude(limits, 2, false); r.Verdict != Fail {
		t.Errorf("one of two repetitions counts, and the verdict is %s", r.Verdict)
	}
	r = Report{Reps: []Rep{{Figures: Figures{"a": 1}}}}
	if r.Conclude(nil, 1, false); r.Verdict != Fail {
		t.Errorf("nothing is judged, and the verdict is %s", r.Verdict)
	}
}

func TestTable(t *testing.T) {
	r := Report{Scenario: "burst", N: 10, Reps: []Rep{{
		Figures:    Figures{"total_s": 1.5, "calls_create": 5, "ceiling_rate": 40},
		FloorDrift: 0.03, FloorDriftRaw: 0.25, Pace: &Paces{Before: 2, Window: 2.5, After: 2.25},
	}}}
	r.Conclude([]Limit{{Figure: "total_s", Max: ptr.To(1.0), Source: "test"}}, 1, false)
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"burst", "1.50", "5/-/-/-/-", "<= 1", "fail", "40 to 40, corrected by pace", "corrected by pace; raw 25 %", "2, 2.50, 2.25"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the table:\n%s", want, out.String())
		}
	}
}

func TestPaces(t *testing.T) {
	if got := (Paces{Before: 2, Window: 3, After: 2.5}).Drift(); math.Abs(got-0.4) > 1e-9 {
		t.Errorf("the paces are %v apart", got)
	}
	floor := Floor{Pace: 2, Costs: map[string]Cost{"create": {CPU: 3, Rate: 600}}}
	if got, want := floor.At(4).Costs["create"], (Cost{CPU: 6, Rate: 300}); got != want {
		t.Errorf("on a machine of half the speed it is %v, want %v", got, want)
	}
	if got := floor.At(4).At(2).Costs["create"]; got != floor.Costs["create"] {
		t.Errorf("there and back it is %v", got)
	}
}

func TestFiguresDropWhatIsNoNumber(t *testing.T) {
	f := Figures{}
	f.Put("a", math.NaN())
	f.Put("b", 1)
	if len(f) != 1 {
		t.Errorf("figures are %v", f)
	}
}
