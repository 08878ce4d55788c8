package hibernateplan

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/test/fakes"
)

// kubelet answers as one does: the last lines, and of those no more bytes than asked for, from their beginning.
type kubelet struct {
	lines []string
	asked corev1.PodLogOptions
}

func (k kubelet) Stream(context.Context) (io.ReadCloser, error) {
	lines := k.lines
	if n := k.asked.TailLines; n != nil {
		lines = lines[max(0, len(lines)-int(*n)):]
	}
	text := strings.Join(lines, "")
	if n := k.asked.LimitBytes; n != nil {
		text = text[:min(len(text), int(*n))]
	}
	return io.NopCloser(strings.NewReader(text)), nil
}

// What a runner has said last is kept, as it says why it could not end, however much it had to say before; and whole
// lines.
func TestEndOfALog(t *testing.T) {
	for lines, kept := range map[int]int{1: 1, 100: 100, 2000: maxLog / len(logLine(0))} {
		k := kubelet{}
		for i := range lines {
			k.lines = append(k.lines, logLine(i))
		}
		s := &scope{owner: newPlan(v1alpha1.StrategyParallel, 1), Reconciler: &Reconciler{
			Live: fakes.NewClientBuilder().Build(), Options: Options{Namespace: "system"},
			Logs: podLogs{func(_, _ string, o *corev1.PodLogOptions) stream { k.asked = *o; return k }},
		}}
		e := &execution{Target: "a", JobRef: "system/job"}
		ref, err := s.keepLog(t.Context(), e, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "job-x"}})
		if err != nil || ref == "" {
			t.Fatalf("it is kept in %q: %v", ref, err)
		}
		log := &corev1.ConfigMap{}
		if err := s.Live.Get(t.Context(), s.names().log("a"), log); err != nil {
			t.Fatal(err)
		}
		if got, want := log.Data["job.log"], strings.Join(k.lines[lines-kept:], ""); got != want {
			t.Errorf("of %d lines are kept %d bytes from %.20q to %q", lines, len(got), got, got[len(got)-20:])
		}
	}
}

// elsewhere is a LogStore.
type elsewhere map[string]string

func (e elsewhere) Keep(_ context.Context, plan *v1alpha1.HibernatePlan, target, name, text string) (string, error) {
	e[plan.Name+"/"+target+"/"+name] = text
	return "s3://logs/" + name, nil
}

// Logs can be kept elsewhere than in ConfigMaps.
func TestLogStore(t *testing.T) {
	k, kept := kubelet{lines: []string{logLine(1)}}, elsewhere{}
	s := &scope{owner: newPlan(v1alpha1.StrategyParallel, 1), Reconciler: &Reconciler{
		Live: fakes.NewClientBuilder().Build(), LogStore: kept, Logs: podLogs{func(string, string, *corev1.PodLogOptions) stream { return k }},
	}}
	ref := s.logOf(t.Context(), &execution{Target: "a", JobRef: "system/job"}, &corev1.Pod{})
	if got := kept[s.owner.Name+"/a/job.log"]; ref != "s3://logs/job.log" || got != logLine(1) {
		t.Errorf("%q is kept in %q: %v", got, ref, kept)
	}
}

// Of a plan of many targets less of each log is kept, so that all logs of one have their room, and at least what says why a runner could
// not. Those of a plan of some have all.
func TestLogsOfAPlan(t *testing.T) {
	for targets, want := range map[int]int{0: maxLog, 1: maxLog, 80: maxLog, 2000: 2796, 10_000: minLog} {
		if got := mostOf(targets); got != want {
			t.Errorf("of %d targets are kept %d bytes of a log, want %d", targets, got, want)
		}
		if all := targets * maxLogs * mostOf(targets); all > planLogs && mostOf(targets) > minLog {
			t.Errorf("all logs of %d targets have %d bytes", targets, all)
		}
		kept := &tail{most: mostOf(targets)}
		for i := range 1000 {
			if _, err := kept.Write([]byte(logLine(i))); err != nil {
				t.Fatal(err)
			}
		}
		if got := kept.String(); len(got) > want || len(got) < want-2*len(logLine(0)) || !strings.HasSuffix(got, logLine(999)) {
			t.Errorf("of %d targets %d bytes of a log are kept: …%s", targets, len(got), got[max(0, len(got)-20):])
		}
	}
}

func logLine(n int) string { return fmt.Sprintf("%06d ü%s\n", n, strings.Repeat("x", 190)) }
