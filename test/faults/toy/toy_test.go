package toy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/labkeeper/labkeeper/test/faults"
)

// label is that of the balls of a Box, with its UID.
const label = "toys.example.com/box"

var installation = faults.Installation{
	CRDs:             []string{"test/faults/toy/crd.yaml"},
	Manifests:        []string{"test/faults/toy/installation.yaml"},
	AccountNamespace: "toys",
	Account:          "toy-manager",
	Package:          "./test/faults/toy/manager",
}

var world = faults.World{
	Kinds: []schema.GroupVersionResource{
		{Group: "toys.example.com", Version: "v1", Resource: "boxes"},
		{Version: "v1", Resource: "configmaps"},
	},
	Run: func(u *unstructured.Unstructured) string {
		if u.GetKind() != "Box" && u.GetLabels()[label] == "" {
			return "" // every namespace has a ConfigMap of its own
		}
		return u.GetNamespace()
	},
	Role: func(u *unstructured.Unstructured) string {
		if u.GetKind() != "Box" && u.GetGenerateName() == "" {
			return "Ball " + u.GetName()
		}
		return map[string]string{"Box": "Box", "ConfigMap": "Ball"}[u.GetKind()]
	},
	Owner: func(u *unstructured.Unstructured) types.UID { return types.UID(u.GetLabels()[label]) },
	Rank: func(u *unstructured.Unstructured) (int, bool) {
		rank, ok := map[string]int{"Filling": 0, "Full": 1}[phase(u)]
		return rank, ok
	},
	Play:    paint,
	Manager: func(namespace string) []string { return []string{"--namespace=" + namespace} },
}

func phase(u *unstructured.Unstructured) string {
	phase, _, _ := unstructured.NestedString(u.Object, "status", "phase")
	return phase
}

// paint paints the balls of a Box when it tells that it has all of them.
func paint(ctx context.Context, stage *faults.Stage, state faults.State) error {
	for _, box := range state.Of("Box") {
		made, _, _ := unstructured.NestedInt64(box.Object, "status", "made")
		if want, _, _ := unstructured.NestedInt64(box.Object, "spec", "balls"); made < want {
			return nil
		}
	}
	for _, ball := range state.Of("ConfigMap") {
		if painted, _, _ := unstructured.NestedString(ball.Object, "data", "painted"); painted != "" {
			continue
		}
		change, err := json.Marshal(map[string]any{"data": map[string]string{"painted": "red"}})
		if err != nil {
			return err
		}
		if err := stage.Client.Patch(ctx, ball.DeepCopy(), client.RawPatch(types.MergePatchType, change)); err != nil {
			return fmt.Errorf("painting %s: %w", ball.GetName(), err)
		}
	}
	return nil
}

// box is a Box with two balls.
func box() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "toys.example.com/v1", "kind": "Box",
		"metadata": map[string]any{"name": "box"}, "spec": map[string]any{"balls": int64(2)},
	}}
}

func isFull(s faults.State) bool {
	boxes := s.Of("Box")
	return len(boxes) == 1 && phase(boxes[0]) == "Full"
}

var workloads = []faults.Workload{
	{Name: "fill", Objects: []*unstructured.Unstructured{box()}, Done: isFull},
	{
		Name:    "fill-delete",
		Objects: []*unstructured.Unstructured{box()},
		Steps: []faults.Step{{When: isFull, Do: func(ctx context.Context, s *faults.Stage) error {
			b := box()
			b.SetNamespace(s.Namespace)
			return s.Client.Delete(ctx, b)
		}}},
		Done: func(s faults.State) bool { return len(s.Of("Box")) == 0 },
	},
}

// A reconciler that is right passes, and one that is not is caught by the oracles that are there
// for it: what was made before the crash is made once more.
func TestToy(t *testing.T) {
	lab := faults.Begin(t, installation, world)
	// The harness starts a manager with the flags of the world; this one has one more.
	script := "#!/bin/sh\nexec " + lab.Binary() + ` -careless "$@"` + "\n"
	if err := os.WriteFile(filepath.Join(lab.Dir(), "careless"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("right", func(t *testing.T) { right(t, lab) })
	t.Run("several kills", func(t *testing.T) { several(t, lab) })
	t.Run("alone", func(t *testing.T) { alone(t, lab.With(filepath.Join(lab.Dir(), "careless"))) })
	// These wait for a manager that does nothing, one beside the other.
	for name, test := range map[string]func(*testing.T, *faults.Lab){"only several kills": onlySeveral, "slow": slow, "hung": hung, "stopped": stopped} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, lab)
		})
	}
}

// right tries what disturbs the caches: every mode at every third write, and at others than the mode before; at every
// write for make sweep-full.
func right(t *testing.T, lab *faults.Lab) {
	modes := []faults.Mode{faults.Crash, faults.Coalesced, faults.Travel, faults.Behind}
	third := 3
	if faults.Full() {
		third = 1
	}
	o := faults.Trial{Quiet: time.Second, Parallel: 6, Plans: func(_ int, w faults.Workload, r *faults.Reference) []faults.Plan {
		return slices.DeleteFunc(faults.Every(modes, w, r), func(p faults.Plan) bool {
			return p.Fault.K%third != slices.Index(modes, p.Fault.Mode)%third
		})
	}}
	report, err := lab.Try(t.Context(), o, workloads[1])
	if err != nil {
		t.Fatal(err)
	}
	played := map[faults.Mode]int{}
	for _, v := range report.Verdicts {
		if played[v.Plan.Fault.Mode]++; len(v.Findings) > 0 {
			t.Error(v)
		}
	}
	for _, m := range modes {
		if played[m] < 8/third {
			t.Errorf("only %d plans of %s were played", played[m], m)
		}
	}
}

// several tries runs of several kills: what passes says so of each, and what does not is played with one after the other.
func several(t *testing.T, lab *faults.Lab) {
	writes := 0
	o := faults.Trial{Parallel: 2, Plans: func(_ int, w faults.Workload, r *faults.Reference) []faults.Plan {
		writes = len(r.Writes)
		all := faults.Every([]faults.Mode{faults.Crash}, w, r)
		plans := all[:(writes+1)/2]
		for i, second := range all[len(plans):] {
			plans[i].Also = []int{second.Fault.K}
		}
		return plans
	}}
	for name, manager := range map[string]*faults.Lab{"right": lab, "careless": lab.With(filepath.Join(lab.Dir(), "careless"))} {
		report, err := manager.Try(t.Context(), o, workloads[0])
		if err != nil {
			t.Fatal(err)
		}
		all := disturbed(report)
		if len(all) != writes {
			t.Errorf("%s: %d writes, and verdicts of %d", name, writes, len(all))
		}
		for _, v := range all {
			// It makes a ball too many wherever a create is killed, whatever else is.
			if wrong := name == "careless" && strings.HasPrefix(v.Write, "create "); (len(v.Findings) > 0) != wrong {
				t.Errorf("%s: found of this: %t: %s", name, !wrong, v)
			}
		}
		if caught := report.Catches(); name == "careless" && (caught["O2"] < 2 || caught["O4"] < 2) {
			t.Errorf("two crashes make a ball too many; the oracles found it at these numbers of points: %v", caught)
		}
	}
}

// onlySeveral tries what is done about a manager that does nothing any more when it has been killed twice.
func onlySeveral(t *testing.T, lab *faults.Lab) {
	dir := t.TempDir()
	tired := filepath.Join(dir, "tired")
	script := fmt.Sprintf(`#!/bin/sh
trap 'exit 0' TERM
for flag in "$@"; do
	case $flag in --namespace=*) starts=%s/${flag#--namespace=} ;; esac
done
echo >> $starts
if [ $(wc -l < $starts) -gt 2 ]; then sleep 1000 & wait; fi
exec %s "$@"
`, dir, lab.Binary())
	if err := os.WriteFile(tired, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	report, err := lab.With(tired).Try(t.Context(), faults.Trial{
		Parallel: 1, Alone: true, Patience: time.Second,
		Plans: func(_ int, w faults.Workload, _ *faults.Reference) []faults.Plan {
			return []faults.Plan{{Workload: w, Fault: faults.Fault{Mode: faults.Crash, K: 2}, Also: []int{4}}}
		},
	}, workloads[0])
	if err != nil {
		t.Fatal(err)
	}
	failed := slices.DeleteFunc(disturbed(report), func(v faults.Verdict) bool { return !v.Failed() })
	if all := disturbed(report); len(all) != 3 || len(failed) != 1 || !failed[0].Hung || !strings.Contains(failed[0].String(), "C1 at writes 2,4") {
		t.Errorf("of two kills, each alone and both: %v", all)
	}
}

// stopped tries what is done about a manager that a user stops when a fault has just killed the one before: it has time to start, and is
// then expected to end well.
func stopped(t *testing.T, lab *faults.Lab) {
	script := fmt.Sprintf(`#!/bin/sh
trap 'exit 1' TERM
sleep 2 & wait
exec %s "$@"
`, lab.Binary())
	late := filepath.Join(t.TempDir(), "late")
	if err := os.WriteFile(late, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	w := workloads[0]
	w.Logs = []string{"failed to get informer from cache"} // this one is ready before it has all of them
	w.Steps = []faults.Step{{When: isFull, Do: func(ctx context.Context, s *faults.Stage) error {
		time.Sleep(time.Second) // until another one starts
		return errors.Join(s.StopManager(ctx, false), s.StartManager(ctx))
	}}}
	report, err := lab.With(late).Try(t.Context(), faults.Trial{Parallel: 1, Plans: func(_ int, w faults.Workload, r *faults.Reference) []faults.Plan {
		return []faults.Plan{{Workload: w, Fault: faults.Fault{Mode: faults.Crash, K: len(r.Writes)}}}
	}}, w)
	if err != nil {
		t.Fatal(err)
	}
	if all := report.Verdicts; len(all) != 1 || all[0].Failed() {
		t.Errorf("of one that is stopped: %v", all)
	}
}

// alone tries what is done about plans that fail, and when the time is up.
func alone(t *testing.T, careless *faults.Lab) {
	o := faults.Trial{Parallel: 2, Alone: true, Plans: func(_ int, w faults.Workload, r *faults.Reference) []faults.Plan {
		k := 1 + slices.IndexFunc(r.Writes, func(w faults.Write) bool { return w.Verb == "create" })
		return []faults.Plan{{Workload: w, Fault: faults.Fault{Mode: faults.Crash, K: k}}, {Workload: w, Fault: faults.Fault{Mode: faults.Restart, K: k}}}
	}}
	report, err := careless.Try(t.Context(), o, workloads[0])
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, v := range disturbed(report) {
		if (len(v.Findings) > 0) != v.Again {
			t.Errorf("played again: %t, after %d findings: %s", v.Again, len(v.Findings), v)
		}
		if v.Again && len(v.Alone) > 0 && strings.Contains(v.String(), "failed alone, too") {
			found++
		}
	}
	if found == 0 {
		t.Error("alone, no plan finds the bug")
	}
	o.Until = time.Now()
	if report, err = careless.Try(t.Context(), o, workloads[0]); err != nil || len(disturbed(report)) > 0 {
		t.Errorf("when the time is up, plans are played: %v, %v", disturbed(report), err)
	}
}

// disturbed are the verdicts of all but the references.
func disturbed(report *faults.Report) []faults.Verdict {
	return slices.DeleteFunc(slices.Clone(report.Verdicts), func(v faults.Verdict) bool { return v.Plan.Fault.K == 0 })
}

// slow tries what is done about a plan that takes too long, but only the first time.
func slow(t *testing.T, lab *faults.Lab) {
	if v := busy(t, lab, "sleep 20", time.Minute); !v.Slow || v.Failed() || v.Hung {
		t.Errorf("what was too slow once: %v", v)
	}
}

// hung tries what is done about one that has not come to its end long after its fault, either.
func hung(t *testing.T, lab *faults.Lab) {
	if v := busy(t, lab, "sleep 1000", time.Second); v.Slow || !v.Failed() || !v.Hung {
		t.Errorf("what did nothing more once: %v", v)
	}
}

// busy is the verdict of a plan whose manager does something else first when it starts again, but only the first time.
func busy(t *testing.T, lab *faults.Lab, first string, patience time.Duration) faults.Verdict {
	t.Helper()
	dir := t.TempDir()
	busy, sleepy := filepath.Join(dir, "busy"), filepath.Join(dir, "sleepy")
	// Its first start says how long a start takes; that after the crash is slower.
	script := fmt.Sprintf(`#!/bin/sh
trap 'exit 0' TERM
if [ -e %[1]s.started ]; then %[3]s & wait; fi
if [ -e %[1]s ]; then touch %[1]s.started; fi
exec %[2]s "$@"
`, busy, lab.Binary(), first)
	if err := os.WriteFile(sleepy, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	var told []bool
	o := faults.Trial{
		Parallel: 1, Alone: true, Patience: patience,
		Plans: func(_ int, w faults.Workload, _ *faults.Reference) []faults.Plan {
			if err := os.WriteFile(busy, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			return []faults.Plan{{Workload: w, Fault: faults.Fault{Mode: faults.Crash, K: 1}}}
		},
		Told: func(v faults.Verdict) {
			told = append(told, v.Failed())
			_ = os.RemoveAll(busy)
			_ = os.RemoveAll(busy + ".started")
		},
	}
	report, err := lab.With(sleepy).Try(t.Context(), o, workloads[0])
	if err != nil {
		t.Fatal(err)
	}
	all := disturbed(report)
	if len(all) != 1 || len(all[0].Findings) == 0 {
		t.Fatalf("found: %v", all)
	}
	if told[len(told)-1] != all[0].Failed() || !told[0] {
		t.Errorf("told that it failed: %v", told)
	}
	return all[0]
}
