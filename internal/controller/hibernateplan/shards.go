package hibernateplan

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
	"github.com/labkeeper/labkeeper/internal/kube"
)

// A ledger of many targets leaves the status, and is kept in ControllerRevisions, which never change: what has changed is
// written anew, the status then names what counts, and what does not any more, by its one write, and that is deleted
// afterwards. What a manager has written that ended before it was named goes when the cycle is over.
const (
	// DefaultLedgerInStatus is how long a ledger in the status may be, in bytes of JSON.
	DefaultLedgerInStatus = 128 << 10
	// perShard is how many entries a shard has at most, and maxShard how many bytes of JSON: what is written anew for one
	// entry that has changed.
	perShard = 100
	maxShard = 256 << 10
	// maxPlan is how long a plan may be, in bytes of JSON, as its cycles keep it: etcd takes objects of 1.5 MiB.
	maxPlan = 1 << 20
)

// labelLedger is the cycle that a shard is of.
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
	if ledger == nil || len(ledger.Shards) == 0 {
		s.loaded = true
		return nil
	}
	if _, ours := s.paced.Get(s.owner.UID); !ours { // whoever has written it may have ended before they were deleted
		s.prune(ctx, ledger)
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
			s.seen.Lost = &problem{reason: v1alpha1.ReasonLedgerLost, message: fmt.Sprintf("ControllerRevision %s/%s, a part of the ledger, is gone; if the manager has another --hibernation-namespace than before, give it that again; else put it back from a backup, or "+
				"delete the plan with deletionPolicy Leave and create it again, which wakes what sleeps by its restore points", s.Options.Namespace, name)}
			return nil
		}
		all = append(all, part.entries...)
	}
	s.owner.Status.Executions, s.loaded = all, true
	return nil
}

// leaveLost clears away what is left of the attempts of a plan that goes without its ledger, when all its Jobs have ended.
func (s *scope) leaveLost(ctx context.Context) error {
	jobs, err := kube.List(ctx, s.Live, jobGVK, client.InNamespace(s.Options.Namespace), marks.Selector(s.owner))
	if err != nil {
		return err
	}
	var bindings rbacv1.RoleBindingList
	if err := s.Live.List(ctx, &bindings, marks.Selector(s.owner)); err != nil {
		return fmt.Errorf("listing the RoleBindings of a plan: %w", err)
	}
	attempts := map[string]bool{}
	for i := range bindings.Items {
		attempts[bindings.Items[i].Labels[labelExecution]] = true
	}
	for i := range jobs {
		attempts[jobs[i].GetName()] = true
		if !finished(&jobs[i]) && !s.lost(&jobs[i]) && !s.plan.Overdue { // what is created again must not act beside it
			s.plan.Done, s.plan.GivenUp = false, false
			s.plan.lookIn(5 * time.Second)
			return nil
		}
	}
	for _, attempt := range slices.Sorted(maps.Keys(attempts)) {
		at := s.names().in(attempt).String()
		left, err := s.clear(ctx, &execution{JobRef: at, ConnectorSecretRef: at})
		if err != nil {
			return err
		}
		s.plan.Littered = append(s.plan.Littered, left...)
	}
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

// revision reads a ControllerRevision of the plan. One of another plan of its name is none: the status that tells of it came with a
// backup.
func (s *scope) revision(ctx context.Context, at client.ObjectKey, into any) (bool, error) {
	found, err := kube.Get(ctx, s.Live, revisionGVK, at)
	if err != nil || found == nil {
		return false, err
	}
	if !marks.Owns(s.owner, found) {
		if found.GetLabels()[v1alpha1.LabelUID] != "" && found.GetAnnotations()[v1alpha1.AnnotationOwner] == client.ObjectKeyFromObject(s.owner).String() {
			return false, nil
		}
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
// so until its cycle is over. cycle is the last one that is recorded; done says that the plan goes.
func (s *scope) store(ctx context.Context, cycle int64, done bool) error {
	st := &s.owner.Status
	if !s.loaded {
		return nil // what was not read is not written
	}
	tight := s.cramped()
	if done && st.Ledger != nil { // it is gone, and nobody reads it any more
		st.Ledger, st.Executions = nil, nil
		return nil
	}
	if st.Ledger != nil && len(st.Ledger.Shards) == 0 {
		if err := s.deleteShards(ctx, cycle); err != nil {
			return err
		}
		st.Ledger = nil
	}
	if st.CurrentCycle == nil {
		if st.Ledger != nil {
			st.Ledger = &v1alpha1.Ledger{Shards: []string{}, Writes: st.Ledger.Writes + 1}
			s.plan.lookIn(atOnce) // to delete what it has named
		}
		return nil
	}
	lines, size, err := linesOf(st.Executions)
	if err != nil || size <= s.Options.LedgerInStatus && st.Ledger == nil && !tight {
		return err
	}
	ledger, err := s.write(ctx, lines)
	if err != nil {
		return fmt.Errorf("writing the ledger: %w", err)
	}
	st.Ledger, st.Executions = ledger, nil
	return nil
}

// write writes the shards that have changed, and returns what names all of them.
func (s *scope) write(ctx context.Context, lines [][]byte) (*v1alpha1.Ledger, error) {
	parts, err := partsOf(lines)
	if err != nil {
		return nil, err
	}
	names, err := s.written(ctx)
	if err != nil {
		return nil, err
	}
	was := s.owner.Status.Ledger
	if was == nil {
		was = &v1alpha1.Ledger{}
	}
	now := &v1alpha1.Ledger{Shards: make([]string, len(parts)), Writes: was.Writes + 1}
	fresh, from := map[string]*shard{}, 0
	for i, part := range parts {
		text, entries := contentOf(part), s.owner.Status.Executions[from:from+len(part)]
		from += len(part)
		name, there := names[text]
		if !there {
			name = s.names().ledger(now.Writes, i, text).Name
			fresh[name] = &shard{slices.Clone(entries), text}
		}
		now.Shards[i] = name
	}
	if len(fresh) == 0 && len(now.Shards) == len(was.Shards) {
		return was, nil
	}
	if _, ours := s.paced.Get(s.owner.UID); !ours && len(fresh) > 0 {
		// What a manager that has just started would write by a status of before stays until the cycle is over.
		if err := kube.Current(ctx, s.Live, planGVK, s.owner); err != nil {
			return nil, err
		}
	}
	now.Superseded = slices.DeleteFunc(slices.Clone(was.Shards), func(name string) bool { return slices.Contains(now.Shards, name) })
	count(now, s.owner.Status.Executions)
	return now, errors.Join(inParallel(ctx, s, slices.Sorted(maps.Keys(fresh)), func(name string) error {
		return s.addShard(ctx, name, fresh[name], now.Writes)
	})...)
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

// addShard adds one of the n-th write.
func (s *scope) addShard(ctx context.Context, name string, part *shard, writes int64) error {
	at := s.names().in(name)
	if _, err := s.create(ctx, &appsv1.ControllerRevision{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace, Name: at.Name, Labels: map[string]string{labelLedger: fmt.Sprint(s.owner.Status.Cycles)}},
		Data:       runtime.RawExtension{Raw: []byte(part.text)}, Revision: writes,
	}); err != nil {
		return err
	}
	s.shards.Add(at, part)
	return nil
}

// crampedFor is how long a plan that had no room for its status is taken to have none: somebody may have made it smaller.
const crampedFor = time.Hour

// cramped says whether the plan has had no room for its status lately, and takes from that what nothing rests on: the preview, and what is
// told of a cycle that is over, which the history has in short.
func (s *scope) cramped() bool {
	since, ok := s.tight.Get(s.owner.UID)
	if !ok || s.now.Sub(since.(time.Time)) >= crampedFor {
		return false
	}
	if s.owner.Status.Upcoming = nil; s.owner.Status.CurrentCycle == nil {
		s.owner.Status.Executions = nil
	}
	return true
}

// tighten has the ledger of a plan leave its status whatever its length, as that had no room in a plan that others have made so large that
// the server keeps no larger one: what sleeps must be able to wake. What was added for that status is named by none, if the plan is the one
// that was looked at; if not, it goes with its cycle.
func (s *scope) tighten(ctx context.Context, before *v1alpha1.HibernatePlan) {
	s.tight.Add(s.owner.UID, s.now)
	added := s.owner.Status.Ledger
	if added == nil || kube.Current(ctx, s.Live, planGVK, before) != nil {
		return
	}
	var named []string
	if was := before.Status.Ledger; was != nil {
		named = was.Shards
	}
	s.prune(ctx, &v1alpha1.Ledger{Superseded: slices.DeleteFunc(slices.Clone(added.Shards), func(name string) bool { return slices.Contains(named, name) })})
}

// prune deletes the shards that are named no more. What cannot be deleted goes with its cycle.
func (s *scope) prune(ctx context.Context, ledger *v1alpha1.Ledger) {
	if ledger == nil {
		return
	}
	errs := inParallel(ctx, s, ledger.Superseded, func(name string) error {
		return s.remove(ctx, revisionGVK, s.names().in(name))
	})
	if err := errors.Join(errs...); err != nil {
		log.FromContext(ctx).Info("Shards of the ledger were not deleted", "cause", err.Error())
	}
}

// deleteShards deletes all that there are of a cycle, which is over: whoever goes by an old status deletes those of no other.
func (s *scope) deleteShards(ctx context.Context, cycle int64) error {
	of := client.MatchingLabels{v1alpha1.LabelUID: string(s.owner.UID), labelLedger: fmt.Sprint(cycle)}
	if err := s.Live.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, of, client.InNamespace(s.Options.Namespace)); err != nil {
		return fmt.Errorf("deleting the shards of the ledger: %w", err)
	}
	return nil
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
				return nil, &problem{reason: v1alpha1.ReasonInvalid, message: fmt.Sprintf("an entry of the ledger has %d bytes, and at most %d fit: its target is in too many namespaces; make several targets", len(line), maxShard-64)}
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
	owner := n.plan.UID + types.UID(hex.EncodeToString(sum[:]))
	return n.in(kube.ChildName(maxLabel, owner, "ledger", n.plan.Name, fmt.Sprint(n.plan.Status.Cycles), fmt.Sprint(writes), fmt.Sprint(part)))
}
