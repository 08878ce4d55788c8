package experimentdeployment

import "testing"

// BenchmarkPlan is what is decided about a twin that has nothing to be done for.
func BenchmarkPlan(b *testing.B) {
	f := settled(b, newFacts(b, `{minReadySeconds: 5}`))
	f.drafts = newDrafts()
	for b.Loop() {
		if p := f.plan(); p.Action != Nothing {
			b.Fatalf("it is written: %+v", p)
		}
	}
}

// BenchmarkPass is a whole pass over such a twin, before an API server in memory, which takes much of it.
func BenchmarkPass(b *testing.B) {
	l := newLab(b, faster(b, `{minReadySeconds: 5}`), object(b, web))
	l.passed()
	l.ready(1)
	l.passed()
	for b.Loop() {
		if _, writes := l.passed(); len(writes) > 0 {
			b.Fatalf("it writes %v", writes)
		}
	}
}
