package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/executor/cluster"
)

// shelf is a kind with as many objects, of which the server has forgotten the pages after the first one.
type shelf struct {
	dynamic.ResourceInterface
	objects int
	expired bool
	asked   []string
}

func (s *shelf) List(_ context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	s.asked = append(s.asked, fmt.Sprintf("%d from %q of %s", o.Limit, o.Continue, o.LabelSelector))
	from := 0
	if o.Continue != "" {
		if s.expired {
			return nil, apierrors.NewResourceExpired("too old")
		}
		if _, err := fmt.Sscan(o.Continue, &from); err != nil {
			return nil, err
		}
	}
	list, to := &unstructured.UnstructuredList{}, s.objects
	if o.Limit > 0 {
		to = min(to, from+int(o.Limit))
	}
	for i := from; i < to; i++ {
		object := unstructured.Unstructured{Object: map[string]any{}}
		object.SetName(fmt.Sprint(i))
		list.Items = append(list.Items, object)
	}
	if to < s.objects {
		list.SetContinue(fmt.Sprint(to))
	}
	return list, nil
}

func TestList(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		shelf shelf
		asked []string
	}{
		"none":      {shelf{}, []string{`2 from "" of a=b`}},
		"one page":  {shelf{objects: 2}, []string{`2 from "" of a=b`}},
		"pages":     {shelf{objects: 5}, []string{`2 from "" of a=b`, `2 from "2" of a=b`, `2 from "4" of a=b`}},
		"forgotten": {shelf{objects: 5, expired: true}, []string{`2 from "" of a=b`, `2 from "2" of a=b`, `0 from "" of a=b`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := cluster.List(t.Context(), &test.shelf, metav1.ListOptions{LabelSelector: "a=b", Limit: 2})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range found {
				names = append(names, found[i].GetName())
			}
			if want := []string{"0", "1", "2", "3", "4"}[:test.shelf.objects]; !slices.Equal(names, want) {
				t.Errorf("found %q, want %q", names, want)
			}
			if !slices.Equal(test.shelf.asked, test.asked) {
				t.Errorf("asked %q, want %q", test.shelf.asked, test.asked)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "a", errors.New("changed"))
	other := errors.New("other")
	for name, test := range map[string]struct {
		errs  []error
		tries int
		want  error
	}{
		"at once":   {nil, 1, nil},
		"conflicts": {[]error{conflict, fmt.Errorf("writing: %w", conflict)}, 3, nil},
		"other":     {[]error{conflict, other}, 2, other},
		"lasting":   {slices.Repeat([]error{conflict}, 99), cluster.Conflicts.Steps, conflict},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			err := cluster.Retry(t.Context(), func() error {
				if tries++; tries <= len(test.errs) {
					return test.errs[tries-1]
				}
				return nil
			})
			if tries != test.tries || !errors.Is(err, test.want) {
				t.Errorf("got %v after %d tries, want %v after %d", err, tries, test.want, test.tries)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	if err := cluster.Retry(ctx, func() error { tries++; cancel(); return conflict }); err == nil || tries != 1 {
		t.Errorf("interrupted: got %v after %d tries", err, tries)
	}
}

// What a server does not answer is read again, a few times, while there is time; what it answers is an answer.
func TestAgain(t *testing.T) {
	cluster.Outages.Duration = time.Millisecond
	status := func(code int) error { // as a client makes it of what a proxy says
		return fmt.Errorf("listing: %w", apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{Resource: "things"}, "", "<html>", 0, true))
	}
	refused := &url.Error{Op: "Get", URL: "https://x", Err: syscall.ECONNREFUSED}
	late := &url.Error{Op: "Get", URL: "https://x", Err: context.DeadlineExceeded}
	for name, test := range map[string]struct {
		errs  []error
		tries int
		lasts bool
	}{
		"at once":      {nil, 1, false},
		"a proxy":      {[]error{status(502), status(503), status(504)}, 4, false},
		"etcd":         {[]error{apierrors.NewInternalError(errors.New("etcdserver: request timed out"))}, 2, false},
		"busy":         {[]error{apierrors.NewTooManyRequests("later", 0)}, 2, false},
		"nobody":       {[]error{refused, late, io.ErrUnexpectedEOF}, 4, false},
		"lasting":      {slices.Repeat([]error{status(503)}, 99), 4, true},
		"forbidden":    {[]error{status(403)}, 1, true},
		"not there":    {[]error{status(404)}, 1, true},
		"expired":      {[]error{apierrors.NewResourceExpired("too old")}, 1, true},
		"of ourselves": {[]error{errors.New("install it")}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			tries := 0
			err := cluster.Again(t.Context(), func() error {
				if tries++; tries <= len(test.errs) {
					return test.errs[tries-1]
				}
				return nil
			})
			if tries != test.tries || (err != nil) != test.lasts || test.lasts && !errors.Is(err, test.errs[0]) {
				t.Errorf("got %v after %d tries, want %d", err, tries, test.tries)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	if err := cluster.Again(ctx, func() error { tries++; cancel(); return refused }); !errors.Is(err, refused) || tries != 1 {
		t.Errorf("interrupted: got %v after %d tries", err, tries)
	}
	if err := cluster.Again(ctx, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("over before: got %v", err)
	}
}

// What stands before a server answers 404 in words of its own for an object, and for all or some of what the server serves: the object
// is not gone.
func TestGetIsNotAnswered(t *testing.T) {
	t.Parallel()
	const versions = `{"kind":"APIVersions","versions":["v1"]}`
	const groups = `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],` +
		`"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`
	for name, test := range map[string]struct {
		group, kind string
		answers     map[string]string
		gone        bool
	}{
		"nothing":              {"apps", "Deployment", nil, false},
		"nothing but groups":   {"apps", "Deployment", map[string]string{"/api": versions, "/apis": groups}, false},
		"no groups":            {"apps", "Deployment", map[string]string{"/api": versions}, false},
		"another group":        {"example.com", "Oven", map[string]string{"/api": versions, "/apis": groups}, true},
		"no version of core":   {"", "Pod", map[string]string{"/apis": groups}, false},
		"no resources of core": {"", "Pod", map[string]string{"/api": versions, "/apis": groups}, false},
		"other resources of core": {"", "Pod", map[string]string{"/api": versions, "/apis": groups,
			"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node"}]}`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, ok := test.answers[r.URL.Path]
				if !ok {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, answer)
			}))
			defer server.Close()
			config := &rest.Config{Host: server.URL}
			kind, resource := schema.GroupKind{Group: test.group, Kind: test.kind}, strings.ToLower(test.kind)+"s"
			gvr := schema.GroupVersionResource{Group: test.group, Version: "v1", Resource: resource}
			objects, discovered := dynamic.NewForConfigOrDie(config).Resource(gvr), discovery.NewDiscoveryClientForConfigOrDie(config)
			object, err := cluster.Get(t.Context(), objects, "web", kind, discovered)
			if object != nil || (err == nil) != test.gone {
				t.Errorf("it is %v, error %v", object, err)
			}
			if _, err = cluster.List(t.Context(), objects, metav1.ListOptions{}); cluster.Unserved(err, gvr, discovered) != test.gone {
				t.Errorf("after %v it is unserved: %v", err, !test.gone)
			}
		})
	}
}
