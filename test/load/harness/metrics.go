package harness

import (
	"strconv"
	"strings"
)

// Metrics are samples in the text format of Prometheus, by name with labels.
type Metrics map[string]float64

// ParseMetrics reads the text format.
func ParseMetrics(text string) Metrics {
	m := Metrics{}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		space := strings.LastIndexByte(line, ' ') // labels may have spaces, samples have no time here
		if space < 0 {
			continue
		}
		if v, err := strconv.ParseFloat(line[space+1:], 64); err == nil {
			m[line[:space]] += v
		}
	}
	return m
}

// Sum adds up the samples of a name that have all these labels, each as name="value".
func (m Metrics) Sum(name string, labels ...string) float64 {
	var sum float64
	for sample, v := range m {
		if base, rest, _ := strings.Cut(sample, "{"); base == name && containsAll(rest, labels) {
			sum += v
		}
	}
	return sum
}

// Applies are how often the API server has let somebody apply objects that were there, not only their statuses, by its own
// metrics. Of those who live here only the manager applies.
func (m Metrics) Applies() float64 {
	return m.Sum("apiserver_request_total", `verb="APPLY"`, `code="200"`, `subresource=""`)
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains("{"+s, "{"+part) && !strings.Contains(s, ","+part) {
			return false
		}
	}
	return true
}
