package schedule

import (
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

func (i Interval) empty() bool { return !i.Start.Before(i.End) }

// cut returns the part of i within bounds, which may be empty.
func cut(i, bounds Interval) Interval {
	return Interval{later(i.Start, bounds.Start), earlier(i.End, bounds.End)}
}

// cutAll cuts every interval of list, in place, and drops those of which nothing is left.
func cutAll(list []Interval, bounds Interval) []Interval {
	for i := range list {
		list[i] = cut(list[i], bounds)
	}
	return slices.DeleteFunc(list, Interval.empty)
}

// merge sorts list, in place, and makes one of intervals that overlap or touch.
func merge(list []Interval) []Interval {
	list = slices.DeleteFunc(list, Interval.empty)
	slices.SortFunc(list, func(a, b Interval) int { return a.Start.Compare(b.Start) })
	merged := list[:0]
	for _, i := range list {
		if n := len(merged); n > 0 && !i.Start.After(merged[n-1].End) {
			merged[n-1].End = later(merged[n-1].End, i.End)
			continue
		}
		merged = append(merged, i)
	}
	return merged
}

// subtract returns what of list is not in holes. Both are merged, and so is the result.
func subtract(list, holes []Interval) []Interval {
	if len(holes) == 0 {
		return list
	}
	var left []Interval
	for _, i := range list {
		for len(holes) > 0 && !holes[0].End.After(i.Start) {
			holes = holes[1:]
		}
		for _, hole := range holes {
			if !hole.Start.Before(i.End) {
				break
			}
			if i.Start.Before(hole.Start) {
				left = append(left, Interval{i.Start, hole.Start})
			}
			i.Start = hole.End
		}
		if !i.empty() {
			left = append(left, i)
		}
	}
	return left
}

// contains tells whether t is in one of the intervals of list, which is merged.
func contains(list []Interval, t time.Time) bool {
	n, found := slices.BinarySearchFunc(list, t, func(i Interval, t time.Time) int { return i.Start.Compare(t) })
	return found || n > 0 && t.Before(list[n-1].End)
}
