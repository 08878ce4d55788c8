package harness

import (
	"context"
	"fmt"
	"time"

	"github.com/labkeeper/labkeeper/test/load/machine"
	"github.com/labkeeper/labkeeper/test/load/measure"
)

// maxDrift is how far the floors of a repetition may be apart.
const maxDrift = 0.10

// Scenario is something that is measured.
type Scenario struct {
	Name string
	// About says what it does, in a line.
	About string
	// Counts says that it counts and times nothing: it needs no floor, and others on the
	// machine do not matter. The audit log is on.
	Counts bool
	// Subject is the one to measure where none is asked for; empty for the usual one.
	Subject string
	// Peers says that it measures a peer beside the subject.
	Peers bool
	// N and Least are how many objects it takes by default and at least.
	N, Least int
	// Run measures n objects in a new lab.
	Run func(ctx context.Context, l *Lab, n int) (measure.Figures, error)
}

// Repeat takes one repetition of a scenario.
func Repeat(ctx context.Context, subject *Subject, scenario Scenario, n int, o Options) (measure.Rep, error) {
	o.Audit = scenario.Counts
	l, err := Start(ctx, subject, o)
	if err != nil {
		return measure.Rep{}, err
	}
	defer func() { _ = l.Stop() }() // nothing is lost by what it might say
	rep := measure.Rep{}
	if !scenario.Counts {
		o.Tell("measuring the floor")
		if l.Before, err = l.Floor(ctx, "before"); err != nil {
			return rep, err
		}
	}
	o.Tell("running %s with %d", scenario.Name, n)
	if rep.Figures, err = scenario.Run(ctx, l, n); err != nil {
		rep.Errors, rep.ForeignCPU = append(l.Errors(), err.Error()), l.foreignUpToNow()
		return rep, nil
	}
	if l.window != nil {
		l.window.put(&rep)
	}
	rep.Errors = l.Errors() // of managers that end by themselves, before they are told to
	if err := l.Rest(); err != nil {
		rep.Errors = append(rep.Errors, err.Error())
	}
	rep.ForeignCPU = l.foreign
	if scenario.Counts {
		return rep, nil
	}
	after, err := l.Floor(ctx, "after")
	if err != nil {
		return rep, err
	}
	rep.ForeignCPU = l.foreign
	l.compare(&rep, after)
	if l.drifted(rep) && !l.filled {
		err = l.compareEmpty(ctx, &rep)
	}
	if l.drifted(rep) {
		rep.Discarded = fmt.Sprintf("the floor has drifted by %s %%, corrected by the pace of the machine", measure.Number(100*rep.FloorDrift))
	}
	return rep, err
}

// drifted says whether the floors tell that the machine has changed. Where there were errors or others
// on the machine, those are the reason, and another try is no better.
func (l *Lab) drifted(rep measure.Rep) bool {
	return len(rep.Errors) == 0 && rep.FloorDrift > maxDrift && rep.ForeignCPU <= measure.MaxForeign
}

// compareEmpty tells whether it was the machine that has changed or the store that has grown, by the
// floor of a new lab, whose store is as empty as this one's was before. It ends this one.
func (l *Lab) compareEmpty(ctx context.Context, rep *measure.Rep) error {
	l.Tell("measuring the floor of an empty store")
	if err := l.Stop(); err != nil {
		return err
	}
	o := l.options
	o.LogDir = ""
	fresh, err := Start(ctx, l.Subject, o)
	if err != nil {
		return err
	}
	defer func() { _ = fresh.Stop() }() // nothing is lost by what it might say
	empty, err := fresh.Floor(ctx, "empty")
	if err != nil {
		return err
	}
	rep.Empty, rep.GrownDrift = empty.Costs, rep.FloorDrift
	rep.FloorDrift = FloorDrift(l.Subject.Minimal, l.Before, empty.At(l.Before.Pace))
	rep.FloorDriftRaw = FloorDrift(l.Subject.Minimal, l.Before, empty)
	l.putCeilings(rep, empty) // the dearer floor of the grown store would flatter what is held to it
	rep.ForeignCPU = max(rep.ForeignCPU, fresh.foreign)
	return nil
}

// foreignUpToNow is what others used, for a measurement that did not come to its end.
func (l *Lab) foreignUpToNow() float64 {
	if l.window == nil {
		return l.foreign
	}
	now, err := machine.Look()
	if err != nil {
		return l.foreign
	}
	return max(l.foreign, now.Since(l.window.start).ForeignShare(l.cores()))
}

// put puts what was used into a repetition.
func (w *Window) put(rep *measure.Rep) {
	rep.CPUms = map[string]float64{}
	for program, used := range w.usage.Programs {
		rep.CPUms[program] = measure.Milliseconds(used)
	}
	rep.Utilisation = w.usage.Utilisation(w.lab.cores())
	rep.StealMS = measure.Milliseconds(w.usage.Steal)
}

// compare puts what follows from the floors on both sides into a repetition.
func (l *Lab) compare(rep *measure.Rep, after measure.Floor) {
	before, pace := l.Before, measure.Paces{Before: l.Before.Pace, After: after.Pace}
	if l.window != nil {
		pace.Window = l.window.pace
	}
	if pace.Window == 0 { // nothing was measured at once
		pace.Window = (before.Pace + after.Pace) / 2
	}
	rep.Before, rep.After = before.Costs, after.Costs
	rep.Pace, rep.PaceDrift = &pace, pace.Drift()
	rep.FloorDrift, rep.FloorDriftRaw = FloorDrift(l.Subject.Minimal, before, after.At(before.Pace)), FloorDrift(l.Subject.Minimal, before, after)
	l.putCeilings(rep, after)
}

// putCeilings puts the shares of what the machine could have done, at the pace of the window and as measured, by the
// floor before and another.
func (l *Lab) putCeilings(rep *measure.Rep, after measure.Floor) {
	l.putCeiling(*rep, l.Before.At(rep.Pace.Window), after.At(rep.Pace.Window))
	if rate, ok := rep.Figures["rate"]; ok {
		rep.Figures.Put("ceiling_percent_raw", 100*rate/l.ceiling(l.Before, after))
	}
}

// ceiling is how many objects a second the machine could do by the mean of two floors.
func (l *Lab) ceiling(before, after measure.Floor) float64 {
	return 1000 * float64(l.cores()) / ((l.minimal(before) + l.minimal(after)) / 2)
}

// putCeiling puts the share of what the machine could have done into the figures: objects a
// second, if nothing but the minimal writes were made, at what they cost on the floor. Both
// floors are at the pace of the window.
func (l *Lab) putCeiling(rep measure.Rep, before, after measure.Floor) {
	minimal, ceiling := (l.minimal(before)+l.minimal(after))/2, l.ceiling(before, after)
	rep.Figures.Put("ceiling_rate", ceiling)
	if rate, ok := rep.Figures["rate"]; ok {
		rep.Figures.Put("ceiling_percent", 100*rate/ceiling)
		rep.Figures.Put("minimal_cpu_percent", 100*minimal/rep.Figures["cpu_all"])
	}
}

// minimal is what the minimal writes of an object cost on a floor, in CPU-milliseconds.
func (l *Lab) minimal(floor measure.Floor) float64 {
	return l.Subject.Minimal.cost(floor, manyClients)
}

// Takes is how long writes take at the rate of the floor before, with many clients at once.
func (l *Lab) Takes(w Writes) time.Duration {
	seconds := float64(w.Creates)/l.Before.Costs[floorCreate(manyClients)].Rate + float64(w.Patches)/l.Before.Costs[floorStatus(manyClients)].Rate
	return time.Duration(seconds * float64(time.Second))
}

// Ceiling is how many objects a second the machine can do at most, by the floor before.
func (l *Lab) Ceiling() float64 { return l.ceiling(l.Before, l.Before) }
