package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// Write is a request of the manager that asks for a change.
type Write struct {
	Verb        string // create, update, patch, delete
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string
	// object is what it is about as it is called in its run.
	object types.NamespacedName
	// generated is the name that the API server has given it.
	generated string
	// body is what is written, as it was sent, and version what the object is in then; of a run that is to be a reference.
	body, version string
	// sent is when it came.
	sent time.Time
	// usurps: another has taken the place of who has sent it.
	usurps bool
	// Occurrence numbers the stored writes of a run that are alike otherwise, from 1.
	Occurrence int
	// Code is the answer; 0 while there is none.
	Code int
	// At is when it was answered.
	At time.Time
}

// Stored says whether the API server did what it was asked for.
func (w Write) Stored() bool { return w.Code >= 200 && w.Code < 300 }

// called is the object as it is called in its run; without a name it is those of a kind.
func (w Write) called() types.NamespacedName {
	w.object.Name += w.generated
	return w.object
}

// Signature is what makes a write the same one in another run: without what is different in
// every run.
func (w Write) Signature() string { return fmt.Sprintf("%s #%d", w.request(), w.Occurrence) }

// request is what is the same whenever it is asked for.
func (w Write) request() string {
	resource := w.Resource.GroupResource().String()
	if w.Subresource != "" {
		resource += "/" + w.Subresource
	}
	return fmt.Sprintf("%s %s %s/%s", w.Verb, resource, w.Namespace, w.Name)
}

// alike says whether two writes ask for the same, whatever their occurrence.
func (w Write) alike(other Write) bool {
	w.Occurrence, w.Code, w.At, w.object, w.generated = other.Occurrence, other.Code, other.At, other.object, other.generated
	w.body, w.version, w.sent, w.usurps = other.body, other.version, other.sent, other.usurps
	return w == other
}

// in is the write in the words of another run.
func (w Write) in(hide func(string) string) Write {
	w.Name, w.Namespace = hide(w.object.Name), hide(w.object.Namespace)
	return w
}

// numbered is a write after those before it, of which it may be another occurrence.
func numbered(writes []Write, w Write) Write {
	w.Occurrence = 1
	for _, before := range writes {
		if before.Stored() && before.alike(w) {
			w.Occurrence++
		}
	}
	return w
}

// proxy stands between one manager and the API server. It counts the manager's writes and
// lets one fault happen.
type proxy struct {
	url string
	// urlOfNext is where managers find it that come when another stands still.
	urlOfNext string
	plan      disturbance
	server    *http.Server
	streams   *streams
	lease     *lease

	mu     sync.Mutex
	writes []Write // that were answered by the API server
	stored int
	// watched are the kinds that were watched.
	watched map[schema.GroupResource]bool
	// reads are the kinds that were read live, by how many writes were stored before.
	reads map[int][]schema.GroupResource
	// moments are the resource versions after each stored write, for a mode that needs them.
	moments []string
	// asked is how often each request came that is no write: reads, watches, Events; events is how many there were of those.
	asked  map[request]int
	events int
	// flying are the requests that have no answer yet, but for watches, and since when.
	flying map[*http.Request]time.Time
	// busy is when a request came or was answered last.
	busy time.Time
	// first is the write that the fault happened at last, fired when, and ceased when it was over; hits are the ordinals of all.
	first         Write
	hits          []int
	fired, ceased time.Time
	// delayed is the ordinal of the write that watches are late for.
	delayed int
	// spent is how long the faults before the last one lasted.
	spent time.Duration
	// past is the resource version that lists show while a manager travels, and back is closed when it comes back.
	past string
	back chan struct{}
	// over is closed when the fault has done what it does.
	over chan struct{}
	// counted is what the fault has done, and before what of that it had when it happened last.
	counted, before Tally
	// resumed says that the manager that stood still goes on, and usurped are the writes of it since.
	resumed bool
	usurped []Write
	// refusals are how often each request was refused by plan, or by the workload, which bars some.
	refusals map[string]int
	barred   []refusal
	// deletions are what the manager has asked to go.
	deletions map[deletion]bool
	// told are the kinds in which the manager has sent a secret.
	told []string
	// torn are requests that got no answer of the API server, against the plan.
	torn []string
}

// disturbance is what a proxy does to its manager.
type disturbance struct {
	Fault
	// also are later writes that the fault happens at once more, as long as the road is that of the reference.
	also []int
	// road are the writes of the reference: a refusing fault is for that one of them.
	road []Write
	// held is the kind whose events come late, that alone travels, or that cannot be read.
	held schema.GroupResource
	// past is the ordinal of the write whose moment a manager that travels is put back to.
	past int
	// about are held and past of a fault at a write; nil is that they are the same for all.
	about func(k int) (held schema.GroupResource, past int)
	// hide hides what is different in every run.
	hide func(string) string
	// mine says whether an object belongs to the run.
	mine func(*unstructured.Unstructured) bool
	// kill ends the manager and returns when it has.
	kill func()
	// halt has the manager stand still while another takes its place, and resume has it go on, and returns when it has ended.
	halt, resume func() error
	// restart restarts the API server.
	restart *restart
	// now is the resource version of this moment.
	now func() (string, error)
	// sees is what is listed and watched of a kind.
	sees map[schema.GroupResource]url.Values
	// secrets must be in no request but those of Secrets.
	secrets []string
}

// newProxy starts a proxy on loopback that speaks plain HTTP, so that a connection can be
// dropped at any byte. The credentials in config are the manager's own: client-go sends none
// without TLS, so the proxy adds them.
func newProxy(config *rest.Config, plan disturbance) (*proxy, error) {
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("parsing address of API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("building transport of proxy: %w", err)
	}
	p := &proxy{plan: plan, lease: &lease{}, busy: time.Now(), over: make(chan struct{}), watched: map[schema.GroupResource]bool{}, reads: map[int][]schema.GroupResource{}, asked: map[request]int{}, refusals: map[string]int{}, deletions: map[deletion]bool{}, flying: map[*http.Request]time.Time{}}
	p.streams = &streams{mode: plan.Mode, mine: plan.mine, over: p.cease}
	p.aim(plan.K)
	if err := p.mark(); err != nil {
		return nil, err
	}
	var listeners [2]net.Listener
	for i := range listeners {
		if listeners[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("starting proxy: %w", err)
		}
	}
	p.url, p.urlOfNext = "http://"+listeners[0].Addr().String(), "http://"+listeners[1].Addr().String()
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			if plan.delays() && isWatch(r.In) {
				acceptJSON(r.Out.Header)
			}
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, err error) {
			switch {
			case errors.Is(err, errLost):
				p.lose(context.WithoutCancel(r.Context()))
			case r.Context().Err() == nil: // it was not the manager who has ended the connection
				p.mu.Lock()
				p.torn = append(p.torn, fmt.Sprintf("%s %s: %v", r.Method, r.URL.Path, err))
				p.mu.Unlock()
			}
			panic(http.ErrAbortHandler)
		},
		ModifyResponse: p.came,
	}
	p.server = &http.Server{Handler: p.handler(forward), ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Minute}
	for _, listener := range listeners {
		go func() { _ = p.server.Serve(listener) }()
	}
	return p, nil
}

// writeKey is the key of a request's Write in its context.
type writeKey struct{}

var errLost = errors.New("the answer is lost by plan")

func (p *proxy) handler(forward *httputil.ReverseProxy) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isLease(r) {
			p.lease.ServeHTTP(w, r)
			return
		}
		p.narrow(r)
		p.travel(r)
		if asked, live, ok := readRead(r); ok && p.refusesRead(asked, live) {
			p.touch()
			refuse(w, p.plan.Mode, asked)
			return
		}
		if isWatch(r) {
			p.touch()
			p.ask(r)
			p.watches(r)
			forward.ServeHTTP(w, r)
			return
		}
		defer p.flies(r)()
		p.overhear(r)
		plain, counts := readWrite(r)
		if !counts {
			p.ask(r)
			p.tells(r)
			forward.ServeHTTP(w, r)
			return
		}
		plain.object, plain.sent = types.NamespacedName{Namespace: plain.Namespace, Name: plain.Name}, time.Now()
		if p.plan.Mode == "" && r.Body != nil {
			body, _ := bodyOf(r) // one that is cut short is refused by the server
			plain.body = string(body)
		}
		write := plain.in(p.plan.hide)
		write.usurps = p.usurper(r)
		if p.bars(write, r) {
			refuse(w, Forbidden, plain)
			return
		}
		if p.refuses(write) {
			refuse(w, p.plan.Mode, plain)
			return
		}
		if p.plan.delays() {
			p.delay()
		}
		// A write that has come this far does not depend on who still waits for it. Of one that cannot be cancelled at all the proxy
		// would look whether its connection is closed.
		ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
		defer cancel()
		forward.ServeHTTP(w, r.WithContext(context.WithValue(ctx, writeKey{}, write)))
	})
}

// narrow has a list or watch find what belongs to the run.
func (p *proxy) narrow(r *http.Request) {
	w, ok := parsePath(r.URL.Path)
	sees := p.plan.sees[w.Resource.GroupResource()]
	if !ok || r.Method != http.MethodGet || w.Name != "" || len(sees) == 0 {
		return
	}
	query := r.URL.Query()
	maps.Copy(query, sees)
	r.URL.RawQuery = query.Encode()
}

// overhear notes what the manager sends that nobody may read, Events too.
func (p *proxy) overhear(r *http.Request) {
	w, ok := parsePath(r.URL.Path)
	if !ok || r.Body == nil || verbs[r.Method] == "" || w.Resource.Resource == "secrets" {
		return
	}
	body, _ := bodyOf(r) // one that is cut short is refused by the server
	for i, secret := range p.plan.secrets {
		if bytes.Contains(body, []byte(secret)) {
			p.mu.Lock()
			p.told = append(p.told, fmt.Sprintf("%s %s tells secret %d", verbs[r.Method], w.Resource.Resource, i+1))
			p.mu.Unlock()
		}
	}
}

// betrayals are what was overheard.
func (p *proxy) betrayals() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(p.told)))
}

// tornOff are requests that got no answer of the API server, against the plan.
func (p *proxy) tornOff() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.torn)
}

// came looks at every answer of the API server.
func (p *proxy) came(r *http.Response) error {
	if isWatch(r.Request) && r.StatusCode == http.StatusOK && p.plan.delays() {
		if w, ok := parsePath(r.Request.URL.Path); ok {
			p.streams.attach(w, r)
		}
		return nil
	}
	write, ok := r.Request.Context().Value(writeKey{}).(Write)
	if !ok {
		return nil
	}
	code, err := p.read(&write, r)
	if err != nil || !p.answered(write, code) {
		return err
	}
	switch {
	case p.plan.Mode == Halted:
		return p.relieve()
	case p.plan.Mode == Expired:
		p.streams.answered()
	case p.plan.loses():
		return errors.Join(errLost, r.Body.Close()) // stored, and nobody hears of it
	}
	return nil
}

// deletion is of an object that is asked to go, in a version that says so, or that is gone at once, without one.
type deletion struct {
	uid     types.UID
	version string
}

// read is what the API server says of a write, and notes what has come of that.
func (p *proxy) read(write *Write, r *http.Response) (code int, err error) {
	code, err = codeOf(*write, r)
	if err == nil && code == http.StatusCreated && write.object.Name == "" {
		write.generated, err = createdIn(r)
	}
	if err == nil && p.plan.Mode == "" {
		write.version, err = storedIn(r)
	}
	if err == nil && write.Verb == "delete" && code == http.StatusOK {
		err = p.deletes(r)
	}
	return code, err
}

// deletes notes what the manager has asked to go. Of what was gone at once the API server tells in a Status, and one after the other of
// a collection.
func (p *proxy) deletes(r *http.Response) error {
	body, err := answerOf(r)
	if err != nil {
		return fmt.Errorf("reading what was deleted: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range deletionsIn(body) {
		p.deletions[d] = true
	}
	return nil
}

// deletionsIn are those that an answer tells of.
func deletionsIn(body []byte) (all []deletion) {
	var answer struct {
		metav1.PartialObjectMetadata
		Details *metav1.StatusDetails          `json:"details"`
		Items   []metav1.PartialObjectMetadata `json:"items"`
	}
	if json.Unmarshal(body, &answer) != nil {
		built, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
		if err != nil {
			return nil
		}
		if body, err = json.Marshal(built); err != nil || json.Unmarshal(body, &answer) != nil {
			return nil
		}
	}
	if answer.Details != nil {
		all = append(all, deletion{uid: answer.Details.UID})
	}
	for _, o := range append(answer.Items, answer.PartialObjectMetadata) {
		d := deletion{uid: o.UID}
		if o.DeletionTimestamp != nil {
			d.version = o.ResourceVersion
		}
		if d.uid != "" {
			all = append(all, d)
		}
	}
	return all
}

// deleted are the deletions that the manager has asked for.
func (p *proxy) deleted() map[deletion]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.deletions)
}

// codeOf is what the API server says of a write. That of a collection that has nothing in it changes as little as that of an
// object that is gone.
func codeOf(w Write, r *http.Response) (int, error) {
	if w.Verb != "delete" || w.Name != "" || r.StatusCode != http.StatusOK {
		return r.StatusCode, nil
	}
	body, err := answerOf(r)
	if err != nil {
		return 0, fmt.Errorf("reading what was deleted of %s: %w", w.Resource.GroupResource(), err)
	}
	// Many are compressed, and not read here.
	if list, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil && meta.IsListType(list) && meta.LenList(list) == 0 {
		return http.StatusNotFound, nil
	}
	return r.StatusCode, nil
}

// createdIn is the name of the object that was created.
func createdIn(r *http.Response) (string, error) {
	body, err := answerOf(r)
	if err != nil {
		return "", fmt.Errorf("reading what was created: %w", err)
	}
	return nameIn(body), nil
}

// storedIn is the version of the object that was changed; empty of one that goes with that.
func storedIn(r *http.Response) (string, error) {
	body, err := answerOf(r)
	if err != nil {
		return "", fmt.Errorf("reading what was stored: %w", err)
	}
	object := metadataIn(body)
	if object == nil || object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		return "", nil
	}
	return object.GetResourceVersion(), nil
}

// answerOf reads an answer's body and leaves it there.
func answerOf(r *http.Response) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, nil
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// refuses says whether a write is refused by plan: the one after K-1 stored ones, which must
// be the one that is meant, and others while the fault lasts. Others may come between that the
// API server refuses itself.
func (p *proxy) refuses(w Write) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.plan.K == 0 || !p.plan.refuses() {
		return false
	}
	if p.fired.IsZero() {
		if p.stored != p.plan.K-1 || !w.alike(p.plan.road[p.plan.K-1]) {
			return false
		}
		p.strike(w)
		p.refused(w)
		time.AfterFunc(p.plan.lasts(), p.cease)
		return true
	}
	if time.Since(p.fired) >= p.plan.lasts() || !p.plan.concerns(p.first, w) {
		return false
	}
	p.refused(w)
	return true
}

// refused notes that a request is refused by plan. The caller has the lock.
func (p *proxy) refused(w Write) {
	p.counted.Refused++
	p.refusals[w.request()]++
}

// insisted is the request that was refused by plan most often, and how often.
func (p *proxy) insisted() (request string, times int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, n := range p.refusals {
		if n > times || n == times && r < request {
			request, times = r, n
		}
	}
	return request, times
}

var definitions = schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}

// refusesRead says whether a read is refused by plan, and notes it.
func (p *proxy) refusesRead(asked Write, live bool) bool {
	kind := asked.Resource.GroupResource()
	p.mu.Lock()
	defer p.mu.Unlock()
	// CustomResourceDefinitions are read when they change, and in a new API server they do: that is on no road.
	if live && kind != definitions && !slices.Contains(p.reads[p.stored], kind) {
		p.reads[p.stored] = append(p.reads[p.stored], kind)
	}
	if p.fired.IsZero() || !p.ceased.IsZero() || !p.plan.refusesRead(kind, p.plan.held, live) {
		return false
	}
	switch p.refused(asked); {
	case p.plan.Mode == Unread:
		p.end()
	case p.plan.Mode == Unreadable && p.counted.Refused == p.before.Refused+1: // what wakes the manager to read may take its time
		p.fired = time.Now()
		time.AfterFunc(p.plan.lasts(), p.cease)
	}
	return true
}

// delay lets the watches come late when the next write that is stored is that of the fault: its event may come before its answer.
func (p *proxy) delay() {
	p.mu.Lock()
	k, held, next := p.plan.K, p.plan.held, p.stored == p.plan.K-1 && p.fired.IsZero()
	if next {
		p.delayed = k
	}
	p.mu.Unlock()
	if next {
		p.streams.begin(k, held)
	}
}

// aim lets the fault happen at a write.
func (p *proxy) aim(k int) {
	if p.plan.K = k; p.plan.about != nil {
		p.plan.held, p.plan.past = p.plan.about(k)
	}
}

// answered counts a write, and says whether it is the one that the fault happens at.
func (p *proxy) answered(w Write, code int) bool {
	w.Code, w.At = code, time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	w = numbered(p.writes, w)
	p.writes = append(p.writes, w)
	if !w.Stored() {
		return false
	}
	if w.usurps {
		p.usurped = append(p.usurped, w)
	}
	p.stored++
	// The next manager that is killed, too, is so whatever it writes.
	again := p.plan.after() > 0 && len(p.hits)%2 == 1
	if p.between() && !again && (p.stored > len(p.plan.road) || w.Signature() != p.plan.road[p.stored-1].Signature()) {
		p.leave()
	}
	if p.mark() != nil {
		p.plan.K = 0 // it cannot happen, and will be said to have not
	}
	switch {
	case p.plan.refuses() || p.stored != p.plan.K:
		return false
	case p.plan.delays() && p.delayed != p.plan.K: // it was on its way before the fault was to happen at it: its event may have been told
		if p.plan.K = 0; len(p.hits) > 0 {
			p.next()
		}
		return false
	}
	p.strike(w)
	return true
}

// strike notes that the fault happens at a write.
func (p *proxy) strike(w Write) {
	p.first, p.fired, p.hits, p.before = w, time.Now(), append(p.hits, p.plan.K), p.counted
}

// between says whether the fault has happened and is to happen again.
func (p *proxy) between() bool { return len(p.hits) > 0 && p.fired.IsZero() && p.ceased.IsZero() }

// leave ends it, and leaves out what is left of several times. The caller has the lock.
func (p *proxy) leave() {
	p.plan.K, p.plan.also, p.ceased = 0, nil, time.Now()
	close(p.over)
}

// leaveRest does, if the fault has happened at all.
func (p *proxy) leaveRest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.between() {
		p.leave()
	}
}

// struckAt are the ordinals of the writes that the fault has happened at.
func (p *proxy) struckAt() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.hits)
}

// mark keeps the moment after a write, for a manager that is put back there.
func (p *proxy) mark() error {
	if !p.plan.travels() || p.plan.now == nil {
		return nil
	}
	version, err := p.plan.now()
	if err != nil {
		return fmt.Errorf("reading the resource version of a moment: %w", err)
	}
	p.moments = append(p.moments, version)
	return nil
}

// relieve has the manager stand still that is about to get its answer. When another has taken its place, and has done what there is
// to do, it goes on.
func (p *proxy) relieve() error {
	p.lease.stands()
	if err := p.plan.halt(); err != nil {
		return err
	}
	go func() {
		for latest := time.Now().Add(startLimit); (!p.lease.taken() || !p.idle(stillness)) && time.Now().Before(latest); {
			time.Sleep(poll)
		}
		p.mu.Lock()
		p.resumed = true
		p.mu.Unlock()
		_ = p.plan.resume() // which is noted
		p.cease()
	}()
	return nil
}

// usurper says whether a request is of a manager that has stood still, and goes on.
func (p *proxy) usurper(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed && "http://"+r.Host == p.url
}

// usurpations are the writes of a manager that another had taken the place of.
func (p *proxy) usurpations() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.usurped {
		out = append(out, w.Signature()+" is of a manager that has stood still while another took its place")
	}
	return out
}

// lose drops the connection of a write that was stored, and does what the mode does besides.
func (p *proxy) lose(ctx context.Context) {
	switch p.plan.Mode {
	case Crash, Again, AgainSecond, AgainThird:
		p.plan.kill()
	case Restart:
		p.plan.restart.arrive(ctx)
		go func() {
			<-p.plan.restart.up
			p.cease()
		}()
		return
	case Blind:
		time.AfterFunc(p.plan.lasts(), p.cease)
		p.plan.kill()
		return
	case Travel, Behind, Forgetful, Outdated, Edited:
		p.mu.Lock()
		p.past, p.back = p.moments[p.plan.past], make(chan struct{})
		p.mu.Unlock()
		p.plan.kill()
		return
	}
	p.cease()
}

// cease ends the fault, or gets ready for the next time.
func (p *proxy) cease() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end()
}

// end is cease, for who holds mu.
func (p *proxy) end() {
	if !p.ceased.IsZero() { // what was left of it was left out while watches were late already for the next time
		return
	}
	if p.back != nil {
		close(p.back)
		p.past, p.back = "", nil
	}
	p.next()
}

// next gets ready for the next time, or there is none: what has been written is not written again. The caller has the lock.
func (p *proxy) next() {
	p.plan.also = slices.DeleteFunc(p.plan.also, func(k int) bool { return p.plan.after() == 0 && k <= p.stored })
	if len(p.plan.also) == 0 {
		p.leave()
		return
	}
	if !p.fired.IsZero() { // the event of a write may be told before its answer comes
		p.spent, p.fired = p.spent+time.Since(p.fired), time.Time{}
	}
	p.aim(p.plan.also[0])
	p.plan.also = p.plan.also[1:]
}

// travel shows the past to the informers of a manager that was killed for that: their lists are
// those of a past moment, and their watches, which go on from it, wait until the fault is over.
// An informer asks for resourceVersion=0 when it begins, which allows any past; a read that the
// reconciler wants live asks for none and gets the truth. Where one kind is held, that one alone is put back.
func (p *proxy) travel(r *http.Request) {
	if !p.plan.travels() {
		return
	}
	p.mu.Lock()
	past, back, held := p.past, p.back, p.plan.held
	p.mu.Unlock()
	if past == "" || r.Method != http.MethodGet {
		return
	}
	query := r.URL.Query()
	w, ok := parsePath(r.URL.Path)
	switch version := query.Get("resourceVersion"); {
	case !ok || w.Name != "", !held.Empty() && w.Resource.GroupResource() != held:
	case isWatch(r) && version == past:
		p.mu.Lock()
		if p.counted.Waited++; p.counted.Waited == p.before.Waited+1 {
			go p.comeBack()
		}
		p.mu.Unlock()
		select {
		case <-back:
		case <-r.Context().Done():
		}
	case !isWatch(r) && version == "0":
		query.Set("resourceVersion", past)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		r.URL.RawQuery = query.Encode()
		p.mu.Lock()
		p.counted.Rewritten++
		p.mu.Unlock()
	}
}

// comeBack shows a manager that travels the present, after a while, and not before it has done what it does by what it
// finds: on a busy machine a start alone may take that while.
func (p *proxy) comeBack() {
	latest := time.Now().Add(latestBack)
	for time.Sleep(lateness); !p.idle(stillness) && time.Now().Before(latest); time.Sleep(poll) {
	}
	p.cease()
}

// tally is what the fault did.
func (p *proxy) tally() Tally {
	late := p.streams.counts()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counted.plus(late)
}

// struck says whether the fault has begun to happen.
func (p *proxy) struck() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.fired.IsZero()
}

// happens says whether the fault has begun and is not over, or not for this time.
func (p *proxy) happens() bool { return p.struck() && !p.faultOver() }

// awaitsOutage says whether a write waits for the end of the API server, or did.
func (p *proxy) awaitsOutage() bool { return p.plan.restart != nil && p.struck() }

// span is how long the fault has lasted so far.
func (p *proxy) span() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.fired.IsZero():
		return p.spent
	case p.ceased.IsZero():
		return p.spent + time.Since(p.fired)
	}
	return p.spent + p.ceased.Sub(p.fired)
}

// watches notes what the manager watches.
func (p *proxy) watches(r *http.Request) {
	w, ok := parsePath(r.URL.Path)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watched[w.Resource.GroupResource()] = true
}

// readRead reads what a request asks to see, and whether it is live: an informer asks for a watch, or for any moment when
// it begins (resourceVersion=0), and a reconciler for one object, or for now, or for what is not older than something.
func readRead(r *http.Request) (asked Write, live, ok bool) {
	asked, ok = parsePath(r.URL.Path)
	asked.Verb = "read"
	query := r.URL.Query()
	live = !isWatch(r) && (query.Get("resourceVersion") == "" || query.Get("resourceVersionMatch") == string(metav1.ResourceVersionMatchNotOlderThan))
	return asked, asked.Name != "" || live, ok && r.Method == http.MethodGet
}

// looked are the kinds that the manager read live, by how many writes were stored before.
func (p *proxy) looked() map[int][]schema.GroupResource {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.reads)
}

// kinds are those that the manager watched.
func (p *proxy) kinds() map[schema.GroupResource]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.watched)
}

// touch notes that the manager asks for something.
func (p *proxy) touch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = time.Now()
}

// request is something that is asked for and is no write.
type request struct {
	what string
	// steady is one by which an informer keeps its cache, or an Event: what does not last is asked for again. So is one for all that is
	// served, which a client asks once for each group that it does not know, in one pass: who does that again and again asks for the
	// group's own, too.
	steady bool
}

// ask counts a request that is no write.
func (p *proxy) ask(r *http.Request) {
	_, live, reads := readRead(r)
	w, _ := parsePath(r.URL.Path)
	p.mu.Lock()
	defer p.mu.Unlock()
	all := r.URL.Path == "/api" || r.URL.Path == "/apis"
	p.asked[request{r.Method + " " + r.URL.Path, reads && !live || all || w.Resource.Resource == "events"}]++
}

// tells counts a request that sends an Event.
func (p *proxy) tells(r *http.Request) {
	if w, ok := parsePath(r.URL.Path); !ok || w.Resource.Resource != "events" || verbs[r.Method] == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events++
}

// happenings is how many Events were sent.
func (p *proxy) happenings() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}

// requests is how often there was each of those so far.
func (p *proxy) requests() map[request]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.asked)
}

// flies notes a request until it is answered.
func (p *proxy) flies(r *http.Request) (answered func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy = time.Now()
	p.flying[r] = p.busy
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy = time.Now()
		delete(p.flying, r)
	}
}

// unanswered are the requests that have no answer yet.
func (p *proxy) unanswered() (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r, since := range p.flying {
		out = append(out, fmt.Sprintf("%s %s, for %s", r.Method, r.URL.Path, time.Since(since).Round(time.Millisecond)))
	}
	return out
}

// story is what the manager has written so far, and what the API server refused.
func (p *proxy) story() []Write {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.writes)
}

// stored are those writes that were.
func stored(writes []Write) []Write {
	return slices.DeleteFunc(slices.Clone(writes), func(w Write) bool { return !w.Stored() })
}

// idle says whether the manager has asked for nothing for a while.
func (p *proxy) idle(d time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flying) == 0 && time.Since(p.busy) >= d
}

// rest returns when nothing is in flight any more. A step may be taken when something shows that the
// manager has not got its answer for yet: a manager that is killed then does not hear of a write that
// this run would not count and another would.
func (p *proxy) rest() {
	for deadline := time.Now().Add(time.Second); !p.idle(0) && !p.awaitsOutage() && time.Now().Before(deadline); {
		time.Sleep(poll / 10)
	}
}

// faultOver says whether the fault has happened, if there is one.
func (p *proxy) faultOver() bool {
	if p.plan.Mode == "" {
		return true
	}
	select {
	case <-p.over:
		return true
	default:
		return false
	}
}

// happened says whether the fault has, if there is one: one that refuses reads for a while may be over without a read.
func (p *proxy) happened() bool {
	return p.faultOver() && (!p.plan.reads() || p.tally().Refused > 0)
}

func (p *proxy) close() { _ = p.server.Close() }

var verbs = map[string]string{
	http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// readWrite reads what a request asks to change. Leases and events are written at any time
// and are not counted; reviews change nothing.
func readWrite(r *http.Request) (Write, bool) {
	if r.URL.Query().Has("dryRun") {
		return Write{}, false // nothing is stored
	}
	verb, changes := verbs[r.Method]
	if !changes {
		return Write{}, false
	}
	w, ok := parsePath(r.URL.Path)
	if !ok || slices.Contains([]string{"leases", "events"}, w.Resource.Resource) ||
		slices.Contains([]string{"authentication.k8s.io", "authorization.k8s.io"}, w.Resource.Group) {
		return Write{}, false
	}
	w.Verb = verb
	if w.Name == "" && r.Body != nil {
		if body, err := bodyOf(r); err == nil {
			w.Name = nameIn(body)
		}
	}
	return w, true
}

// nameIn is that of the object in a body.
func nameIn(body []byte) string {
	if object := metadataIn(body); object != nil {
		return object.GetName()
	}
	return ""
}

// metadataIn is that of the object in a body, which is JSON, or of a kind of Kubernetes' own; nil if there is none.
func metadataIn(body []byte) metav1.Object {
	object := &metav1.PartialObjectMetadata{}
	if json.Unmarshal(body, object) == nil {
		return object
	}
	if built, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil); err == nil {
		if named, err := meta.Accessor(built); err == nil {
			return named
		}
	}
	return nil
}

// bodyOf reads a request's body and leaves it there.
func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body, err
}

// parsePath takes a path of the API apart: /api/v1 or /apis/<group>/<version>, then
// [namespaces/<namespace>/]<resource>[/<name>[/<subresource>]].
func parsePath(path string) (Write, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var w Write
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		w.Resource.Version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		w.Resource.Group, w.Resource.Version, parts = parts[1], parts[2], parts[3:]
	default:
		return w, false
	}
	if len(parts) >= 3 && parts[0] == "namespaces" && !slices.Contains([]string{"status", "finalize"}, parts[2]) {
		w.Namespace, parts = parts[1], parts[2:]
	}
	w.Resource.Resource = parts[0]
	if len(parts) > 1 {
		w.Name = parts[1]
	}
	if len(parts) > 2 {
		w.Subresource = strings.Join(parts[2:], "/")
	}
	return w, true
}

// answer writes a Status.
func answer(w http.ResponseWriter, status metav1.Status) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}

// hashed is a hash as it ends the names of children.
const hashed = `[a-z2-7]{8}`

var (
	hash   = regexp.MustCompile(`^` + hashed + `$`)
	hashes = regexp.MustCompile(`-` + hashed + `\b`)
)

// vocabulary are words that are written like hashes and are none, since two runs have them.
type vocabulary map[string]bool

// hashesIn are what is written like a hash in texts.
func hashesIn(texts ...string) vocabulary {
	out := vocabulary{}
	for _, text := range texts {
		for _, found := range hashes.FindAllString(text, -1) {
			out[found[1:]] = true
		}
	}
	return out
}

// and are the words that two have in common.
func (v vocabulary) and(other vocabulary) vocabulary {
	out := vocabulary{}
	for word := range v {
		if other[word] {
			out[word] = true
		}
	}
	return out
}

// hider hides what is different in every run from a name: its namespace and the hashes, but for words that are none.
func hider(namespace string, words vocabulary) func(string) string {
	return func(s string) string {
		return hashes.ReplaceAllStringFunc(strings.ReplaceAll(s, namespace, "NAMESPACE"), func(found string) string {
			if words[found[1:]] {
				return found
			}
			return "-HASH"
		})
	}
}
