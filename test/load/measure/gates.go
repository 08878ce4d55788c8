package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Limit is what a figure is held to.
type Limit struct {
	// Figure is its name.
	Figure string `json:"figure"`
	// Max, Min and Equals: one of them is set.
	Max    *float64 `json:"max,omitempty"`
	Min    *float64 `json:"min,omitempty"`
	Equals *float64 `json:"equals,omitempty"`
	// Of is the repetition that counts: the median by default, or the "worst".
	Of string `json:"of,omitempty"`
	// Source says where the limit comes from: a goal, or the runs whose mean plus 20 % it is.
	Source string `json:"source"`
}

// RangeSpec are the limits by subject, scenario and n; those of "any" hold for every n.
type RangeSpec map[string]map[string]map[string][]Limit

// ParseRangeSpec reads and checks a file of limits.
func ParseRangeSpec(content []byte) (RangeSpec, error) {
	var spec RangeSpec
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&spec); err != nil {
		return nil, fmt.Errorf("reading limits: %w", err)
	}
	for subject, scenarios := range spec {
		for scenario, byN := range scenarios {
			if err := check(byN); err != nil {
				return nil, fmt.Errorf("reading limits: %s: %s: %w", subject, scenario, err)
			}
		}
	}
	return spec, nil
}

func check(byN map[string][]Limit) error {
	for n, limits := range byN {
		if _, err := strconv.Atoi(n); err != nil && n != "any" {
			return fmt.Errorf("%q is neither a count nor any", n)
		}
		for _, l := range limits {
			if err := l.check(); err != nil {
				return fmt.Errorf("%s: %w", n, err)
			}
		}
	}
	return nil
}

func (l Limit) check() error {
	set := 0
	for _, v := range []*float64{l.Max, l.Min, l.Equals} {
		if v != nil {
			set++
		}
	}
	switch {
	case l.Figure == "" || l.Source == "":
		return fmt.Errorf("a limit needs a figure and a source: %+v", l)
	case set != 1:
		return fmt.Errorf("%s: set one of max, min and equals", l.Figure)
	case l.Of != "" && l.Of != "worst":
		return fmt.Errorf("%s: of is %q; it can be worst", l.Figure, l.Of)
	}
	return nil
}

// For are the limits of a run.
func (s RangeSpec) For(subject, scenario string, n int) []Limit {
	byN := s[subject][scenario]
	return append(append([]Limit{}, byN["any"]...), byN[strconv.Itoa(n)]...)
}

// Gate is a verdict on a figure.
type Gate struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit string  `json:"limit"`
	Pass  bool    `json:"pass"`
	// Source of the limit.
	Source string `json:"source"`
}

// Judge holds figures to limits. A figure that was not taken does not pass.
func Judge(limits []Limit, figures map[string]Range) []Gate {
	gates := make([]Gate, 0, len(limits))
	for _, l := range limits {
		gates = append(gates, l.judge(figures))
	}
	return gates
}

func (l Limit) judge(figures map[string]Range) Gate {
	r, taken := figures[l.Figure]
	g := Gate{Name: l.Figure, Source: l.Source, Value: r.Median}
	switch {
	case l.Max != nil:
		g.Limit = "<= " + Number(*l.Max)
		if l.Of == "worst" {
			g.Value = r.Max
		}
		g.Pass = g.Value <= *l.Max
	case l.Min != nil:
		g.Limit = ">= " + Number(*l.Min)
		if l.Of == "worst" {
			g.Value = r.Min
		}
		g.Pass = g.Value >= *l.Min
	default: // exact: every repetition counts
		g.Limit = "= " + Number(*l.Equals)
		g.Pass = r.Min == *l.Equals && r.Max == *l.Equals
		if r.Min != *l.Equals {
			g.Value = r.Min
		} else {
			g.Value = r.Max
		}
	}
	if !taken || math.IsNaN(g.Value) {
		g.Value, g.Pass, g.Limit = 0, false, g.Limit+" (not measured)"
	}
	return g
}

// Number is a figure as people read it.
func Number(v float64) string {
	switch abs := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) && abs < 1e6:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}
