package measure

import (
	"math"
	"slices"
	"time"
)

// Quantile is the q-quantile of samples, which need not be sorted: the smallest sample that at
// least the share q of them does not exceed. There is none of no samples: NaN.
func Quantile(samples []time.Duration, q float64) float64 {
	if len(samples) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(samples))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return Milliseconds(sorted[min(max(rank, 0), len(sorted)-1)])
}

// Milliseconds is a duration as the figures have it.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Range is what the repetitions of a measurement came to.
type Range struct {
	Median, Min, Max float64
}

// RangeOf is the range of the values of all repetitions; never the best alone.
func RangeOf(values []float64) Range {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return Range{math.NaN(), math.NaN(), math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return Range{Median: (sorted[(n-1)/2] + sorted[n/2]) / 2, Min: sorted[0], Max: sorted[n-1]}
}

// Drift is how far apart two figures of the same thing are, as a share of their mean.
func Drift(a, b float64) float64 {
	if a+b == 0 {
		return 0
	}
	return math.Abs(a-b) / ((a + b) / 2)
}
