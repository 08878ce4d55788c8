// Package lean makes caches that are never told managed fields.
//
// These are half of what the API server sends, and each of them is a map of its own. A transform of the cache
// leaves them out when an object has been taken apart, and an informer that is told of an unstructured object takes it
// apart several times: to see where an event ends, what it holds, of which kind that is, whether it is a list. So they
// are left out of the answer, before any of that. Nothing else is changed, and who reads live has them.
package lean

import (
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// NewCache is a cache.NewCacheFunc of such caches. What they are told in protobuf, which is metadata, is as it was sent.
func NewCache(config *rest.Config, o cache.Options) (cache.Cache, error) {
	lean := rest.CopyConfig(config)
	lean.Wrap(wrapped)
	client, err := rest.HTTPClientFor(lean)
	if err != nil {
		return nil, fmt.Errorf("building the client of a cache: %w", err)
	}
	o.HTTPClient = client
	return cache.New(config, o)
}

// withoutManagedFields empties the managed fields of the objects that the API server answers in JSON, in lists and in
// watches.
type withoutManagedFields struct{ next http.RoundTripper }

// wrapped is a transport.WrapperFunc.
func wrapped(next http.RoundTripper) http.RoundTripper { return withoutManagedFields{next} }

// RoundTrip is that of http.RoundTripper.
func (w withoutManagedFields) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != runtime.ContentTypeJSON {
		return response, err
	}
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	response.Body = &emptied{ReadCloser: response.Body}
	return response, nil
}

// WrappedRoundTripper is that of net.RoundTripperWrapper.
func (w withoutManagedFields) WrappedRoundTripper() http.RoundTripper { return w.next }

// emptied are objects in JSON, or events of them, one after the other, without what is in the lists of their managed
// fields.
type emptied struct {
	io.ReadCloser
	fields managedFields
}

// Read is that of io.Reader. What is left of what was read is never more, and may be nothing.
func (e *emptied) Read(p []byte) (int, error) {
	for {
		n, err := e.ReadCloser.Read(p)
		if left := e.fields.empty(p[:n]); left > 0 || n == 0 || err != nil {
			return left, err
		}
	}
}

// managedFields finds the lists of managed fields in JSON that comes in pieces, by where they are: in the metadata of an
// item of a list, or of the object of an event. What an object has of that name anywhere else, such as in one that its
// spec holds, is not touched. The zero value is before the first piece.
type managedFields struct {
	// open are the objects and lists that the next byte is in and managed fields may be, from the outermost on.
	open []place
	// beside is how many others it is in, within those; within, how many in managed fields, themselves included.
	beside, within int
	// last is the last string in the innermost one of open, where an object or a list begins its key; no more of it than tells
	// those apart that count.
	last []byte
	// quoted: the next byte is in a string; escaped: it is not its end.
	quoted, escaped bool
}

// place is an object or a list around managed fields.
type place byte

const (
	response place = iota + 1 // a list, or an event
	items
	object
	metadata
	fields
)

// longestKey is more than the longest key that leads to managed fields.
const longestKey = len("managedFields") + 1

// empty leaves out what is in managed fields, and moves what is left to the front: it says how much that is.
func (m *managedFields) empty(piece []byte) int {
	left := 0
	for _, b := range piece {
		was := m.within
		if m.take(b); was == 0 || m.within == 0 {
			piece[left] = b
			left++
		}
	}
	return left
}

// take goes on by a byte.
func (m *managedFields) take(b byte) {
	switch {
	case m.quoted:
		m.inString(b)
	case b == '"':
		m.quoted, m.last = true, m.last[:0]
	case b == '{' || b == '[':
		m.enter(b)
	case b == '}' || b == ']':
		m.leave()
	}
}

// inString takes a byte of a string.
func (m *managedFields) inString(b byte) {
	switch {
	case m.escaped:
		m.escaped = false
	case b == '\\':
		m.escaped = true
	case b == '"':
		m.quoted = false
		return
	}
	if m.beside+m.within == 0 && len(m.last) < longestKey {
		m.last = append(m.last, b)
	}
}

// enter goes into an object or a list.
func (m *managedFields) enter(b byte) {
	switch next := m.next(b); {
	case m.within > 0:
		m.within++
	case m.beside > 0 || next == 0:
		m.beside++
	case next == fields:
		m.within = 1
	default:
		m.open = append(m.open, next)
	}
}

// next is the place around managed fields that begins with a byte; 0 if it is none.
func (m *managedFields) next(b byte) place {
	if len(m.open) == 0 {
		return response
	}
	switch at, key := m.open[len(m.open)-1], string(m.last); {
	case at == response && b == '[' && key == "items":
		return items
	case at == items && b == '{', at == response && b == '{' && key == "object":
		return object
	case at == object && b == '{' && key == "metadata":
		return metadata
	case at == metadata && b == '[' && key == "managedFields":
		return fields
	}
	return 0
}

// leave goes out of an object or a list.
func (m *managedFields) leave() {
	switch {
	case m.within > 0:
		m.within--
	case m.beside > 0:
		m.beside--
	case len(m.open) > 0:
		m.open = m.open[:len(m.open)-1]
	}
}
