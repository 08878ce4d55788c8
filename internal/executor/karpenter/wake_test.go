package karpenter

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
)

// TestWakeIsTheReverse puts NodePools with any limits to sleep, by merge patches alone, and wakes them by what was kept
// of them: whatever else was set, and whatever was not.
func TestWakeIsTheReverse(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	values := []any{int64(0), int64(16), "0", "16", "1500m", "1Ti"}
	changed := 0
	for range 2000 {
		spec := map[string]any{"template": map[string]any{"x": "y"}}
		if random.IntN(5) > 0 {
			limits := map[string]any{}
			for _, name := range []string{"cpu", "memory", "nodes", "example.com/gpu"} {
				if random.IntN(2) > 0 {
					limits[name] = values[random.IntN(len(values))]
				}
			}
			spec["limits"] = limits
		}
		pool := &unstructured.Unstructured{Object: map[string]any{"kind": "NodePool", "metadata": map[string]any{"name": "p", "uid": "u"}, "spec": spec}}
		before, err := decode(prefix+"p", encode(look(pool)))
		if err != nil {
			t.Fatal(err)
		}
		slept := pool
		if !isAsleep(look(pool)) {
			changed++
			slept = merged(t, pool, map[string]any{"limits": map[string]any{"cpu": asleep}})
		}
		changes, note := wake(slept, before, false)
		woken := slept
		if changes != nil {
			woken = merged(t, slept, changes)
		}
		if note != "" || !same(pool.Object, woken.Object) {
			t.Fatalf("it was %s, asleep %s, and is %s: %s", encode(pool.Object), encode(slept.Object), encode(woken.Object), note)
		}
	}
	if changed < 1000 {
		t.Errorf("only %d of 2000 had to be put to sleep", changed)
	}
}

// merged is an object after a merge patch of its spec.
func merged(t *testing.T, object *unstructured.Unstructured, spec any) *unstructured.Unstructured {
	t.Helper()
	raw, err := jsonpatch.MergePatch(encode(object.Object), encode(map[string]any{"spec": spec}))
	if err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal(raw, &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

// What somebody changes of a NodePool between two attempts is what it is brought back to, unless the first had put it to sleep.
func TestRenew(t *testing.T) {
	const before, raised, asleep, another, awake = `{"uid":"a","limits":{"cpu":"10"}}`, `{"uid":"a","limits":{"cpu":"20"}}`,
		`{"uid":"a","limits":{"cpu":"0"}}`, `{"uid":"b","limits":{"cpu":"0"}}`, `{"uid":"b","limits":{"cpu":"20"}}`
	var renewer executor.Renewer = &target{}
	known := func(of restore.State) restore.Resource {
		return restore.Resource{Key: prefix + "general", State: of, Before: json.RawMessage(before)}
	}
	for found, want := range map[string]string{before: before, raised: raised, asleep: before, another: another, awake: awake} {
		if got, _, err := renewer.Renew(known(restore.Captured), json.RawMessage(found), false); err != nil || string(got) != want {
			t.Errorf("found %s: it is brought back to %s, error %v", found, got, err)
		}
		kept := before
		if found == awake { // nobody has put that to sleep
			kept = awake
		}
		if got, _, err := renewer.Renew(known(restore.Asleep), json.RawMessage(found), false); err != nil || string(got) != kept {
			t.Errorf("put to sleep, and found %s: it is brought back to %s, error %v", found, got, err)
		}
		if found == another {
			want = before // which says that it was created again
		}
		if got, _, err := renewer.Renew(known(restore.Asleep), json.RawMessage(found), true); err != nil || string(got) != want {
			t.Errorf("put to sleep in a former cycle, and found %s: it is brought back to %s, error %v", found, got, err)
		}
	}
	for _, wrong := range []string{"", "{}"} {
		if _, _, err := renewer.Renew(known(restore.Captured), json.RawMessage(wrong), false); err == nil {
			t.Errorf("%q is taken for a NodePool", wrong)
		}
	}
}
