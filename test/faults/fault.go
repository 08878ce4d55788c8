package faults

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// quiet says whether the manager has no error to log. Late is a world whose manager has none when
// its cache is late either, and the API server refuses what it writes for that.
func (f Fault) quiet(late bool) bool {
	return f.crashes() || late && (slices.Contains([]Mode{Coalesced, Held, Unwritten}, f.Mode) || f.travels())
}

// Mode is what happens at a write of the manager.
type Mode string

const (
	// Crash stores the write and kills the manager before it has the answer.
	Crash Mode = "C1"
	// Lost stores the write and drops the connection.
	Lost Mode = "C2"
	// Conflict answers 409 once.
	Conflict Mode = "C3"
	// Conflicts answers 409 to every write of the object for a while.
	Conflicts Mode = "C3long"
	// TooMany answers 429 once, with Retry-After.
	TooMany Mode = "C4a"
	// Internal answers 500 once.
	Internal Mode = "C4b"
	// Unavailable answers 503 once.
	Unavailable Mode = "C4c"
	// Reset drops the connection once, with nothing stored.
	Reset Mode = "C4d"
	// Forbidden answers 403 to every write for a while.
	Forbidden Mode = "C5"
	// Webhook answers every write of the kind as when a webhook of it is down, for a while.
	Webhook Mode = "C5webhook"
	// Terminating answers every create in the namespace as when it is being deleted, for a
	// while.
	Terminating Mode = "C5terminating"
	// Quota answers every create of the kind in the namespace as when its quota is used up,
	// for a while.
	Quota Mode = "C5quota"
	// Halted stores the write and has the manager stand still, until another has taken its place.
	Halted Mode = "C6"
	// Restart stores the write, kills the API server and starts it again.
	Restart Mode = "C7"
	// Again is Crash, and then the next manager is killed at the first write that it makes, while it recovers.
	Again Mode = "C8a"
	// AgainSecond is Again at the second.
	AgainSecond Mode = "C8b"
	// AgainThird is Again at the third.
	AgainThird Mode = "C8c"
	// Coalesced holds all watch events for a while and then delivers the newest of each
	// object, as a list would show it.
	Coalesced Mode = "U1"
	// Held holds the watch events of one kind for a while.
	Held Mode = "U2"
	// Unwritten holds the events of a kind for a while that the manager watches and never writes, as it is changed by others next.
	Unwritten Mode = "U4"
	// Expired ends all watches with 410 Gone, and delivers every event twice from then on.
	Expired Mode = "U3"
	// Travel stores the write and kills the manager; the next one finds the caches of a
	// moment before the last writes, for a while.
	Travel Mode = "S1"
	// Behind is Travel of one kind other than that of the write, to before a write of that kind, while
	// the next manager finds all others as they are.
	Behind Mode = "S2"
	// Forgetful is Travel of the kind of the write alone, to before all its writes in a row: the next manager does not
	// know what they told, and finds what has come of it.
	Forgetful Mode = "S3"
	// Outdated is Travel of a kind alone that the manager never writes, to before others have changed it last.
	Outdated Mode = "S4"
	// Edited is Travel of a kind alone that the manager writes, to before others have changed it last: it finds what it has
	// written before that, and not what has come of it.
	Edited Mode = "S5"
	// Unread stores the write, and answers 500 to what is read live next.
	Unread Mode = "R1"
	// Unreadable stores the write, and from the next live read of one kind on answers 403 to every such read, for a while.
	Unreadable Mode = "R2"
	// Blind stores the write and kills the manager; the next one may not list one of the kinds that it
	// watches, for a while.
	Blind Mode = "R3"
)

// Modes are all, in their order.
var Modes = []Mode{
	Crash, Lost, Conflict, Conflicts, TooMany, Internal, Unavailable, Reset, Forbidden, Webhook, Terminating, Quota,
	Halted, Restart, Again, AgainSecond, AgainThird, Coalesced, Held, Expired, Unwritten, Travel, Behind, Forgetful, Outdated, Edited,
	Unread, Unreadable, Blind,
}

const (
	// outage is how long requests are refused, longer than the manager's first attempts.
	outage = 3 * time.Second
	// blindness is how long a kind cannot be listed, longer than a manager that starts waits for its cache.
	blindness = 12 * time.Second
	// retryAfter is what a 429 asks for.
	retryAfter = time.Second
	// lateness is how late events are.
	lateness = time.Second
	// latestBack is when a manager that travels comes back although it still does something.
	latestBack = 5 * time.Second
	// depths are how many writes a manager is put back at most that travels with all kinds.
	depths = 3
	// hot is how many attempts of the same write an outage may see, and how many more of it may come through. The backoff of
	// the manager makes five, and events wake it between.
	hot = 25
)

// Fault is what happens in a run. The zero value is nothing.
type Fault struct {
	Mode Mode
	// K is the ordinal of the write that it happens at, from 1.
	K int
}

func (f Fault) String() string {
	if f.Mode == "" {
		return "reference"
	}
	return fmt.Sprintf("%s at write %d", f.Mode, f.K)
}

// refuses says whether the write does not take place.
func (f Fault) refuses() bool {
	_, ok := refusals[f.Mode]
	return ok && !f.reads() || f.Mode == Reset
}

// reads says whether it refuses reads.
func (f Fault) reads() bool { return slices.Contains([]Mode{Unread, Unreadable, Blind}, f.Mode) }

// loses says whether the write takes place and its answer is dropped.
func (f Fault) loses() bool {
	return f.crashes() || slices.Contains([]Mode{Lost, Restart, Blind}, f.Mode) || f.travels()
}

// crashes says whether it kills the manager, and nothing else.
func (f Fault) crashes() bool { return f.Mode == Crash || f.after() > 0 }

// after is after how many writes of the next manager that is killed, too; 0 is that it is not.
func (f Fault) after() int { return 1 + slices.Index([]Mode{Again, AgainSecond, AgainThird}, f.Mode) }

// repeats says whether it can happen several times in a run: when it is over, nothing of it is left but what the manager has
// made of it, and that is mostly the road of the reference. Where it is not, as where what was refused is told in a status, the
// run leaves out the other times.
func (f Fault) repeats() bool { return !slices.Contains([]Mode{"", Halted, Restart}, f.Mode) }

// brief says whether it is over when it has happened.
func (f Fault) brief() bool {
	return f.Mode == Crash || f.Mode == Lost || f.refuses() && f.lasts() == 0
}

// ends says whether a fault is over so many writes after its own, however long that takes. One that lasts for a time, or in which a
// manager finds what was, may do so until the user does what is next.
func (f Fault) ends() (after int, ok bool) {
	return f.after(), f.brief() || f.after() > 0 || f.Mode == Unread
}

// delays says whether the watches are disturbed.
func (f Fault) delays() bool {
	return slices.Contains([]Mode{Coalesced, Held, Expired, Unwritten}, f.Mode)
}

// travels says whether another manager finds something as it was before.
func (f Fault) travels() bool {
	return slices.Contains([]Mode{Travel, Behind, Forgetful, Outdated, Edited}, f.Mode)
}

// lasts is how long a fault that refuses does; 0 is once.
func (f Fault) lasts() time.Duration {
	switch f.Mode {
	case TooMany:
		return retryAfter
	case Conflicts, Forbidden, Webhook, Terminating, Quota, Unreadable:
		return outage
	case Blind:
		return blindness
	}
	return 0
}

// concerns says whether a fault at the first write refuses the second one too while it lasts.
func (f Fault) concerns(first, w Write) bool {
	switch f.Mode {
	case Forbidden:
		return true
	case Conflicts:
		return w.Resource == first.Resource && w.Namespace == first.Namespace && w.Name == first.Name
	case Webhook:
		return w.Resource == first.Resource
	case Terminating:
		return w.Verb == "create" && w.Namespace == first.Namespace
	case Quota:
		return w.Verb == "create" && w.Namespace == first.Namespace && w.Resource == first.Resource
	}
	return false
}

// possible says whether a fault can happen at its write of a reference.
func (f Fault) possible(reference *Reference) bool {
	if f.K > len(reference.Writes) {
		return false
	}
	w := reference.Writes[f.K-1]
	switch f.Mode {
	case Again, AgainSecond, AgainThird:
		return f.K+f.after() <= len(reference.Writes)
	case Terminating, Quota:
		return w.Verb == "create" && w.Namespace != ""
	case Held, Unwritten, Behind, Forgetful, Outdated, Edited, Unread, Unreadable, Blind:
		return !reference.held(f).Empty()
	}
	return true
}

// refusesRead says whether it answers a read of a kind in the place of the API server, once it has begun: a live one, or
// one of an informer.
func (f Fault) refusesRead(kind, held schema.GroupResource, live bool) bool {
	switch f.Mode {
	case Unread:
		return live
	case Unreadable:
		return live && kind == held
	case Blind:
		return !live && kind == held
	}
	return false
}

// forbidden and failing are what a server says that does not know a right, or its leader, for a moment.
var (
	forbidden = metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "%s is forbidden: RBAC: clusterrole.rbac.authorization.k8s.io \"labkeeper-manager\" not found"}
	failing   = metav1.Status{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "Internal error occurred: etcdserver: leader changed"}
)

// refusals are what the modes that refuse answer; the text says of what.
var refusals = map[Mode]metav1.Status{
	Conflict:    {Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "Operation cannot be fulfilled on %s: the object has been modified; please apply your changes to the latest version and try again"},
	Conflicts:   {Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "Operation cannot be fulfilled on %s: the object has been modified; please apply your changes to the latest version and try again"},
	TooMany:     {Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests, please try again later"},
	Internal:    failing,
	Unavailable: {Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable, Message: "the server is currently unable to handle the request"},
	Forbidden:   forbidden,
	Webhook:     {Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError, Message: "Internal error occurred: failed calling webhook \"validate.example.com\": failed to call webhook: Post \"https://webhook.example.svc:443/validate?timeout=10s\": dial tcp 10.0.0.17:443: connect: connection refused"},
	Terminating: {Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "%s is forbidden: unable to create new content in namespace %s because it is being terminated"},
	Quota:       {Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "%s is forbidden: exceeded quota: objects, requested: count=1, used: count=10, limited: count=10"},
	Unread:      failing,
	Unreadable:  forbidden,
	Blind:       forbidden,
}

// refuse answers in the place of the API server.
func refuse(w http.ResponseWriter, mode Mode, write Write) {
	status, ok := refusals[mode]
	if !ok {
		reset(w)
		return
	}
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	status.Status = metav1.StatusFailure
	resource := write.Resource.GroupResource().String()
	status.Message = strings.NewReplacer("namespace %s", "namespace "+write.Namespace, "%s", fmt.Sprintf("%s %q", resource, write.Name)).Replace(status.Message)
	status.Details = &metav1.StatusDetails{Group: write.Resource.Group, Kind: write.Resource.Resource, Name: write.Name}
	switch mode {
	case TooMany:
		status.Details.RetryAfterSeconds = int32(retryAfter.Seconds())
		w.Header().Set("Retry-After", fmt.Sprint(int(retryAfter.Seconds())))
	case Webhook:
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Message: strings.TrimPrefix(status.Message, "Internal error occurred: ")}}}
	case Terminating:
		status.Details.Causes = []metav1.StatusCause{{
			Type: corev1.NamespaceTerminatingCause, Message: fmt.Sprintf("namespace %s is being terminated", write.Namespace), Field: "metadata.namespace",
		}}
	}
	answer(w, status)
}

// reset ends the connection as a peer that has gone does.
func reset(w http.ResponseWriter) {
	if hijacker, ok := w.(http.Hijacker); ok {
		if connection, _, err := hijacker.Hijack(); err == nil {
			if tcp, ok := connection.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			_ = connection.Close()
			return
		}
	}
	panic(http.ErrAbortHandler)
}

// alike are modes of which a reconciler sees the same, an error of a write that was not stored, and which client-go repeats in none:
// that would need a Retry-After, or a read.
var alike = []Mode{Internal, Unavailable, Reset}

// inTurn says whether a fault is the one of those that its write has; any other is.
func (f Fault) inTurn() bool {
	i := slices.Index(alike, f.Mode)
	return i < 0 || f.K%len(alike) == i
}

// parseMode reads a mode of a flag.
func parseMode(s string) (Mode, error) {
	if m := Mode(s); slices.Contains(Modes, m) {
		return m, nil
	}
	return "", fmt.Errorf("there is no mode %q; there are %v", s, Modes)
}
