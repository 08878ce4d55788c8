package executor_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/labkeeper/labkeeper/internal/executor"
)

func TestDecode(t *testing.T) {
	t.Parallel()
	type inner struct {
		Names []string          `json:"names"`
		More  map[string]string `json:"more"`
	}
	type parameters struct {
		Inner inner   `json:"inner"`
		All   []inner `json:"all"`
		N     int     `json:"n"`
		On    *bool   `json:"on"`
	}
	for name, test := range map[string]struct{ parameters, path, problem string }{
		"nothing":          {"", "", ""},
		"null":             {" null ", "", ""},
		"all of it":        {`{"inner": {"names": ["a"]}, "n": 3}`, "", ""},
		"not an object":    {`["a"]`, "", "must be an object"},
		"not JSON":         {`{"n": }`, "", "invalid character '}' looking for beginning of value"},
		"unknown":          {`{"m": 3}`, "m", "unknown field; correct or remove it"},
		"unknown within":   {`{"inner": {"name": ["a"]}}`, "inner.name", "unknown field; correct or remove it"},
		"unknown in items": {`{"all": [{}, {"x": 1}]}`, "all[1].x", "unknown field; correct or remove it"},
		"another case":     {`{"N": 3}`, "N", "unknown field; correct or remove it"},
		"twice":            {`{"n": 3, "n": 4}`, "n", "duplicate field; correct or remove it"},
		"several":          {`{"z": 1, "b": 1, "y": 1}`, "b", "unknown field; correct or remove it"},
		"no list":          {`{"inner": {"names": "a"}}`, "inner.names", "must be a list"},
		"no string":        {`{"inner": {"names": [1]}}`, "inner.names", "must be a string"},
		"no object":        {`{"inner": 1}`, "inner", "must be an object"},
		"no number":        {`{"n": "1"}`, "n", "must be a whole number"},
		"no flag":          {`{"on": "yes"}`, "on", "must be true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, executor.Decode(json.RawMessage(test.parameters), &parameters{}), test.path, test.problem)
		})
	}
}

func TestAwaitCompletion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		parameters    string
		want          time.Duration
		path, problem string
	}{
		"not said":    {`{}`, time.Minute, "", ""},
		"said":        {`{"a": {"timeout": "90s"}}`, 90 * time.Second, "", ""},
		"enabled":     {`{"a": {"enabled": true}}`, time.Minute, "", ""},
		"disabled":    {`{"a": {"enabled": false, "timeout": "90s"}}`, 0, "", ""},
		"no duration": {`{"a": {"timeout": "soon"}}`, 0, "awaitCompletion.timeout", "must be a duration of more than nothing, for instance 5m"},
		"nothing":     {`{"a": {"enabled": false, "timeout": "0s"}}`, 0, "awaitCompletion.timeout", "must be a duration of more than nothing, for instance 5m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var p struct {
				A *executor.AwaitCompletion `json:"a"`
			}
			if err := executor.Decode(json.RawMessage(test.parameters), &p); err != nil {
				t.Fatal(err)
			}
			got, err := p.A.For(time.Minute)
			check(t, err, test.path, test.problem)
			if got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// reader reads anything, and takes for a mistake what it is told.
type reader struct {
	executor.Parameters
	mistake error
}

func (r reader) Parse(raw json.RawMessage) (executor.Parameters, error) {
	return r, executor.Decode(raw, &struct{}{})
}
func (r reader) Mistake() error { return r.mistake }

// What is a mistake is accepted no more, and can be read.
func TestAccept(t *testing.T) {
	t.Parallel()
	mistake := &executor.InvalidError{Path: "names", Problem: "is odd"}
	registry := executor.Registry{"good": reader{}, "odd": reader{mistake: mistake}}
	for name, test := range map[string]struct {
		of, parameters string
		path, problem  string
		reads          bool
	}{
		"good":        {"good", `{}`, "", "", true},
		"a mistake":   {"odd", `{}`, "names", "is odd", true},
		"not read":    {"odd", `{"x": 1}`, "x", "unknown field; correct or remove it", false},
		"not a type":  {"none", `{}`, "", `there is no executor "none"; write one of good, odd`, false},
		"of no error": {"good", ``, "", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := registry.Accept(test.of, json.RawMessage(test.parameters))
			check(t, err, test.path, test.problem)
			if _, err := registry.Parse(test.of, json.RawMessage(test.parameters)); (err == nil) != test.reads {
				t.Errorf("read: %v", err)
			}
		})
	}
}

// check looks for an InvalidError of a path; none where there is no problem.
func check(t *testing.T, err error, path, problem string) {
	t.Helper()
	invalid, is := errors.AsType[*executor.InvalidError](err)
	switch {
	case problem == "" && err != nil:
		t.Errorf("got error %v", err)
	case problem != "" && !is:
		t.Errorf("got %v, want an InvalidError", err)
	case problem != "" && (invalid.Path != path || invalid.Problem != problem):
		t.Errorf("got %q at %q, want %q at %q", invalid.Problem, invalid.Path, problem, path)
	}
}
