package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/labkeeper/labkeeper/test/load/machine"
)

// MaxForeign is the share of the machine that others may use before a run is contended.
const MaxForeign = 0.05

// Figures are what a repetition came to, by name.
type Figures map[string]float64

// Put sets a figure; one that is not a number was not taken.
func (f Figures) Put(name string, value float64) {
	if !math.IsNaN(value) && !math.IsInf(value, 0) {
		f[name] = value
	}
}

// Cost is what an operation costs the machine.
type Cost struct {
	// CPU is in CPU-milliseconds per operation, of all processes together.
	CPU float64 `json:"cpu_ms"`
	// Rate is in operations per second.
	Rate float64 `json:"rate"`
}

// Rep is one repetition.
type Rep struct {
	Figures Figures `json:"figures"`
	// Before and After are the floor on both sides, by operation.
	Before map[string]Cost `json:"floor_before,omitempty"`
	After  map[string]Cost `json:"floor_after,omitempty"`
	// FloorDrift is how far apart they are in what the minimal writes of an object cost, each
	// corrected by the pace of its time. FloorDriftRaw is without the correction.
	FloorDrift    float64 `json:"floor_drift"`
	FloorDriftRaw float64 `json:"floor_drift_raw"`
	// Empty is the floor of a new store, measured last when Before and After are further apart than
	// a repetition may be. GrownDrift is how far those are then, and FloorDrift how far Before and
	// Empty are: a store that has grown makes writes dearer, and that is no change of the machine. What is held to
	// a ceiling is held to that of Before and Empty then.
	Empty      map[string]Cost `json:"floor_empty,omitempty"`
	GrownDrift float64         `json:"floor_drift_grown,omitempty"`
	// Pace is how fast the machine was, and PaceDrift how far that was apart.
	Pace      *Paces  `json:"pace,omitempty"`
	PaceDrift float64 `json:"pace_drift"`
	// ForeignCPU is the share of the machine that others used.
	ForeignCPU float64 `json:"foreign_cpu"`
	// Utilisation is the share that we used.
	Utilisation float64 `json:"utilisation"`
	StealMS     float64 `json:"steal_ms"`
	// CPUms is what each program used, in CPU-milliseconds.
	CPUms map[string]float64 `json:"cpu_ms"`
	// Errors fail the run.
	Errors []string `json:"errors,omitempty"`
	// Discarded says why the repetition does not count; it was repeated.
	Discarded string `json:"discarded,omitempty"`
}

// Report is what a run came to.
type Report struct {
	Subject    string           `json:"subject"`
	Scenario   string           `json:"scenario"`
	N          int              `json:"n"`
	Machine    machine.Host     `json:"machine"`
	Versions   machine.Versions `json:"versions"`
	Flags      []string         `json:"flags"`
	Floor      map[string]Cost  `json:"floor"`
	ForeignCPU float64          `json:"foreign_cpu"`
	// Contended: others used so much of the machine that nothing timed can be believed.
	Contended bool  `json:"contended"`
	Reps      []Rep `json:"reps"`
	// Corrected are the names of the figures that are at another pace of the machine than they
	// were measured at; all others, every cost of an operation or a program too, are raw.
	Corrected []string `json:"corrected_by_pace"`
	// Summary is the median, smallest and largest of each figure.
	Summary map[string]Range `json:"summary"`
	Gates   []Gate           `json:"gates"`
	Errors  []string         `json:"errors,omitempty"`
	Verdict string           `json:"verdict"`
}

// Verdicts of a run.
const (
	Pass      = "pass"
	Fail      = "fail"
	Contended = "contended"
)

// Conclude fills in what follows from the repetitions, of which so many must count. exact is a
// scenario of counts, which others on the machine cannot change.
func (r *Report) Conclude(limits []Limit, reps int, exact bool) {
	r.Summary, r.Floor, r.Corrected = map[string]Range{}, map[string]Cost{}, corrected
	counted := slices.DeleteFunc(slices.Clone(r.Reps), func(rep Rep) bool { return rep.Discarded != "" })
	values := map[string][]float64{}
	floors := map[string][]Cost{}
	for _, rep := range counted {
		for name, v := range rep.Figures {
			values[name] = append(values[name], v)
		}
		for _, side := range []map[string]Cost{rep.Before, rep.After} {
			for op, cost := range side {
				floors[op] = append(floors[op], cost)
			}
		}
		r.ForeignCPU = max(r.ForeignCPU, rep.ForeignCPU)
	}
	for _, rep := range r.Reps {
		r.Errors = append(r.Errors, rep.Errors...)
	}
	for name, v := range values {
		if len(v) == len(counted) { // a figure that one of them lacks was not taken
			r.Summary[name] = RangeOf(v)
		}
	}
	for op, costs := range floors {
		r.Floor[op] = mean(costs)
	}
	if len(counted) < reps {
		r.Errors = append(r.Errors, fmt.Sprintf("%d of %d repetitions count", len(counted), reps))
	}
	if len(limits) == 0 {
		r.Errors = append(r.Errors, "there are no limits to judge it by")
	}
	r.Contended = !exact && r.ForeignCPU > MaxForeign
	r.Gates = Judge(limits, r.Summary)
	r.Verdict = r.verdict()
}

func (r *Report) verdict() string {
	switch {
	case len(r.Errors) > 0:
		return Fail
	case r.Contended:
		for i := range r.Gates {
			r.Gates[i].Pass = false
		}
		return Contended
	case slices.ContainsFunc(r.Gates, func(g Gate) bool { return !g.Pass }):
		return Fail
	}
	return Pass
}

func mean(costs []Cost) Cost {
	var sum Cost
	for _, c := range costs {
		sum.CPU += c.CPU
		sum.Rate += c.Rate
	}
	n := float64(len(costs))
	return Cost{CPU: sum.CPU / n, Rate: sum.Rate / n}
}

// WriteFile writes the report as JSON.
func (r *Report) WriteFile(path string) error {
	encoded, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding report: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(encoded, '\n'), 0o644)
}

// columns of the table, and the figures that each shows.
var columns = []struct {
	title   string
	figures []string
}{
	{"total s", []string{"total_s"}},
	{"obj/s", []string{"rate"}},
	{"% of ceiling (paced)", []string{"ceiling_percent"}},
	{"p50 ms", []string{"reaction_p50_ms"}},
	{"p99 ms", []string{"reaction_p99_ms"}},
	{"calls/obj C/P/G/D/E", []string{"calls_create", "calls_patch", "calls_get", "calls_delete", "calls_event"}},
	{"cpu-ms/obj mgr/api/etcd", []string{"cpu_manager", "cpu_apiserver", "cpu_etcd"}},
	{"RSS MB", []string{"rss_mb"}},
}

// WriteTable writes the report for people.
func (r *Report) WriteTable(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	titles, row := []string{"scenario", "n"}, []string{r.Scenario, fmt.Sprint(r.N)}
	for _, c := range columns {
		var shown []string
		for _, figure := range c.figures {
			shown = append(shown, r.median(figure))
		}
		titles, row = append(titles, c.title), append(row, strings.Join(shown, "/"))
	}
	fmt.Fprintf(t, "%s\tverdict\n%s\t%s\n", strings.Join(titles, "\t"), strings.Join(row, "\t"), r.Verdict)
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nfigures (median, smallest to largest of the repetitions)\n")
	for _, name := range slices.Sorted(maps.Keys(r.Summary)) {
		s := r.Summary[name]
		fmt.Fprintf(t, "  %s\t%s\t%s to %s%s\n", name, Number(s.Median), Number(s.Min), Number(s.Max), note(name))
	}
	for _, op := range slices.Sorted(maps.Keys(r.Floor)) {
		fmt.Fprintf(t, "  floor: %s\t%s\tcpu-ms/op, %s/s\n", op, Number(r.Floor[op].CPU), Number(r.Floor[op].Rate))
	}
	for i, rep := range r.Reps {
		if p := rep.Pace; p != nil {
			fmt.Fprintf(t, "  floor drift of repetition %d\t%s %%\tcorrected by pace; raw %s %%; pace before, in and after the window %s, %s, %s cpu-ms\n",
				i+1, Number(100*rep.FloorDrift), Number(100*rep.FloorDriftRaw), Number(p.Before), Number(p.Window), Number(p.After))
		}
		if rep.Empty != nil {
			fmt.Fprintf(t, "  floor drift of repetition %d with the growth of its store\t%s %%\tthat without is by the floor of a new one\n", i+1, Number(100*rep.GrownDrift))
		}
	}
	fmt.Fprintf(t, "  foreign CPU\t%s %%\tat most %s %%\n", Number(100*r.ForeignCPU), Number(100*MaxForeign))
	if len(r.Gates) > 0 {
		fmt.Fprintf(t, "\ngates\n")
	}
	for _, g := range r.Gates {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t(%s)\n", g.Name, Number(g.Value), g.Limit, r.word(g), g.Source)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, rep := range r.Reps {
		if rep.Discarded != "" {
			fmt.Fprintln(w, "discarded:", rep.Discarded)
		}
	}
	for _, e := range r.Errors {
		fmt.Fprintln(w, "error:", e)
	}
	return nil
}

// note says which figures are not raw.
func note(figure string) string {
	if slices.Contains(corrected, figure) {
		return ", corrected by pace"
	}
	return ""
}

func (r *Report) word(g Gate) string {
	switch {
	case r.Contended:
		return Contended
	case g.Pass:
		return Pass
	}
	return Fail
}

func (r *Report) median(figure string) string {
	if s, ok := r.Summary[figure]; ok {
		return Number(s.Median)
	}
	return "-"
}
