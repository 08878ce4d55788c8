package hibernateplan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// A ledger of many targets leaves the status, and is kept in ControllerRevisions, which never change: what has changed is
// written anew, the status then names what counts by its one write, and what it names no more is deleted after that. A
// manager that ends in between has recorded nothing.
const (
	// inStatus is how long a ledger in the status may be, in bytes of JSON.
	inStatus = 128 << 10
	// perShard is how many entries a shard has at most, and maxShard how many bytes of JSON: what is written anew for one
	// entry that has changed.
	perShard = 100
	maxShard = 256 << 10
	// maxPlan is how long a plan may be, in bytes of JSON, as its cycles keep it: etcd takes objects of 1.5 MiB.
	maxPlan = 1 << 20
)

// labelLedger is on the shards of a ledger.
const labelLedger = "hibernator.ardikabs.com/ledger"

// shard is a part of the ledger.
type shard struct {
	entries []execution
	// text is its content, as it is written.
	text string
}

// load reads a ledger that has left the status into it.
func (s *scope) load(ctx context.Context) error {
	ledger := s.owner.Status.Ledger
	if ledger == nil {
		return nil
	}
	var all []execution
	for _, name := range ledger.Shards {
		part, err := s.shard(ctx, name)
		if err != nil {
			return err
		}
		if part == nil {
			if err := kube.Current(ctx, s.Live, planGVK, s.owner); err != nil {
				return err // another one has taken its place
			}
			s.seen.Lost = &problem{v1alpha1.ReasonLedgerLost, fmt.Sprintf("ControllerRevision %s/%s, a part of the ledger, is gone; put it back from a backup, or "+
				"delete the plan with deletionPolicy Leave and create it again, which wakes what sleeps by its restore points", s.Options.Namespace, name)}
			return nil
		}
		all = append(all, part.entries...)
	}
	s.owner.Status.Executions = all
	return nil
}

// shard reads a part of the ledger; nil if there is none.
func (s *scope) shard(ctx context.Context, name string) (*shard, error) {
	at := s.names().in(name)
	if known, ok := s.shards.Get(at); ok {
		return known.(*shard), nil
	}
	var read struct {
		Executions []execution `json:"executions"`
	}
	if found, err := s.revision(ctx, at, &read); err != nil || !found {
		return nil, err
	}
	lines, _, err := linesOf(read.Executions)
	if err != nil {
		return nil, err
	}
	part := &shard{read.Executions, contentOf(lines)}
	s.shards.Add(at, part)
	return part, nil
}

// revision reads a ControllerRevision of the plan.
func (s *scope) revision(ctx context.Context, at client.ObjectKey, into any) (bool, error) {
	found, err := kube.Get(ctx, s.Live, revisionGVK, at)
	if err != nil || found == nil {
		return false, err
	}
	if !marks.Owns(s.owner, found) {
		return false, &kube.NameTakenError{Object: kube.Describe(found)}
	}
	content, err := json.Marshal(found.Object["data"])
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", kube.Describe(found), err)
	}
	return true, nil
}

// store takes the ledger out of the status, before that is written, if it is too long for it; one that was taken out stays
// so until its cycle is over.
func (s *scope) store(ctx context.Context, done bool) error {
	st := &s.owner.Status
	if s.seen.Lost != nil {
		return nil
	}
	if done && st.Ledger != nil { // nobody reads it any more
		st.Ledger, st.Executions = nil, nil
		return nil
	}
	lines, size, err := linesOf(st.Executions)
	if err != nil {
		return err
	}
	if size <= inStatus && (st.Ledger == nil || st.CurrentCycle == nil) {
		st.Ledger = nil
		return nil
	}
	parts, err := partsOf(lines)
	if err != nil {
		return err
	}
	ledger := &v1alpha1.Ledger{Shards: make([]string, len(parts))}
	count(ledger, st.Executions)
	names, err := s.written(ctx)
	if err != nil {
		return err
	}
	if st.Ledger != nil {
		ledger.Writes = st.Ledger.Writes
	}
	var fresh []int
	texts, entries, from := make([]string, len(parts)), make([][]execution, len(parts)), 0
	for i, part := range parts {
		texts[i], entries[i] = contentOf(part), st.Executions[from:from+len(part)]
		from += len(part)
		if name, there := names[texts[i]]; there {
			ledger.Shards[i] = name
			continue
		}
		ledger.Shards[i] = s.names().ledger(ledger.Writes+1, i, texts[i]).Name
		fresh = append(fresh, i)
	}
	if len(fresh) > 0 {
		ledger.Writes++
	}
	errs := inParallel(s.Options.MaxConcurrentReconciles, fresh, func(i int) error {
		return s.addShard(ctx, ledger.Shards[i], &shard{slices.Clone(entries[i]), texts[i]})
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	st.Ledger, st.Executions = ledger, nil
	return nil
}

// written are the names of the shards that there are, by what they say.
func (s *scope) written(ctx context.Context) (map[string]string, error) {
	names := map[string]string{}
	if s.owner.Status.Ledger == nil {
		return names, nil
	}
	for _, name := range s.owner.Status.Ledger.Shards {
		part, err := s.shard(ctx, name)
		if err != nil {
			return nil, err
		}
		if part != nil {
			names[part.text] = name
		}
	}
	return names, nil
}

func (s *scope) addShard(ctx context.Context, name string, part *shard) error {
	at := s.names().in(name)
	if err := s.create(ctx, &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{labelLedger: "shard"}},
		Data:       runtime.RawExtension{Raw: []byte(part.text)},
	}); err != nil {
		return err
	}
	s.shards.Add(at, part)
	return nil
}

// prune deletes the shards that the status has named until it was written. What cannot be deleted goes with its plan.
func (s *scope) prune(ctx context.Context, before *v1alpha1.HibernatePlan) {
	was, is := before.Status.Ledger, s.owner.Status.Ledger
	var err error
	switch {
	case was == nil || s.seen.Lost != nil:
		return
	case is == nil: // and those that were written and never named
		err = s.Live.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(s.Options.Namespace),
			client.MatchingLabels{v1alpha1.LabelUID: string(s.owner.UID), labelLedger: "shard"})
	default:
		old := slices.DeleteFunc(slices.Clone(was.Shards), func(name string) bool { return slices.Contains(is.Shards, name) })
		err = errors.Join(inParallel(s.Options.MaxConcurrentReconciles, old, func(name string) error {
			return s.remove(ctx, revisionGVK, s.names().in(name))
		})...)
	}
	if err != nil {
		log.FromContext(ctx).Info("Shards of the ledger were not deleted", "cause", err.Error())
	}
}

// linesOf are entries as JSON, and how long they are together.
func linesOf(entries []execution) ([][]byte, int, error) {
	lines, size := make([][]byte, len(entries)), 0
	for i := range entries {
		line, err := json.Marshal(&entries[i])
		if err != nil {
			return nil, 0, fmt.Errorf("writing the entry of target %s: %w", entries[i].Target, err)
		}
		lines[i], size = line, size+len(line)+1
	}
	return lines, size, nil
}

// partsOf are the entries by shards. Where one begins depends as little as can be on how long those before it are.
func partsOf(lines [][]byte) (out [][][]byte, err error) {
	for chunk := range slices.Chunk(lines, perShard) {
		from, size := 0, 0
		for i, line := range chunk {
			if len(line) > maxShard-64 {
				return nil, &problem{v1alpha1.ReasonInvalid, fmt.Sprintf("an entry of the ledger has %d bytes, and at most %d fit: its target is in too many namespaces; make several targets", len(line), maxShard-64)}
			}
			if size += len(line) + 1; size > maxShard-64 {
				out = append(out, chunk[from:i])
				from, size = i, len(line)+1
			}
		}
		out = append(out, chunk[from:])
	}
	return out, nil
}

// contentOf is that of a shard.
func contentOf(lines [][]byte) string {
	return `{"executions":[` + string(bytes.Join(lines, []byte{','})) + `]}`
}

func count(l *v1alpha1.Ledger, entries []execution) {
	for i := range entries {
		switch entries[i].State {
		case v1alpha1.ExecutionPending:
			l.Pending++
		case v1alpha1.ExecutionRunning:
			l.Running++
		case v1alpha1.ExecutionCompleted:
			l.Completed++
		case v1alpha1.ExecutionFailed:
			l.Failed++
		case v1alpha1.ExecutionAborted:
			l.Aborted++
		}
	}
}

// ledger is a part of the ledger as it is written for the n-th time. Of what was written and never named, the same again
// has the same name, and something else another.
func (n names) ledger(writes int64, part int, content string) client.ObjectKey {
	sum := sha256.Sum256([]byte(content))
	return n.in(kube.ChildName(maxLabel, n.plan.UID, "ledger", n.plan.Name, fmt.Sprint(n.plan.Status.Cycles), fmt.Sprint(writes), fmt.Sprint(part), hex.EncodeToString(sum[:])))
}
