package schedule

import "math/bits"

// minutes are some days of the wall clock, a bit for each minute.
type minutes struct {
	origin int64 // wall time of the first bit
	words  []uint64
}

const wordSize = 64

// newMinutes returns the minutes of the days first to last, none of which is set.
func newMinutes(first, last int64) *minutes {
	count := (last - first + 1) * (day / minute)
	return &minutes{origin: first * day, words: make([]uint64, (count+wordSize-1)/wordSize)}
}

// set sets those from a wall time to another, neither of which has seconds.
func (m *minutes) set(start, end int64) {
	at := max(start-m.origin, 0) / minute
	for limit := min((end-m.origin)/minute, m.size()); at < limit; {
		count := min(wordSize-at%wordSize, limit-at)
		m.words[at/wordSize] |= ^uint64(0) >> (wordSize - count) << (at % wordSize)
		at += count
	}
}

func (m *minutes) size() int64 { return int64(len(m.words)) * wordSize }

// count is how many runs there are, or more.
func (m *minutes) count() int {
	starts := 0
	for _, word := range m.words {
		starts += bits.OnesCount64(word &^ (word << 1))
	}
	return starts
}

// runs yields the wall times of those that are set, in order, and none that touch.
func (m *minutes) runs(yield func(start, end int64)) {
	for start := m.next(0, true); start < m.size(); {
		end := m.next(start, false)
		yield(m.origin+start*minute, m.origin+end*minute)
		start = m.next(end, true)
	}
}

// next returns the first minute from one on that is set, or is not; all of them are before size.
func (m *minutes) next(from int64, set bool) int64 {
	for from < m.size() {
		word := m.words[from/wordSize]
		if !set {
			word = ^word
		}
		if word >>= from % wordSize; word != 0 {
			return from + int64(bits.TrailingZeros64(word))
		}
		from += wordSize - from%wordSize
	}
	return m.size()
}
