package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Interval is half-open: Start belongs to it and End does not.
type Interval struct {
	Start time.Time // zero: began before the Horizon
	End   time.Time // zero: does not end within the Horizon
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// span is an Interval by the instants of a clock.
type span struct{ start, end int64 }

func (s span) empty() bool { return s.start >= s.end }

// cut returns the part of s within bounds, which may be empty.
func cut(s, bounds span) span { return span{max(s.start, bounds.start), min(s.end, bounds.end)} }

// merge sorts list, in place, and makes one of spans that overlap or touch.
func merge(list []span) []span {
	list = slices.DeleteFunc(list, span.empty)
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	merged := list[:0]
	for _, s := range list {
		if n := len(merged); n > 0 && s.start <= merged[n-1].end {
			merged[n-1].end = max(merged[n-1].end, s.end)
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// subtract returns what of list is not in holes. Both are merged, and so is the result.
func subtract(list, holes []span) []span {
	if len(holes) == 0 {
		return list
	}
	left := make([]span, 0, len(list))
	for _, s := range list {
		for len(holes) > 0 && holes[0].end <= s.start {
			holes = holes[1:]
		}
		for _, hole := range holes {
			if hole.start >= s.end {
				break
			}
			if s.start < hole.start {
				left = append(left, span{s.start, hole.start})
			}
			s.start = hole.end
		}
		if !s.empty() {
			left = append(left, s)
		}
	}
	return left
}

// covering returns the span of list, which is merged, that an instant is in; false for none.
func covering(list []span, at int64) (span, bool) {
	n, found := slices.BinarySearchFunc(list, at, func(s span, at int64) int { return cmp.Compare(s.start, at) })
	switch {
	case found:
		return list[n], true
	case n > 0 && at < list[n-1].end:
		return list[n-1], true
	}
	return span{}, false
}
