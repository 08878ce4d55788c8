// Package executortest is what tests of executors share: a runner that keeps its restore point in memory, and one that
// is killed at any request.
package executortest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/labkeeper/labkeeper/internal/dispatch"
	"github.com/labkeeper/labkeeper/internal/executor"
	"github.com/labkeeper/labkeeper/internal/restore"
	"github.com/labkeeper/labkeeper/test/env"
)

// Runner carries out operations on a target, one after the other.
type Runner struct {
	Parameters executor.Parameters
	Config     *rest.Config
	Namespaces []string
	// Remote: Config has credentials of its own.
	Remote bool
	// Withheld are the namespaces of the manager and of its runners, where the cluster is their own.
	Withheld []string
	// ManagerNode and RunnerNode are what they are on.
	ManagerNode, RunnerNode string
	// Backwards wakes in the other order.
	Backwards bool
	// Once calls Shutdown once for a resource, and not again to see that it changes nothing.
	Once bool
	// Former: Point is that of a cycle before.
	Former bool
	// Adjust changes a target that was opened, nil does not.
	Adjust func(executor.Target)

	// Point is what it knows. It is written and read back wherever a runner would.
	Point   *restore.Point
	attempt int
}

// New makes a runner for parameters.
func New(t testing.TB, e executor.Executor, parameters string, config *rest.Config, namespaces ...string) *Runner {
	t.Helper()
	p, err := e.Parse(json.RawMessage(parameters))
	if err != nil {
		t.Fatal(err)
	}
	return &Runner{Parameters: p, Config: config, Namespaces: namespaces, Point: &restore.Point{Plan: "lab/night", Target: "t", Executor: "e", Cycle: "1"}}
}

// Open opens the target.
func (r *Runner) Open(ctx context.Context, operation dispatch.Operation) (executor.Target, error) {
	r.attempt++
	target, err := r.Parameters.Open(ctx, executor.Session{Config: r.Config, Namespaces: r.Namespaces, Operation: operation, Attempt: r.attempt, Remote: r.Remote, Withheld: r.Withheld, ManagerNode: r.ManagerNode, RunnerNode: r.RunnerNode})
	if err == nil && r.Adjust != nil {
		r.Adjust(target)
	}
	return target, err
}

// Shutdown puts everything to sleep.
func (r *Runner) Shutdown(ctx context.Context) error {
	target, err := r.Open(ctx, dispatch.Shutdown)
	if err != nil {
		return err
	}
	snapshot, err := target.Snapshot(ctx)
	if err != nil {
		return err
	}
	var keys []string
	fresh := map[string]bool{}
	for _, resource := range snapshot {
		if fresh[resource.Key], err = executor.Capture(target, r.Point, resource, r.Former); err != nil {
			return err
		}
		keys = append(keys, resource.Key)
	}
	for _, resource := range r.Point.Open() {
		if !slices.Contains(keys, resource.Key) {
			keys = append(keys, resource.Key)
		}
	}
	if err := r.keep(); err != nil {
		return err
	}
	for _, key := range keys {
		slept, err := executor.PutToSleep(ctx, target, r.Point, key, fresh[key], r.keep)
		if err != nil {
			return err
		}
		if err := r.again(ctx, target, key, slept); err != nil {
			return err
		}
		if !r.Point.Slept(key, slept) {
			return fmt.Errorf("%s is not captured", key)
		}
		if err := r.keep(); err != nil {
			return err
		}
	}
	return nil
}

// again puts a resource to sleep that is asleep.
func (r *Runner) again(ctx context.Context, target executor.Target, key string, slept json.RawMessage) error {
	if r.Once {
		return nil
	}
	again, err := target.Shutdown(ctx, executor.Captured{Resource: *r.Point.Resource(key)})
	if err == nil && string(again) != string(slept) {
		err = fmt.Errorf("%s is %s, and then %s", key, slept, again)
	}
	return err
}

// WakeUp wakes everything.
func (r *Runner) WakeUp(ctx context.Context) error {
	target, err := r.Open(ctx, dispatch.WakeUp)
	if err != nil {
		return err
	}
	resources := r.Point.Open()
	if r.Backwards {
		slices.Reverse(resources)
	}
	for _, resource := range resources {
		ending, err := target.WakeUp(ctx, resource)
		if err != nil {
			return err
		}
		r.Point.End(resource.Key, ending.State, ending.Note)
		if err := r.keep(); err != nil {
			return err
		}
	}
	return nil
}

// keep writes the point, and reads it back.
func (r *Runner) keep() error {
	raw, err := r.Point.Encode()
	if err != nil {
		return err
	}
	read, err := restore.Decode(raw)
	if err == nil {
		*r.Point = *read // others have it, too
	}
	return err
}

// Missing is what is not settled, by resource.
func (r *Runner) Missing(t testing.TB, operation dispatch.Operation) string {
	t.Helper()
	return r.missing(t, operation, false)
}

// MissingLate is what is not settled when the time for it is over.
func (r *Runner) MissingLate(t testing.TB, operation dispatch.Operation) string {
	t.Helper()
	return r.missing(t, operation, true)
}

func (r *Runner) missing(t testing.TB, operation dispatch.Operation, late bool) string {
	t.Helper()
	target, err := r.Open(t.Context(), operation)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, resource := range r.Point.Resources {
		missing, err := target.Settled(t.Context(), resource, late)
		if woken, is := errors.AsType[*executor.WokenError](err); is {
			missing, err = woken.Error(), nil
		}
		if err != nil {
			t.Fatal(err)
		}
		if missing != "" {
			all = append(all, resource.Key+": "+missing)
		}
	}
	return strings.Join(all, "\n")
}

// Left is what was left, by resource, with the notes.
func (r *Runner) Left() string {
	var all []string
	for _, resource := range r.Point.Resources {
		if resource.State != restore.Restored || resource.Note != "" {
			all = append(all, fmt.Sprintf("%s %s: %s", resource.Key, resource.State, resource.Note))
		}
	}
	return strings.Join(all, "\n")
}

// Kill is a configuration whose n-th request, from 1, is the last one: it does not reach the server, or its answer is
// lost. The context is cancelled then; Survived says that it never came to it.
func Kill(ctx context.Context, config *rest.Config, n int, lost bool) (killed *rest.Config, until context.Context, survived func() bool) {
	until, cancel := context.WithCancel(ctx)
	var mutex sync.Mutex
	next := 0
	killed = rest.CopyConfig(config)
	killed.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(request *http.Request) (*http.Response, error) {
			mutex.Lock()
			next++
			at := next
			mutex.Unlock()
			if at < n {
				return inner.RoundTrip(request)
			}
			if at == n && lost {
				response, err := inner.RoundTrip(request)
				if err == nil {
					response.Body.Close()
				}
			}
			cancel()
			return nil, context.Canceled
		})
	})
	return killed, until, func() bool { mutex.Lock(); defer mutex.Unlock(); return next < n }
}

// Race is a configuration that calls before each request what may come before it.
func Race(config *rest.Config, before func(*http.Request)) *rest.Config {
	raced := rest.CopyConfig(config)
	raced.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(request *http.Request) (*http.Response, error) {
			before(request)
			return inner.RoundTrip(request)
		})
	})
	return raced
}

// Unserved is a configuration for the cluster without a group.
func Unserved(config *rest.Config, group string) *rest.Config {
	unserved := rest.CopyConfig(config)
	unserved.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(request *http.Request) (*http.Response, error) {
			request.URL.Path = strings.Replace(request.URL.Path, "/apis/"+group+"/", "/apis/no."+group+"/", 1)
			if request.URL.Path != "/apis" {
				return inner.RoundTrip(request)
			}
			request.Header.Set("Accept", "application/json")
			response, err := inner.RoundTrip(request)
			if err != nil {
				return nil, err
			}
			defer response.Body.Close()
			var list metav1.APIGroupList
			if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
				return nil, err
			}
			list.Groups = slices.DeleteFunc(list.Groups, func(g metav1.APIGroup) bool { return g.Name == group })
			raw, err := json.Marshal(list)
			response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
			return response, err
		})
	})
	return unserved
}

// Lost is a configuration of whose requests some are answered by what stands before the API server.
func Lost(config *rest.Config, is func(*http.Request) bool) *rest.Config {
	lost := rest.CopyConfig(config)
	lost.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return RoundTripper(func(request *http.Request) (*http.Response, error) {
			if !is(request) {
				return inner.RoundTrip(request)
			}
			return &http.Response{
				StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"text/plain"}}, Request: request,
				Body: io.NopCloser(strings.NewReader("404 page not found")),
			}, nil
		})
	})
	return lost
}

// Admission is a configuration for the cluster with a webhook that writes something else where a request says something.
func Admission(config *rest.Config, says, instead string) *rest.Config {
	return Race(config, func(request *http.Request) {
		if request.Body == nil {
			return
		}
		raw, err := io.ReadAll(request.Body)
		if err != nil {
			panic(err) // it is in memory
		}
		raw = bytes.ReplaceAll(raw, []byte(says), []byte(instead))
		request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	})
}

// RoundTripper is a function that is one.
type RoundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls it.
func (f RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// Bytes is an object as it must be again: without what the server counts and notes for itself.
func Bytes(t testing.TB, object *unstructured.Unstructured) string {
	t.Helper()
	object = object.DeepCopy()
	unstructured.RemoveNestedField(object.Object, "status")
	for _, field := range []string{"generation", "resourceVersion", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	raw, err := json.MarshalIndent(object.Object, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Until waits until a condition holds, or ends the test.
func Until(t testing.TB, what string, holds func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, holds); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// Objects are those of a YAML text.
func Objects(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := env.DecodeObjects([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		raw, err := json.Marshal(object.Object)
		if err == nil {
			err = object.UnmarshalJSON(raw) // whole numbers are int64, as a server sends them
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return objects
}
