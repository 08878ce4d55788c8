package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// streams are the watches of one manager, which come late, in another order or twice by plan.
// Each of them alone keeps the order of its events: a watch of the API server does too.
type streams struct {
	mode Mode
	// mine says whether an object belongs to the run; others pass by in the same streams.
	mine func(*unstructured.Unstructured) bool
	// over is called when the fault has done what it does.
	over func()

	mu   sync.Mutex
	open []*stream
	// begun is the ordinal of the write at which the fault has begun last, and held the kind that is held since, if not all are;
	// late says that an event of the run is.
	begun   int
	held    schema.GroupResource
	holding bool
	late    bool
	doubled bool
	// ended are the streams that were ended and have not been opened again, and one until the write is answered at which.
	ended int
	tally Tally
}

// Tally counts what a fault did to the reads of a manager.
type Tally struct {
	// Refused are requests that were answered in the place of the API server.
	Refused int
	// Held are events that came late, Coalesced those of them that never came because of a
	// later one, Doubled those that came twice.
	Held, Coalesced, Doubled int
	// Ended are watches that ended with 410 Gone.
	Ended int
	// Rewritten are lists that showed the past, Waited the watches that went on from there late.
	Rewritten, Waited int
}

func (t Tally) plus(o Tally) Tally {
	return Tally{
		t.Refused + o.Refused, t.Held + o.Held, t.Coalesced + o.Coalesced, t.Doubled + o.Doubled, t.Ended + o.Ended,
		t.Rewritten + o.Rewritten, t.Waited + o.Waited,
	}
}

// String says what there is to say, after a comma.
func (t Tally) String() string {
	var out strings.Builder
	for _, part := range []struct {
		n    int
		what string
	}{
		{t.Refused, "requests refused"}, {t.Held, "events held"}, {t.Coalesced, "of them coalesced"}, {t.Ended, "watches expired"},
		{t.Doubled, "events doubled"}, {t.Rewritten, "lists of the past"}, {t.Waited, "watches held"},
	} {
		if part.n > 0 {
			fmt.Fprintf(&out, ", %d %s", part.n, part.what)
		}
	}
	return out.String()
}

// frame is one event of a watch, as it is on the wire.
type frame struct {
	Type   watch.EventType `json:"type"`
	Object json.RawMessage `json:"object"`

	object unstructured.Unstructured
}

// initialEventsEnd marks the bookmark that ends what a watch tells of the past.
func (f frame) initialEventsEnd() bool {
	return f.Type == watch.Bookmark && f.object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// stream is one watch.
type stream struct {
	all      *streams
	resource schema.GroupResource
	from     io.ReadCloser
	to       *io.PipeWriter
	// initial: what was there before is still being told.
	initial bool
	held    []frame
	queue   []frame
	ended   bool
	wake    chan struct{} // holds one value when there is something to write
}

// gone is how a watch ends that the API server cannot go on with.
var gone = frame{Type: watch.Error, Object: json.RawMessage(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
	`"message":"too old resource version","reason":"Expired","code":410}`)}

// attach puts a watch between the API server and the manager.
func (s *streams) attach(w Write, r *http.Response) {
	reader, writer := io.Pipe()
	st := &stream{
		all: s, resource: w.Resource.GroupResource(), from: r.Body, to: writer,
		initial: r.Request.URL.Query().Get("sendInitialEvents") == "true", wake: make(chan struct{}, 1),
	}
	s.mu.Lock()
	s.open = append(s.open, st)
	s.left()
	s.mu.Unlock()
	go st.read()
	go st.write()
	r.Body = &attached{reader, st}
}

// left counts one of those down that were ended; mu is held.
func (s *streams) left() {
	if s.ended > 0 {
		if s.ended--; s.ended == 0 {
			s.over()
		}
	}
}

// answered tells that the write was stored at which the streams were ended.
func (s *streams) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left()
}

// attached is the manager's side of a stream.
type attached struct {
	*io.PipeReader
	stream *stream
}

func (a *attached) Close() error {
	s := a.stream.all
	s.mu.Lock()
	s.open = slices.DeleteFunc(s.open, func(other *stream) bool { return other == a.stream })
	a.stream.ended, a.stream.held = true, nil
	s.mu.Unlock()
	_ = a.PipeReader.Close()
	a.stream.tell()
	return a.stream.from.Close()
}

// read takes the events of the API server.
func (st *stream) read() {
	reader := bufio.NewReader(st.from)
	for {
		line, err := reader.ReadBytes('\n')
		var f frame
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &f) == nil {
			_ = f.object.UnmarshalJSON(f.Object)
			st.take(f)
		}
		if err != nil {
			st.all.mu.Lock()
			st.ended = true
			st.all.mu.Unlock()
			st.tell()
			return
		}
	}
}

// take decides what becomes of an event.
func (st *stream) take(f frame) {
	s := st.all
	s.mu.Lock()
	defer s.mu.Unlock()
	defer st.tell()
	switch {
	case st.ended:
	case st.initial:
		st.initial = !f.initialEventsEnd()
		st.queue = append(st.queue, f)
	case s.holding && (s.mode == Coalesced || st.resource == s.held):
		if f.Type == watch.Bookmark {
			return // of events that the manager does not have; another one will come
		}
		st.held = append(st.held, f)
		if !s.mine(&f.object) {
			return
		}
		if s.tally.Held++; !s.late {
			s.late = true
			time.AfterFunc(lateness, s.release)
		}
	case s.doubled && f.Type != watch.Bookmark && f.Type != watch.Error:
		st.queue = append(st.queue, f, f)
		if s.mine(&f.object) {
			s.tally.Doubled++
		}
	default:
		st.queue = append(st.queue, f)
	}
}

// tell wakes the writer.
func (st *stream) tell() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// write gives the manager what it may have.
func (st *stream) write() {
	defer st.from.Close()
	for range st.wake {
		st.all.mu.Lock()
		queue, end := st.queue, st.ended && len(st.held) == 0
		st.queue = nil
		st.all.mu.Unlock()
		for _, f := range queue {
			line, err := json.Marshal(f)
			if err == nil {
				_, err = st.to.Write(append(line, '\n'))
			}
			if err != nil {
				return // the manager has gone
			}
		}
		if end {
			_ = st.to.Close()
			return
		}
	}
}

// begin lets the fault happen at a write, about a kind; not again, when the API server has refused the write.
func (s *streams) begin(k int, held schema.GroupResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.begun == k {
		return
	}
	if s.begun, s.held = k, held; s.mode != Expired {
		s.holding, s.late = true, false
		return
	}
	s.doubled, s.ended = true, 1
	for _, st := range s.open {
		if st.ended {
			continue
		}
		st.queue, st.ended = append(st.queue, gone), true
		s.tally.Ended++
		s.ended++
		st.tell()
	}
}

// release delivers what was held.
func (s *streams) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holding = false
	for _, st := range s.open {
		held := st.held
		if s.mode == Coalesced {
			held = coalesce(held)
			s.tally.Coalesced += s.count(st.held) - s.count(held)
		}
		st.queue, st.held = append(st.queue, held...), nil
		st.tell()
	}
	s.over()
}

// count is how many of the events are of the run.
func (s *streams) count(frames []frame) int {
	n := 0
	for i := range frames {
		if s.mine(&frames[i].object) {
			n++
		}
	}
	return n
}

// counts are what the fault has done so far.
func (s *streams) counts() Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally
}

// coalesce leaves the newest event of every object: what somebody would see who looked away.
// One that came and went was never there, and one that went and came again has changed.
func coalesce(frames []frame) []frame {
	key := func(f frame) string { return f.object.GetNamespace() + "/" + f.object.GetName() }
	newest := map[string]frame{}
	last := map[string]int{}
	for i, f := range frames {
		before, known := newest[key(f)]
		switch {
		case !known:
		case before.Type == watch.Added && f.Type == watch.Deleted:
			delete(newest, key(f))
			continue
		case before.Type == watch.Added:
			f.Type = watch.Added
		case before.Type == watch.Deleted:
			f.Type = watch.Modified
		}
		newest[key(f)], last[key(f)] = f, i
	}
	var out []frame
	for i, f := range frames {
		if event, ok := newest[key(f)]; ok && last[key(f)] == i {
			out = append(out, event)
		}
	}
	return out
}

// acceptJSON takes all other formats out of an Accept header: only a stream of JSON can be
// taken apart without knowing the kind.
func acceptJSON(header http.Header) {
	var keep []string
	for _, part := range strings.Split(header.Get("Accept"), ",") {
		if kind, _, err := mime.ParseMediaType(strings.TrimSpace(part)); err == nil && kind == "application/json" {
			keep = append(keep, strings.TrimSpace(part))
		}
	}
	if len(keep) == 0 {
		keep = []string{"application/json"}
	}
	header.Set("Accept", strings.Join(keep, ","))
}
