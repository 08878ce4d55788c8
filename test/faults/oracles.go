package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Finding is a rule that a run has broken.
type Finding struct {
	// Oracle is O1 to O9, or plan for a run that the harness could not play.
	Oracle  string
	Message string
}

func (f Finding) String() string { return f.Oracle + ": " + f.Message }

const panicked = "the log has a panic: "

func (f Finding) panics() bool { return strings.HasPrefix(f.Message, panicked) }

// absolute says whether the rule is broken whatever a reference has done.
func (f Finding) absolute() bool {
	return !slices.Contains([]string{"plan", "O1", "O2", "O4", "O5"}, f.Oracle)
}

// Reference is what the undisturbed runs of a workload came to.
type Reference struct {
	// Writes of the manager that were stored, in their order.
	Writes []Write
	// payloads are what they wrote, without what is different in every run; empty where two runs have written different things.
	payloads []string
	// Took is how long the faster one needed.
	Took time.Duration
	// alone is how many writes were stored before the user did anything else; more than there are if he did not.
	alone int

	// watched are the kinds that the manager watches.
	watched map[schema.GroupResource]bool
	// events is how many Events the manager sent at most.
	events int
	// reads are the kinds that both runs read live, by how many writes were stored before.
	reads map[int][]schema.GroupResource
	// others are the kinds that the manager watches and never writes, and edits those that it writes, too, that others have changed in
	// both runs, by how many writes were stored before.
	others, edits map[int][]schema.GroupResource
	// words are written like hashes, and are none.
	words   vocabulary
	outcome outcome
	masked  map[string]bool
	effects effects
	most    map[string]int
}

// late is the kind of which events come late from a write on: one that the manager watches, and writes then or later. It is
// another than that of the write, the one that is written next, and in each next write of the same kind in a row another one,
// that of the write itself last; kinds that are not watched are one. What is told is late then by what it is told of, and what
// it is told of by what is told, however many statuses there are. It is empty if there is none.
func (ref *Reference) late(k int) schema.GroupResource {
	var kinds []schema.GroupResource
	for n := k; n <= len(ref.Writes); n++ {
		if kind := ref.watchedKind(n); !kind.Empty() && !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	if own := ref.watchedKind(k); !own.Empty() {
		kinds = append(kinds[1:], own)
	}
	return inTurnOf(kinds, ref.inARow(k)-1)
}

// kind is that of the write of an ordinal.
func (ref *Reference) kind(n int) schema.GroupResource {
	return ref.Writes[n-1].Resource.GroupResource()
}

// watchedKind is that, empty where it is not watched.
func (ref *Reference) watchedKind(n int) schema.GroupResource {
	if kind := ref.kind(n); ref.watched[kind] {
		return kind
	}
	return schema.GroupResource{}
}

// inARow is how many writes up to one are of the same kind; those that are not watched are one.
func (ref *Reference) inARow(k int) int {
	n := 1
	for n < k && ref.watchedKind(k-n) == ref.watchedKind(k) {
		n++
	}
	return n
}

// past is the ordinal of the write whose moment a manager that travels is put back to: that before the last one, two or
// three, in turn. A kind alone goes back to before a write of its own.
func (ref *Reference) past(f Fault) int {
	switch f.Mode {
	case Behind, Forgetful:
		return max(0, ref.unseen(f)-1)
	case Outdated, Edited:
		return max(0, ref.changed(f))
	}
	return f.K - 1 - (f.K-1)%depths
}

// unseen is the ordinal of the first write that a manager killed at a write does not find where one kind alone is put
// back, nor anything else of its kind since; 0 if there is none. By Behind it is the last one of another kind than this
// write, one further back in each next write of the same kind in a row: those are mostly statuses that tell of the
// writes before, and what is behind, is behind what they say; or of kinds that are not watched, as when helpers are cleared away, and
// what has been told of them is behind. By Forgetful it is the first of that row.
func (ref *Reference) unseen(f Fault) int {
	row := ref.inARow(f.K)
	var could []int
	for n := f.K; n > 0; n-- {
		if kind := ref.kind(n); ref.watched[kind] && (kind == ref.kind(f.K)) == (f.Mode == Forgetful) {
			could = append(could, n)
		}
	}
	if len(could) == 0 {
		return 0
	}
	return could[(row-1)%len(could)]
}

// changes are the kinds that others have changed, of those that a mode is about.
func (ref *Reference) changes(m Mode) map[int][]schema.GroupResource {
	if m == Edited {
		return ref.edits
	}
	return ref.others
}

// changed is how many writes were stored when others last changed a kind that a fault is about, no more than some before its write;
// negative if they did not.
func (ref *Reference) changed(f Fault) int {
	for n := f.K - 1; n >= max(0, f.K-depths); n-- {
		if len(ref.changes(f.Mode)[n]) > 0 {
			return n
		}
	}
	return -1
}

// othersIn are the kinds that are watched and changed by others, those that are never written and those that are, by how many writes
// were stored before. What a write has come to says where in the history it was, and of what is gone, or going, when it went.
func othersIn(history []Entry, writes []Write, watched map[schema.GroupResource]bool) (others, edits map[int][]schema.GroupResource) {
	others, edits = map[int][]schema.GroupResource{}, map[int][]schema.GroupResource{}
	written, versions := map[schema.GroupResource]bool{}, make([]int64, len(writes))
	for i, w := range writes {
		written[w.Resource.GroupResource()] = true
		before := versions[max(0, i-1)]
		versions[i], _ = strconv.ParseInt(w.version, 10, 64)
		versions[i] = max(versions[i], before)
		went := slices.IndexFunc(history, func(e Entry) bool {
			gone := e.Verb == watch.Deleted || e.Object.GetDeletionTimestamp() != nil
			return e.Version > before && e.Resource == w.Resource && gone && client.ObjectKeyFromObject(e.Object) == w.called()
		})
		if w.version == "" && went >= 0 {
			versions[i] = history[went].Version
		}
	}
	for _, e := range history {
		kind := e.Resource.GroupResource()
		n, own := slices.BinarySearch(versions, e.Version)
		out := others
		if written[kind] {
			out = edits
		}
		if watched[kind] && !own && !slices.Contains(out[n], kind) {
			out[n] = append(out[n], kind)
		}
	}
	return others, edits
}

// held is the kind that a fault is about: that whose events come late, that is behind, or that cannot be read, which is
// one of those that are read live before the next write or, by a manager that starts, of those that are watched. It is
// empty where there is none, and for faults that are about no kind.
func (ref *Reference) held(f Fault) schema.GroupResource {
	switch f.Mode {
	case Held:
		return ref.late(f.K)
	case Unwritten:
		return inTurnOf(ref.others[f.K], f.K)
	case Outdated, Edited:
		return inTurnOf(ref.changes(f.Mode)[ref.changed(f)], f.K)
	case Behind, Forgetful:
		if n := ref.unseen(f); n > 0 {
			return ref.kind(n)
		}
	case Unread, Unreadable:
		return inTurnOf(ref.reads[f.K], f.K)
	case Blind:
		return inTurnOf(slices.SortedFunc(maps.Keys(ref.watched), byName), f.K)
	}
	return schema.GroupResource{}
}

// inTurnOf is one of some kinds, another for each number; empty if there is none.
func inTurnOf(kinds []schema.GroupResource, n int) schema.GroupResource {
	if len(kinds) == 0 {
		return schema.GroupResource{}
	}
	return kinds[n%len(kinds)]
}

func byName(a, b schema.GroupResource) int { return strings.Compare(a.String(), b.String()) }

// inBoth are the kinds that two runs read live at the same places.
func inBoth(a, b map[int][]schema.GroupResource) map[int][]schema.GroupResource {
	out := map[int][]schema.GroupResource{}
	for stored, kinds := range a {
		for _, kind := range kinds {
			if slices.Contains(b[stored], kind) {
				out[stored] = append(out[stored], kind)
			}
		}
		slices.SortFunc(out[stored], byName)
	}
	return out
}

// effects count the creates and deletes of every role.
type effects map[string]struct{ created, deleted int }

// pardoned is how many refused writes may follow the end: a cache that has not seen yet that
// its object is gone. They change nothing and are told in the summary.
const pardoned = 1

// chatter is how often a manager that has nothing to do may begin a watch anew, list what it watches, ask for all that is served, or
// send an Event, while it is watched: what was cut off comes again. What else it asks for it may ask once, as what was wrong before is
// tried again.
const chatter = 5

// findings collect what a run has broken.
type findings []Finding

func (f *findings) add(oracle, format string, args ...any) {
	*f = append(*f, Finding{oracle, fmt.Sprintf(format, args...)})
}

// judge finds the rules that a run has broken. A reference is judged by those that need no
// other run.
func (r *run) judge(reference *Reference, late []Write) []Finding {
	var out findings
	for _, trouble := range r.troubles {
		out.add("plan", "%s", trouble)
	}
	for _, resource := range unrecorded(r.proxy.story(), r.lab.world.Kinds) {
		out.add("plan", "the manager writes %s, which the world does not record", resource)
	}
	if !r.proxy.happened() {
		out.add("plan", "the fault did not happen: there were %d writes, and %d requests were refused by plan; it is about the kind %q",
			len(stored(r.proxy.story())), r.proxy.tally().Refused, r.proxy.plan.held)
	}
	history := r.heard()
	if r.converged && reference != nil {
		r.judgeEnd(&out, reference, history)
	}
	r.judgeEarly(&out)
	for _, orphan := range append(r.orphans(history), r.strays()...) {
		out.add("O3", "%s", orphan)
	}
	for role, n := range r.most(history) {
		if allowed := reference.atOnce(role); n > allowed {
			out.add("O4", "%d of %s at the same time, in the reference %d", n, role, allowed)
		}
	}
	r.judgeTime(&out)
	r.judgeQuiet(&out, late)
	r.judgeIdle(&out)
	r.judgeBusy(&out, reference)
	for _, back := range r.backward(history) {
		out.add("O7", "%s", back)
	}
	for _, broken := range slices.Concat(r.broken(history), r.trespasses(), r.overwritten(history), r.proxy.usurpations()) {
		out.add("O9", "%s", broken)
	}
	if reference == nil || r.fault.quiet(r.lab.world.QuietWhenLate) {
		if line := r.errorLine(); line != "" {
			out.add("O8", "a manager that nothing was refused to logs an error: %s; requests that the proxy could not pass on: %q", line, r.proxy.tornOff())
		}
	}
	for _, told := range r.proxy.betrayals() {
		out.add("O8", "%s", told)
	}
	out = append(out, r.judgeLog()...)
	return append(out, r.betrayals(history)...)
}

// unrecorded are the resources of writes that are not among those that a world records: nothing would be told of them.
func unrecorded(writes []Write, recorded []schema.GroupVersionResource) (out []string) {
	for _, w := range writes {
		if name := w.Resource.GroupResource().String(); !slices.Contains(recorded, w.Resource) && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// judgeEarly tells of what was written before it was due; of a run with a fault not, because what that has held up may come then.
func (r *run) judgeEarly(out *findings) {
	if r.fault.Mode != "" {
		return
	}
	for _, w := range r.early {
		out.add("O1", "written before it is due: %s", w.Signature())
	}
}

// judgeTime tells of a run that did not come to its end, or later than it may.
func (r *run) judgeTime(out *findings) {
	switch {
	case !r.converged:
		out.add("O5", "not done after %s:\n%s", r.took.Round(time.Millisecond), r.stuck)
	case r.took > r.may:
		out.add("O5", "done after %s, and it may take %s", r.took.Round(time.Millisecond), r.may.Round(time.Millisecond))
	}
}

// sinceWhen is a difference in when a condition has come about, by the manager's clock, which may come to lie within a run.
var sinceWhen = regexp.MustCompile(`^\S[^:]*\.conditions\[\d+\]\.lastTransitionTime: "(CLOCK|TIME)\([^)]*\)", in the reference "(CLOCK|TIME)\([^)]*\)"$`)

// judgeEnd compares what a run came to with its reference.
func (r *run) judgeEnd(out *findings, reference *Reference, history []Entry) {
	got := r.outcome(r.record.state(), history)
	diff := differences(reference.outcome, got, reference.masked)
	if !r.fault.quiet(r.lab.world.QuietWhenLate) {
		// What was refused is told in a condition for a while, and where the clock has moved on before, that it is over is
		// of another time.
		diff = slices.DeleteFunc(diff, func(line string) bool { return sinceWhen.MatchString(line) })
	}
	if len(diff) > 0 {
		out.add("O1", "the end is another: %s", strings.Join(first(diff, 6), "; "))
	}
	want, have := reference.effects, r.effects(history)
	for _, role := range union(want, have) {
		if want[role] != have[role] {
			out.add("O2", "%s: %d created and %d deleted, in the reference %d and %d", role,
				have[role].created, have[role].deleted, want[role].created, want[role].deleted)
		}
	}
}

// judgeQuiet looks for writes that nobody needs, after the end, and again and again while they are
// refused, and for reads and Events without an end.
func (r *run) judgeQuiet(out *findings, late []Write) {
	for _, w := range stored(late) {
		out.add("O6", "written after the end: %s", w.Signature())
	}
	if refused := len(late) - len(stored(late)); refused > pardoned {
		out.add("O6", "%d writes after the end that the API server refused", refused)
	}
	switch {
	case r.restless && !r.up: // which may be of the machine
		out.add("O5", "not up again %s after the end", startLimit)
	case r.restless:
		out.add("O6", "%s after the end there is still no moment in which it asks for nothing: a hot loop", startLimit)
	}
	for asked, n := range r.idly {
		if n > chatter || n > 1 && !asked.steady {
			out.add("O6", "%d times was asked for after the end: %s: a loop", n, asked.what)
		}
	}
	// A manager that starts asks for all there is, whatever is refused of it; who is in a loop asks for one thing.
	if request, refused := r.proxy.insisted(); refused > hot*r.times() {
		out.add("O6", "%d times within %s was refused by plan: %s: a hot loop", refused, r.fault.lasts(), request)
	}
	if all := r.proxy.story(); len(all)-len(stored(all)) > hot*r.times() {
		out.add("O6", "%d writes that the API server refused: a hot loop", len(all)-len(stored(all)))
	}
}

// judgeIdle looks for writes of a reference that change nothing. The version that is answered was there before: it was answered
// before, or the recorder had seen it when the write came.
func (r *run) judgeIdle(out *findings) {
	answered := map[string]bool{}
	for _, w := range stored(r.proxy.story()) {
		if w.version == "" || w.Verb == "delete" {
			continue
		}
		seen := answered[w.version] || slices.ContainsFunc(r.record.history(), func(e Entry) bool {
			return e.Resource == w.Resource && e.Object.GetResourceVersion() == w.version && e.Time.Before(w.sent)
		})
		if answered[w.version] = true; seen {
			out.add("O6", "it changes nothing: %s", w.Signature())
		}
	}
}

// judgeBusy looks for what is written, or told in Events, again and again while something is wrong, and comes to the same end.
func (r *run) judgeBusy(out *findings, reference *Reference) {
	if reference == nil {
		return // the other one has as many
	}
	if n := r.proxy.happenings(); n > reference.events+hot*r.times() {
		out.add("O6", "%d Events were sent, in the reference %d", n, reference.events)
	}
	times := map[string]int{}
	for _, w := range stored(r.proxy.story()) {
		times[w.request()]++
	}
	for _, request := range slices.Sorted(maps.Keys(times)) {
		usual := 0
		for _, w := range reference.Writes {
			if w.request() == request {
				usual++
			}
		}
		if n := times[request]; n > usual+hot*r.times() {
			out.add("O6", "%d times was written, in the reference %d: %s: a hot loop", n, usual, request)
		}
	}
}

// betrayals are the objects other than Secrets that have ever held a secret.
func (r *run) betrayals(history []Entry) []Finding {
	if len(r.lab.world.Secrets) == 0 {
		return nil
	}
	var out []Finding
	for _, e := range history {
		if e.Object.GetKind() == "Secret" {
			continue
		}
		text, err := json.Marshal(e.Object)
		for i, secret := range r.lab.world.Secrets {
			if err != nil || !bytes.Contains(text, []byte(secret)) {
				continue
			}
			if f := (Finding{"O8", fmt.Sprintf("%s has held secret %d", r.lab.world.Role(e.Object), i+1)}); !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	return out
}

// judgeLog looks for what no log may have.
func (r *run) judgeLog() []Finding {
	var out []Finding
	log, err := r.manager.log()
	if err != nil {
		return []Finding{{"plan", err.Error()}}
	}
	for _, word := range []string{"panic:", "Observed a panic", "DATA RACE"} {
		if at := strings.Index(log, word); at >= 0 {
			out = append(out, Finding{"O8", panicked + log[at:min(len(log), at+300)]})
		}
	}
	for i, secret := range r.lab.world.Secrets {
		if strings.Contains(log, secret) {
			out = append(out, Finding{"O8", fmt.Sprintf("the log has secret %d", i+1)})
		}
	}
	r.manager.mu.Lock()
	defer r.manager.mu.Unlock()
	if r.manager.exits > 0 {
		out = append(out, Finding{"O8", fmt.Sprintf("the manager exited by itself, %d time(s), and said: %s", r.manager.exits, r.manager.last)})
	}
	// It exits with an error when something that it started does not stop in time.
	if r.manager.end != nil {
		out = append(out, Finding{"O8", fmt.Sprintf("asked to stop, the manager did not do so well: %v", r.manager.end)})
	}
	return out
}

// stopping are words of the errors that client-go logs of what a manager that is stopped cuts short.
var stopping = []string{"cache.UnhandledError", "Unexpected error when reading response body", "Unable to write event"}

// errorLine is the first line of the log that is an error which the workload does not expect.
func (r *run) errorLine() string {
	log, err := r.manager.log()
	if err != nil {
		return ""
	}
	for line := range strings.Lines(log) {
		expected := slices.ContainsFunc(r.workload.Logs, func(words string) bool { return strings.Contains(line, words) }) ||
			strings.Contains(line, "context canceled") && // of client-go, when a manager is stopped
				slices.ContainsFunc(stopping, func(words string) bool { return strings.Contains(line, words) })
		if strings.Contains(line, `"level":"error"`) && !expected {
			return line[:min(len(line), 500)]
		}
	}
	return ""
}

// effects are what was created and deleted, as the recorder saw it.
func (r *run) effects(history []Entry) effects {
	out := effects{}
	for _, e := range history {
		role := r.lab.world.Role(e.Object)
		n := out[role]
		switch e.Verb {
		case watch.Added:
			n.created++
		case watch.Deleted:
			n.deleted++
		}
		out[role] = n
	}
	return out
}

// orphans are objects that outlived their owner, if only for a moment.
func (r *run) orphans(history []Entry) []string {
	var out []string
	owners, live := map[types.UID]string{}, map[types.UID]Entry{}
	lost := func(e Entry) {
		if slices.Contains(r.workload.Leaves, r.lab.world.Role(e.Object)) {
			return
		}
		out = append(out, fmt.Sprintf("%s %s is there without its owner", r.lab.world.Role(e.Object), r.hide(e.Object.GetName())))
	}
	for _, e := range history {
		uid, role := e.Object.GetUID(), r.lab.world.Role(e.Object)
		if e.Verb != watch.Deleted {
			_, before := live[uid]
			live[uid], owners[uid] = e, role
			if owner := r.lab.world.Owner(e.Object); !before && owner != "" && owners[owner] == "" {
				lost(e)
			}
			continue
		}
		delete(live, uid)
		delete(owners, uid)
		for _, child := range live {
			if r.lab.world.Owner(child.Object) == uid {
				lost(child)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// heard is everything that happened, when the recorder has been told of all that the manager has written.
func (r *run) heard() []Entry {
	for deadline := time.Now().Add(faultLimit); len(r.strays()) > 0 && time.Now().Before(deadline); {
		time.Sleep(poll)
	}
	return ascribed(r.record.history(), r.proxy.deleted())
}

// ascribed is a history that says what goes because the manager has asked for that, and knows after each change what there was.
func ascribed(history []Entry, deleted map[deletion]bool) []Entry {
	goes, own := map[types.UID]bool{}, map[types.UID]bool{}
	state := State{}
	for i := range history {
		e := &history[i]
		uid, version := e.Object.GetUID(), ""
		if e.Verb != watch.Deleted {
			version = e.Object.GetResourceVersion()
		}
		if !goes[uid] && (e.Verb == watch.Deleted || e.Object.GetDeletionTimestamp() != nil) {
			goes[uid], own[uid] = true, deleted[deletion{uid, version}]
		}
		e.Own = own[uid]
		state = state.after(*e)
		e.state = state
	}
	return history
}

// strays are objects that the manager has written and that say nothing of the run: no other rule is told of them.
func (r *run) strays() (out []string) {
	for _, w := range stored(r.proxy.story()) {
		if name := w.called(); name.Name != "" && slices.Contains(r.lab.world.Kinds, w.Resource) && len(r.record.seen(w.Resource, name)) == 0 {
			out = append(out, fmt.Sprintf("%s is of something that says of no run that it belongs there", w.Signature()))
		}
	}
	return out
}

// trespasses are writes of what is somebody else's, and never was the manager's by that name.
func (r *run) trespasses() (out []string) {
	if r.lab.world.Others == nil {
		return nil
	}
	for _, w := range stored(r.proxy.story()) {
		seen := r.record.seen(w.Resource, w.called())
		if len(seen) > 0 && !slices.ContainsFunc(seen, func(u *unstructured.Unstructured) bool { return !r.lab.world.Others(u) }) {
			out = append(out, fmt.Sprintf("%s is of %s, which is somebody else's", w.Signature(), r.lab.world.Role(seen[0])))
		}
	}
	return out
}

// overwritten are objects of the manager's kinds of which somebody else has written what belongs to who has made them: the manager
// writes their statuses and finalizers.
func (r *run) overwritten(history []Entry) (out []string) {
	authors := map[types.UID][]string{}
	for _, e := range history {
		uid, fields := e.Object.GetUID(), e.Object.GetManagedFields()
		if authors[uid] == nil {
			for _, f := range fields {
				authors[uid] = append(authors[uid], f.Manager)
			}
		}
		for _, f := range fields {
			if _, ranked := r.lab.world.Rank(e.Object); !ranked || f.Subresource != "" || slices.Contains(authors[uid], f.Manager) || f.FieldsV1 == nil {
				continue
			}
			var written map[string]map[string]any
			if err := json.Unmarshal(f.FieldsV1.GetRawBytes(), &written); err != nil {
				continue
			}
			delete(written["f:metadata"], "f:finalizers")
			maps.DeleteFunc(written, func(_ string, of map[string]any) bool { return len(of) == 0 })
			if len(written) > 0 {
				out = append(out, fmt.Sprintf("%s: its author has not written %v", r.lab.world.Role(e.Object), written))
			}
		}
	}
	return slices.Compact(out)
}

// most is how many objects of a role an owner had at the same time at most.
func (r *run) most(history []Entry) map[string]int {
	type key struct {
		owner types.UID
		role  string
	}
	now, out := map[key]int{}, map[string]int{}
	for _, e := range history {
		k := key{r.lab.world.Owner(e.Object), r.lab.world.Role(e.Object)}
		switch e.Verb {
		case watch.Added:
			now[k]++
		case watch.Deleted:
			now[k]--
		}
		out[k.role] = max(out[k.role], now[k])
	}
	return out
}

// broken are the invariants of the world that a change has broken. A resource version orders what
// was stored of all kinds, whatever the order in which the recorder was told.
func (r *run) broken(history []Entry) []string {
	var out []string
	for name, invariant := range r.lab.world.Invariants {
		if slices.Contains(r.workload.Breaks, name) {
			continue
		}
		for n := range history {
			if why := invariant(history[:n+1]); why != "" {
				out = append(out, fmt.Sprintf("%s: %s", name, why))
			}
		}
	}
	slices.Sort(out)
	return out
}

// needless are the exceptions that a workload makes of the rules and that its run has no need of: they would hide something.
func (r *run) needless(history []Entry) (out []string) {
	without := func(exceptions []string, i int) []string { return slices.Delete(slices.Clone(exceptions), i, i+1) }
	for i, name := range r.workload.Breaks {
		other := *r
		if other.workload.Breaks = without(r.workload.Breaks, i); len(other.broken(history)) == len(r.broken(history)) {
			out = append(out, "it does not break: "+name)
		}
	}
	for i, role := range r.workload.Leaves {
		other := *r
		if other.workload.Leaves = without(r.workload.Leaves, i); len(other.orphans(history)) == len(r.orphans(history)) {
			out = append(out, "it does not leave "+role)
		}
	}
	return out
}

// atOnce is how many objects of a role there may be: one, or what the reference had.
func (ref *Reference) atOnce(role string) int {
	if ref == nil {
		return 1
	}
	return max(1, ref.most[role])
}

// backward are the changes of an object that its world or the meaning of observedGeneration
// forbids: a phase left for one that comes before in the same cycle, and conditions that have seen less or are gone.
func (r *run) backward(history []Entry) []string {
	type cycle struct {
		uid  types.UID
		name string
	}
	world := r.lab.world
	var out []string
	highest, last := map[cycle]int{}, map[cycle]*unstructured.Unstructured{}
	latest, seen := map[types.UID]*unstructured.Unstructured{}, map[types.UID]map[string]int64{}
	for _, e := range history {
		u, at := e.Object, cycle{uid: e.Object.GetUID()}
		if world.Cycle != nil {
			at.name = world.Cycle(u)
		}
		if before := last[at]; before != nil && world.Forbids != nil {
			if why := world.Forbids(before, u); why != "" {
				out = append(out, fmt.Sprintf("%s: %s", world.Role(u), why))
			}
		}
		if seen[at.uid] == nil {
			seen[at.uid] = map[string]int64{}
		}
		rank, ranked := world.Rank(u)
		for _, why := range append(unseen(seen[at.uid], u, ranked), world.dropped(latest[at.uid], u)...) {
			out = append(out, fmt.Sprintf("%s: condition %s", world.Role(u), why))
		}
		last[at], latest[at.uid] = u, u
		if !ranked {
			continue
		}
		if rank < highest[at] {
			out = append(out, fmt.Sprintf("%s went from rank %d back to %d", world.Role(u), highest[at], rank))
		}
		highest[at] = max(highest[at], rank)
	}
	return out
}

// unseen are the conditions of an object that have seen less than before, or more than there is. Those of others, without a
// rank, need not say what they have seen.
func unseen(seen map[string]int64, u *unstructured.Unstructured, ranked bool) (out []string) {
	for condition, generation := range observed(u) {
		if generation == 0 && ranked {
			out = append(out, condition+" does not say what generation it has observed")
		}
		if generation < seen[condition] || generation > u.GetGeneration() {
			out = append(out, fmt.Sprintf("%s has observed generation %d after %d, and the object is at %d",
				condition, generation, seen[condition], u.GetGeneration()))
		}
		seen[condition] = generation
	}
	return out
}

// dropped are the conditions that an object has no more, although it is still what they had seen.
func (w World) dropped(before, u *unstructured.Unstructured) (out []string) {
	if before == nil {
		return nil
	}
	has := observed(u)
	for condition, generation := range observed(before) {
		if _, there := has[condition]; !there && generation > 0 && generation == u.GetGeneration() && (w.TakesBack == nil || !w.TakesBack(u, condition)) {
			out = append(out, fmt.Sprintf("%s is gone, and the object is at generation %d, which it had observed", condition, generation))
		}
	}
	return out
}

// observed are the generations that the conditions of an object have observed.
func observed(u *unstructured.Unstructured) map[string]int64 {
	out := map[string]int64{}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		name, _ := condition["type"].(string)
		out[name], _ = condition["observedGeneration"].(int64)
	}
	return out
}

func first(s []string, n int) []string {
	if len(s) > n {
		return append(slices.Clone(s[:n]), fmt.Sprintf("and %d more", len(s)-n))
	}
	return s
}

func union[V any](a, b map[string]V) []string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return slices.Sorted(maps.Keys(all))
}
