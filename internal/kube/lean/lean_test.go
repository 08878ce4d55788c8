package lean

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Managed fields are emptied where they are those of an object that is listed or watched, and nowhere else.
func TestWithoutManagedFields(t *testing.T) {
	for name, c := range map[string]struct{ sent, want string }{
		"event": {
			`{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":[{"manager":"x","fieldsV1":{"f:a]":{"\"]":[]}}}],"uid":"1"}}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{"managedFields":[1]}}}`,
			`{"type":"ADDED","object":{"metadata":{"name":"a","managedFields":[],"uid":"1"}}}` + "\n" + `{"type":"BOOKMARK","object":{"metadata":{"managedFields":[]}}}`,
		},
		"list": {
			`{"metadata":{"resourceVersion":"7"},"items":["managedFields",{"metadata":{"managedFields":[{}]}},{"metadata" : { "managedFields" : [ {} ] , "a" : 1}}]}`,
			`{"metadata":{"resourceVersion":"7"},"items":["managedFields",{"metadata":{"managedFields":[]}},{"metadata" : { "managedFields" : [] , "a" : 1}}]}`,
		},
		"in a spec":           {sent: `{"object":{"spec":{"metadata":{"managedFields":[1]},"object":{"metadata":{"managedFields":[1]}}}}}`},
		"in an annotation":    {sent: `{"object":{"metadata":{"annotations":{"managedFields":[1],"a":"{\"managedFields\":[1]}"}}}}`},
		"beside metadata":     {sent: `{"object":{"managedFields":[1],"metadata":{"a":"managedFields","b":[1]}}}`},
		"of the list":         {sent: `{"metadata":{"managedFields":[1]},"items":[]}`},
		"of another sort":     {sent: `{"object":{"metadata":{"managedFields":{"a":[1]},"managedFields":null,"managedFields":"["}}}`},
		"with a longer name":  {sent: `{"object":{"metadata":{"managedFieldsAndMore":[1],"managedField":[1]}}}`},
		"in lists of lists":   {sent: `{"items":[[{"metadata":{"managedFields":[1]}}]]}`},
		"no list, no objects": {sent: `{"items":{"metadata":{"managedFields":[1]}},"object":[{"metadata":{"managedFields":[1]}}]}`},
		"no JSON":             {sent: `]}}{{"a\`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == "" {
				c.want = c.sent
			}
			for how, pieces := range map[string]io.Reader{"at once": strings.NewReader(c.sent), "byte by byte": iotest.OneByteReader(strings.NewReader(c.sent)), "with the end": iotest.DataErrReader(strings.NewReader(c.sent))} {
				got, err := io.ReadAll(&emptied{ReadCloser: io.NopCloser(pieces)})
				if string(got) != c.want || err != nil {
					t.Errorf("%s: %s, %v", how, got, err)
				}
			}
		})
	}
}

// What is answered is what a server sends otherwise: in other formats, and errors.
func TestWithoutManagedFieldsOfAnswers(t *testing.T) {
	const sent = `{"items":[{"metadata":{"managedFields":[1]}}]}`
	for name, c := range map[string]struct {
		status int
		format string
		want   string
	}{
		"JSON":             {http.StatusOK, runtime.ContentTypeJSON, `{"items":[{"metadata":{"managedFields":[]}}]}`},
		"metadata in JSON": {http.StatusOK, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", sent},
		"protobuf":         {http.StatusOK, runtime.ContentTypeProtobuf, sent},
		"an error":         {http.StatusForbidden, runtime.ContentTypeJSON, sent},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.format)
				w.WriteHeader(c.status)
				fmt.Fprint(w, sent)
			}))
			defer server.Close()
			response, err := (&http.Client{Transport: wrapped(http.DefaultTransport)}).Get(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, err := io.ReadAll(response.Body); string(got) != c.want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
			if n := response.ContentLength; n >= 0 && n != int64(len(c.want)) {
				t.Errorf("it says that it has %d bytes", n)
			}
		})
	}
}

// A cache is filled without managed fields, with no transform.
func TestNewCache(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		const object = `{"apiVersion":"example.com/v1","kind":"Toy","metadata":{"name":"a","namespace":"n","resourceVersion":"7"%s}}`
		if r.URL.Query().Get("watch") == "" {
			fmt.Fprintf(w, `{"apiVersion":"example.com/v1","kind":"ToyList","metadata":{"resourceVersion":"7"},"items":[`+object+`]}`, `,"managedFields":[{"manager":"x"}]`)
			return
		}
		fmt.Fprintf(w, `{"type":"ADDED","object":`+object+`}`, `,"managedFields":[{"manager":"x"}]`)
		fmt.Fprintf(w, `{"type":"BOOKMARK","object":`+object+`}`, `,"annotations":{"k8s.io/initial-events-end":"true"}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	toy := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Toy"}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(toy, meta.RESTScopeNamespace)
	c, err := NewCache(&rest.Config{Host: server.URL}, cache.Options{Scheme: runtime.NewScheme(), Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = c.Start(ctx) }()
	c.WaitForCacheSync(ctx) // until it has started
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(toy)
	if err := c.Get(ctx, client.ObjectKey{Namespace: "n", Name: "a"}, u); err != nil || len(u.GetManagedFields()) > 0 || u.GetResourceVersion() != "7" {
		t.Errorf("got %v, %v", u.Object, err)
	}
}

// Whatever JSON is sent, in whatever pieces, all but managed fields is there.
func FuzzWithoutManagedFields(f *testing.F) {
	for seed := range uint64(300) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		tree := answer(random)
		sent, err := json.Marshal(tree)
		if random.IntN(3) == 0 {
			sent, err = json.MarshalIndent(tree, "", " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		var want, left any
		if err := json.Unmarshal(sent, &want); err != nil {
			t.Fatal(err)
		}
		pieces := bytes.Clone(sent)
		m, got := managedFields{}, []byte(nil)
		for len(pieces) > 0 {
			n := min(1+random.IntN(9), len(pieces))
			got = append(got, pieces[:m.empty(pieces[:n])]...)
			pieces = pieces[n:]
		}
		if err := json.Unmarshal(got, &left); err != nil {
			t.Fatalf("%s has become %s: %v", sent, got, err)
		}
		if diff := cmp.Diff(emptyFields(want), left); diff != "" {
			t.Errorf("what is left of %s (-want +got):\n%s", sent, diff)
		}
	})
}

// answer is JSON that is mostly one with managed fields in the right places.
func answer(random *rand.Rand) any {
	or := func(likely func() any) any {
		if random.IntN(5) == 0 {
			return anything(random, 3)
		}
		return likely()
	}
	with := func(key string, value func() any) any {
		return or(func() any {
			o := map[string]any{"a": anything(random, 2), "z": anything(random, 2)}
			o[key] = or(value)
			return o
		})
	}
	list := func(of func() any) any { return or(func() any { return []any{of(), of()} }) }
	object := func() any {
		return with("metadata", func() any {
			return with("managedFields", func() any { return list(func() any { return anything(random, 4) }) })
		})
	}
	if random.IntN(2) == 0 {
		return with("object", object)
	}
	return with("items", func() any { return list(object) })
}

// anything is JSON in which the keys that lead to managed fields, and the bytes that tell where they end, are everywhere.
func anything(random *rand.Rand, depth int) any {
	words := []string{"object", "items", "metadata", "managedFields", "a", `"`, `\`, "[", "]}", ":{,"}
	kind := random.IntN(6)
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
		return words[random.IntN(len(words))] + words[random.IntN(len(words))][:1]
	}
	return []any{nil, true, 1.5}[random.IntN(3)]
}

// BenchmarkWatch is what an informer's watch of an unstructured kind costs for each event, as it is sent and without managed
// fields.
func BenchmarkWatch(b *testing.B) {
	const events = 1000
	frame := application(b) + "\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		fmt.Fprint(w, strings.Repeat(frame, events))
	}))
	defer server.Close()
	for name, wrap := range map[string]transport.WrapperFunc{"as sent": nil, "lean": wrapped} {
		b.Run(name, func(b *testing.B) {
			applications := dynamic.NewForConfigOrDie(&rest.Config{Host: server.URL, WrapTransport: wrap, QPS: -1}).Resource(
				schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "applications"})
			b.ReportAllocs()
			for b.Loop() {
				watched, err := applications.Watch(b.Context(), metav1.ListOptions{})
				if err != nil {
					b.Fatal(err)
				}
				n := 0
				for range watched.ResultChan() {
					n++
				}
				if n != events {
					b.Fatalf("%d events", n)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*events), "us/event")
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

// emptyFields empties managed fields in what JSON says.
func emptyFields(in any) any {
	empty := func(of any) {
		object, _ := of.(map[string]any)
		metadata, _ := object["metadata"].(map[string]any)
		if _, ok := metadata["managedFields"].([]any); ok {
			metadata["managedFields"] = []any{}
		}
	}
	if response, ok := in.(map[string]any); ok {
		empty(response["object"])
		items, _ := response["items"].([]any)
		for _, item := range items {
			empty(item)
		}
	}
	return in
}
