package workloadscaler

import (
	"net/http"
	"strings"
	"testing"

	"github.com/labkeeper/labkeeper/internal/executor/executortest"
)

// A StatefulSet that deletes its volumes when it is scaled down is not scaled down, whenever it comes to have replicas.
func TestVolumesThatWouldGoByThen(t *testing.T) {
	set := func(policy, replicas string) string {
		text := strings.ReplaceAll(deployment("db", 1), "kind: Deployment", "kind: StatefulSet")
		return strings.ReplaceAll(text, "spec: {replicas: 1", "spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: "+policy+"}, replicas: "+replicas)
	}
	for name, test := range map[string]struct{ before, change string }{
		"it was at 0, and is scaled up before it sleeps": {set("Delete", "0"), `{"spec": {"replicas": 3}}`},
		"its policy is changed before it sleeps":         {set("Retain", "3"), `{"spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.apply(test.before)
			w.calm()
			r := w.night(`{"includedGroups": ["StatefulSet"]}`)
			changed := false
			r.Config = executortest.Race(w.runner, func(request *http.Request) {
				if !changed && request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/statefulsets/db") { // captured, and about to sleep
					changed = true
					w.patch("StatefulSet", "db", test.change)
				}
			})
			err := r.Shutdown(t.Context())
			if got := w.at("StatefulSet", "db", specReplicas...); got != "3" || err == nil {
				t.Errorf("it has %s replicas, whenScaled %s: its volumes are deleted; error %v", got, w.at("StatefulSet", "db", "spec", "persistentVolumeClaimRetentionPolicy", "whenScaled"), err)
			}
		})
	}
}

// An object that is deleted and created again between the look at it and at its scale is another.
func TestForeignCreatedAgain(t *testing.T) {
	w := newWorld(t)
	w.apply(oven("bakery", 5))
	r := w.night(`{"includedGroups": ["Oven.example.com"]}`)
	gets := 0
	r.Config = executortest.Race(w.runner, func(request *http.Request) {
		if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/ovens/bakery/scale") {
			if gets++; gets == 2 { // the first is that of the snapshot
				w.remove("Oven", "bakery")
				w.apply(oven("bakery", 5))
			}
		}
	})
	r.Once = true
	w.must(r.Shutdown(t.Context()))
	t.Logf("gets %d, now %s, point %s", gets, w.at("Oven", "bakery", "spec", "loaves"), r.Point.Resources[0].Slept)
	r.Config = w.runner
	w.must(r.WakeUp(t.Context()))
	if got := w.at("Oven", "bakery", "spec", "loaves"); got != "5" {
		t.Errorf("after the wake-up it has %s: %s", got, r.Left())
	}
}

// Kinds of others lose their volumes, too, when they are scaled down: those that hand the policy on to StatefulSets, and CloneSets.
func TestVolumesOfOthers(t *testing.T) {
	w := newWorld(t)
	for name, spec := range map[string]string{
		"itself": "{loaves: 3, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}",
		"within": "{loaves: 3, template: {persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}}}",
	} {
		w.apply("{apiVersion: example.com/v1, kind: Oven, metadata: {name: " + name + "}, spec: " + spec + "}")
		err := w.night(`{"includedGroups": ["Oven.example.com"]}`).Shutdown(t.Context())
		if err == nil || !strings.Contains(err.Error(), "Oven "+w.namespace+"/"+name+": it deletes its volumes") {
			t.Errorf("%s: error %v", name, err)
		}
		w.expect("3", "Oven", name, "spec", "loaves")
		w.remove("Oven", name)
	}
	for volumes, want := range map[string]bool{"[]": false, "[{metadata: {name: data}}]": true} {
		set := executortest.Objects(t, "{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, metadata: {name: a}, spec: {replicas: 3, volumeClaimTemplates: "+volumes+"}}")[0]
		if err := mustStay(known(parseResource("apps.kruise.io/v1alpha1/clonesets")), set, int64(3)); (err != nil) != want {
			t.Errorf("volumes %s: %v", volumes, err)
		}
	}
}
