package lean

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	twins "github.com/labkeeper/labkeeper/api/experimentcontroller/v1alpha1"
	experiments "github.com/labkeeper/labkeeper/api/experiments/v1alpha1"
	hibernator "github.com/labkeeper/labkeeper/api/hibernator/v1alpha1"
)

// applications is a resource without a Go type.
var applications = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"}

// sends answers every request.
type sends struct {
	format string
	body   io.Reader
}

// RoundTrip is that of http.RoundTripper.
func (s sends) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.format}}, Body: io.NopCloser(s.body), Request: r}, nil
}

// event is what a watch tells.
type event struct {
	Type   watch.EventType
	Object any
}

// told is all that a watch tells of objects like of that are read by a lister of client-go; ours has it read our way.
func told(t testing.TB, lists toolscache.ListerWatcherWithContext, of runtime.Object, ours bool) []event {
	t.Helper()
	if ours {
		lists = reading{ListerWatcherWithContext: lists, of: of}
	}
	w, err := lists.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	for e := range w.ResultChan() {
		if o, ok := e.Object.(metav1.Object); ok && e.Type != watch.Error {
			o.SetManagedFields(nil)
		}
		all = append(all, event{e.Type, e.Object})
	}
	return all
}

// lister lists and watches as a cache of controller-runtime does what some transport answers.
func lister(t testing.TB, answers http.RoundTripper, of runtime.Object) *toolscache.ListWatch {
	t.Helper()
	httpClient := &http.Client{Transport: handing{answers}}
	config := &rest.Config{Host: "http://example.com"}
	if _, ok := of.(runtime.Unstructured); ok {
		c, err := dynamic.NewForConfigAndClient(config, httpClient)
		if err != nil {
			t.Fatal(err)
		}
		return &toolscache.ListWatch{WatchFuncWithContext: c.Resource(applications).Watch}
	}
	scheme := typedScheme(t)
	gvk, err := apiutil.GVKForObject(of, scheme)
	if err != nil {
		t.Fatal(err)
	}
	c, err := apiutil.RESTClientForGVK(gvk, false, false, config, serializer.NewCodecFactory(scheme), httpClient)
	if err != nil {
		t.Fatal(err)
	}
	return &toolscache.ListWatch{WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		return c.Get().Resource("anything").Param("watch", "true").Watch(ctx)
	}}
}

func typedScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	if err := errors.Join(experiments.AddToScheme(scheme), twins.AddToScheme(scheme), hibernator.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// What is told is what client-go tells, whatever an object without a Go type holds, and however it comes.
func FuzzUnstructured(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		var sent bytes.Buffer
		for range 1 + random.IntN(3) {
			o := anything(random, 4)
			object, ok := o.(map[string]any)
			if !ok {
				object = map[string]any{"spec": o}
			}
			object["apiVersion"], object["kind"] = "argoproj.io/v1alpha1", "Application"
			metadata := map[string]any{"name": "a", "resourceVersion": "7", "managedFields": anything(random, 3)}
			if _, ok := metadata["managedFields"].([]any); !ok {
				metadata["managedFields"] = []any{map[string]any{"manager": "x", "fieldsV1": anything(random, 3)}}
			}
			if random.IntN(4) > 0 {
				metadata["labels"] = map[string]any{"managedFields": "b"}
			}
			object["metadata"] = metadata
			sent.Write(asSent(t, random, []watch.EventType{watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}[random.IntN(4)], object))
		}
		compare(t, random, sent.Bytes(), &unstructured.Unstructured{})
	})
}

// Nor does it matter what an object of a Go type of ours holds.
func FuzzTyped(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		scheme := typedScheme(t)
		fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand32{random}, serializer.NewCodecFactory(scheme)).NumElements(0, 3).Funcs(
			func(j *runtime.RawExtension, _ randfill.Continue) { j.Raw, _ = json.Marshal(anything(random, 3)) },
			func(j *apiextensionsv1.JSON, _ randfill.Continue) { j.Raw, _ = json.Marshal(anything(random, 3)) })
		for _, of := range []client.Object{
			&experiments.Experiment{}, &experiments.Component{}, &twins.ExperimentDeployment{},
			&hibernator.HibernatePlan{}, &hibernator.ScheduleException{}, &hibernator.K8SCluster{}, &hibernator.CloudProvider{},
		} {
			object := reflect.New(reflect.TypeOf(of).Elem()).Interface().(client.Object)
			fill.Fill(object)
			gvk, err := apiutil.GVKForObject(object, scheme)
			if err != nil {
				t.Fatal(err)
			}
			object.GetObjectKind().SetGroupVersionKind(gvk)
			compare(t, random, asSent(t, random, watch.Modified, object), of)
		}
	})
}

// rand32 is a source of math/rand.
type rand32 struct{ *rand.Rand }

func (r rand32) Int63() int64 { return r.Int64() }
func (rand32) Seed(int64)     {}

// asSent is an event as a server may send it.
func asSent(t *testing.T, random *rand.Rand, kind watch.EventType, object any) []byte {
	t.Helper()
	var e any = map[string]any{"type": kind, "object": object} // the object comes first
	if random.IntN(3) > 0 {
		e = struct {
			Type   watch.EventType `json:"type"`
			Object any             `json:"object"`
		}{kind, object}
	}
	sent, err := json.Marshal(e)
	if random.IntN(3) == 0 {
		sent, err = json.MarshalIndent(e, "", " ")
	}
	if err != nil {
		t.Fatal(err)
	}
	return append(sent, '\n')
}

// compare fails where what is told is not what client-go tells of what was sent.
func compare(t *testing.T, random *rand.Rand, sent []byte, of runtime.Object) {
	t.Helper()
	read := func(ours bool) []event {
		var body io.Reader = bytes.NewReader(sent)
		if random.IntN(4) == 0 {
			body = iotest.OneByteReader(body)
		}
		return told(t, lister(t, sends{runtime.ContentTypeJSON, body}, of), of, ours)
	}
	want := read(false)
	if len(want) == 0 || want[0].Type == watch.Error {
		t.Fatalf("client-go tells %v of %s", want, sent)
	}
	if diff := cmp.Diff(want, read(true)); diff != "" {
		t.Errorf("of %s is told (-client-go +ours):\n%s", sent, diff)
	}
}

// anything is JSON.
func anything(random *rand.Rand, depth int) any {
	words := []string{"object", "type", "metadata", "managedFields", "a", `"`, `\`, "é\u2028<", "", "a word that is longer than those that are kept, by some"}
	kind := random.IntN(9)
	if depth == 0 {
		kind = max(kind, 4)
	}
	switch kind {
	case 0, 1, 2:
		o := map[string]any{}
		for range random.IntN(6) {
			o[words[random.IntN(len(words))]] = anything(random, depth-1)
		}
		return o
	case 3:
		list := []any{}
		for range random.IntN(4) {
			list = append(list, anything(random, depth-1))
		}
		return list
	case 4:
		return []any{int64(0), int64(-1), random.Int64(), uint64(1) << 63, 1.5, -2e30, json.Number("1.0"), json.Number("-0"), json.Number("1e2")}[random.IntN(9)]
	case 5:
		return []any{nil, true, false}[random.IntN(3)]
	}
	return words[random.IntN(len(words))]
}

// Errors that a server sends are told as what they are; an end is one, and what is no event is an error.
func TestEnds(t *testing.T) {
	const good = `{"type":"ADDED","object":{"apiVersion":"argoproj.io/v1alpha1","kind":"Application","metadata":{"name":"a"}}}` + "\n"
	for name, c := range map[string]struct {
		sent string
		err  error
		// want is the type of the last event, and a part of what its Status says.
		want watch.EventType
		says string
	}{
		"a server's error": {sent: good + `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"too old","reason":"Expired","code":410}}`, want: watch.Error, says: "too old"},
		"the end":          {sent: good, want: watch.Added},
		"a broken line":    {sent: good, err: syscall.ECONNRESET, want: watch.Added},
		"a server's way":   {sent: good, err: errors.New("http2: server sent GOAWAY and closed the connection"), want: watch.Added},
		"cut off":          {sent: good + good[:40], want: watch.Added},
		"no JSON":          {sent: good + `{"type":"ADDED","object":{]}`, want: watch.Error, says: "unable to decode"},
		"no event":         {sent: good + `["ADDED"]`, want: watch.Error, says: "unable to decode"},
		"another type":     {sent: good + strings.Replace(good, "ADDED", "PAINTED", 1), want: watch.Error, says: "PAINTED"},
		"a type of a type": {sent: good + strings.Replace(good, `"ADDED"`, "1", 1), want: watch.Error, says: "unable to decode"},
		"no type":          {sent: good + strings.Replace(good, `"type":"ADDED",`, "", 1), want: watch.Error, says: "unable to decode"},
		"no object":        {sent: good + `{"type":"ADDED"}`, want: watch.Error, says: "unable to decode"},
		"a text as object": {sent: good + `{"type":"ADDED","object":"a"}`, want: watch.Error, says: "unable to decode"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ours := range []bool{false, true} {
				var body io.Reader = strings.NewReader(c.sent)
				if c.err != nil {
					body = io.MultiReader(body, iotest.ErrReader(c.err))
				}
				of := &unstructured.Unstructured{}
				all := told(t, lister(t, sends{runtime.ContentTypeJSON, body}, of), of, ours)
				last := all[len(all)-1]
				if n := map[bool]int{true: 2, false: 1}[c.want == watch.Error]; len(all) != n || last.Type != c.want {
					t.Errorf("ours %v: %v", ours, all)
				}
				if status, ok := last.Object.(*metav1.Status); ours && c.want == watch.Error && (!ok || !strings.Contains(status.Message, c.says)) {
					t.Errorf("it says %v", last.Object)
				}
			}
		})
	}
}

// What was answered is closed where client-go makes an error of it.
func TestAnswerOfAnError(t *testing.T) {
	body := &closing{}
	lists := &toolscache.ListWatch{WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
		ctx.Value(handedKey{}).(*handed).body = body
		return nil, errors.New("it is not understood")
	}}
	if _, err := (reading{ListerWatcherWithContext: lists}).WatchWithContext(t.Context(), metav1.ListOptions{}); err == nil || !body.closed {
		t.Errorf("%v; closed %t", err, body.closed)
	}
}

// closing is a body.
type closing struct {
	strings.Reader
	closed bool
}

// Close is that of io.Closer.
func (c *closing) Close() error {
	c.closed = true
	return nil
}

// A watch that is stopped ends, and the answer to its request is closed.
func TestStop(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close() // it waits for requests that have not ended
	c, err := dynamic.NewForConfigAndClient(&rest.Config{Host: server.URL}, &http.Client{Transport: handing{http.DefaultTransport}})
	if err != nil {
		t.Fatal(err)
	}
	of := &unstructured.Unstructured{}
	w, err := reading{ListerWatcherWithContext: &toolscache.ListWatch{WatchFuncWithContext: c.Resource(applications).Watch}, of: of}.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop()
	for e := range w.ResultChan() { // it ends; whether that was an error is told by chance, as client-go has it
		if e.Type != watch.Error {
			t.Errorf("told of %v", e)
		}
	}
}

// A cache is filled without managed fields, with no transform, by watches and by lists, of a Go type and without one.
func TestNewCache(t *testing.T) {
	for _, lists := range []bool{false, true} {
		t.Run(fmt.Sprintf("lists %v", lists), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(w, r, lists) }))
			defer server.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			toy := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Toy"}
			component := experiments.GroupVersion.WithKind("Component")
			mapper := meta.NewDefaultRESTMapper(nil)
			mapper.Add(toy, meta.RESTScopeNamespace)
			mapper.Add(component, meta.RESTScopeNamespace)
			informed := 0
			c, err := NewCache(&rest.Config{Host: server.URL}, cache.Options{Scheme: typedScheme(t), Mapper: mapper,
				NewInformer: func(l toolscache.ListerWatcher, of runtime.Object, resync time.Duration, by toolscache.Indexers) toolscache.SharedIndexInformer {
					informed++
					return toolscache.NewSharedIndexInformer(l, of, resync, by)
				}})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = c.Start(ctx) }()
			c.WaitForCacheSync(ctx) // until it has started
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(toy)
			if err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: "a"}, u); err != nil || u.GetManagedFields() != nil || u.GetResourceVersion() != "7" {
				t.Errorf("got %v, %v", u.Object, err)
			}
			o := &experiments.Component{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: "a"}, o); err != nil || o.ManagedFields != nil || o.ResourceVersion != "7" || o.Kind != "Component" {
				t.Errorf("got %v, %v", o, err)
			}
			if informed != 2 {
				t.Errorf("%d informers were made", informed)
			}
		})
	}
}

// serve answers as an API server does that has one object of any kind, and begins watches with a list, or does not.
func serve(w http.ResponseWriter, r *http.Request, lists bool) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	kind := `"apiVersion":"example.com/v1","kind":"Toy`
	if strings.HasSuffix(r.URL.Path, "/components") {
		kind = `"apiVersion":"experiments.illm.io/v1alpha1","kind":"Component`
	}
	object := `{` + kind + `","metadata":{"name":"a","namespace":"n","resourceVersion":"7"%s}}`
	query := r.URL.Query()
	switch {
	case query.Get("watch") == "":
		fmt.Fprintf(w, `{`+kind+`List","metadata":{"resourceVersion":"7"},"items":[`+object+`]}`, `,"managedFields":[{"manager":"x"}]`)
		return
	case lists && query.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		return
	case !lists:
		fmt.Fprintf(w, `{"type":"ADDED","object":`+object+`}`, `,"managedFields":[{"manager":"x"}]`)
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":`+object+`}`, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
	}
	w.(http.Flusher).Flush()
	<-r.Context().Done()
}

// What is not JSON is read by client-go.
func TestOtherFormats(t *testing.T) {
	of := &unstructured.Unstructured{}
	w, err := reading{ListerWatcherWithContext: lister(t, sends{"application/yaml", strings.NewReader("")}, of), of: of}.WatchWithContext(t.Context(), metav1.ListOptions{})
	if err == nil {
		w.Stop()
		t.Error("what is YAML was read")
	}
}

// BenchmarkWatch measures what a watch costs, by client-go alone and by the watch of such a cache.
func BenchmarkWatch(b *testing.B) {
	const count = 200
	sent := []byte(strings.Repeat(application(b)+"\n", count))
	of := &unstructured.Unstructured{}
	for _, ours := range []bool{false, true} {
		b.Run(map[bool]string{false: "client-go", true: "lean"}[ours], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if all := told(b, lister(b, sends{runtime.ContentTypeJSON, bytes.NewReader(sent)}, of), of, ours); len(all) != count {
					b.Fatalf("%d events", len(all))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*count), "us/event")
		})
	}
}

// application is the event of an Application that the manager has made and Argo CD has written the status of.
func application(b *testing.B) string {
	object := map[string]any{
		"spec": map[string]any{
			"project": "default", "destination": map[string]any{"name": "road-web", "namespace": "road"},
			"sources": []any{map[string]any{
				"repoURL": "https://charts.example.com", "chart": "nginx", "targetRevision": "1.2.3",
				"helm": map[string]any{"parameters": []any{map[string]any{"name": "replicas", "value": "2"}, map[string]any{"name": "image.tag", "value": "1.27"}}},
			}},
			"syncPolicy": map[string]any{"automated": map[string]any{"prune": true, "selfHeal": true}, "syncOptions": []any{"CreateNamespace=true", "ServerSideApply=true"}},
		},
		"status": map[string]any{"health": map[string]any{"status": "Healthy"}, "sync": map[string]any{"status": "Synced", "revisions": []any{"1.2.3"}}},
	}
	var fields []any
	for _, part := range []string{"spec", "status"} {
		value, err := typed.DeducedParseableType.FromUnstructured(map[string]any{part: object[part]})
		if err != nil {
			b.Fatal(err)
		}
		set, err := value.ToFieldSet()
		if err != nil {
			b.Fatal(err)
		}
		content, err := set.ToJSON()
		if err != nil {
			b.Fatal(err)
		}
		fields = append(fields, map[string]any{
			"manager": part, "operation": "Update", "apiVersion": "argoproj.io/v1alpha1", "time": "2026-01-01T00:00:00Z",
			"fieldsType": "FieldsV1", "fieldsV1": json.RawMessage(content),
		})
	}
	object["apiVersion"], object["kind"] = "argoproj.io/v1alpha1", "Application"
	object["metadata"] = map[string]any{
		"name": "road-web", "namespace": "argocd", "uid": "0c5ad5f2-6a3a-4b9e-8a0e-3a1f1f6a0001", "resourceVersion": "1234", "generation": 1,
		"labels": map[string]any{"experiments.illm.io/experiment": "road"}, "finalizers": []any{"resources-finalizer.argocd.argoproj.io"},
		"managedFields": fields,
	}
	event, err := json.Marshal(map[string]any{"type": "ADDED", "object": object})
	if err != nil {
		b.Fatal(err)
	}
	return string(event)
}
