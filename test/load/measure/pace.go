package measure

// Paced is a cost in CPU-milliseconds that was measured at one pace of the machine, as it would
// be at another. What both paces are is told by package machine.
func Paced(cost, measured, other float64) float64 { return cost * other / measured }

// Floor is what bare writes cost.
type Floor struct {
	// Costs are by operation, as measured.
	Costs map[string]Cost
	// Pace is the machine's while they were measured.
	Pace float64
}

// At is a floor as it would be at another pace.
func (f Floor) At(pace float64) Floor {
	at := Floor{Costs: map[string]Cost{}, Pace: pace}
	for op, c := range f.Costs {
		at.Costs[op] = Cost{CPU: Paced(c.CPU, f.Pace, pace), Rate: Paced(c.Rate, pace, f.Pace)}
	}
	return at
}

// Paces are those of a repetition: CPU-milliseconds for a fixed piece of work, so less is faster.
type Paces struct {
	Before float64 `json:"before"`
	Window float64 `json:"window"`
	After  float64 `json:"after"`
}

// Drift is how far they are apart.
func (p Paces) Drift() float64 {
	return Drift(min(p.Before, p.Window, p.After), max(p.Before, p.Window, p.After))
}

// corrected are the figures that are compared in units of the pace.
var corrected = []string{"ceiling_percent", "ceiling_rate", "cpu_all_paced", "floor_drift", "minimal_cpu_percent"}
