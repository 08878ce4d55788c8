package lean

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// asServed takes what client-go takes, but for strings that are no UTF-8, which an API server does not send, and leaves out managed
// fields.
var asServed = json.JoinOptions(
	jsontext.AllowDuplicateNames(true),
	json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, _ *[]metav1.ManagedFieldsEntry) error { return d.SkipValue() })),
)

// events are those of a watch, one after the other. They are a watch.Decoder.
type events struct {
	body    io.ReadCloser
	decoder *jsontext.Decoder
	// of is what the objects are like: unstructured, or of a Go type.
	of    runtime.Object
	words words
}

func newEvents(body io.ReadCloser, of runtime.Object) *events {
	return &events{body: body, decoder: jsontext.NewDecoder(body, asServed), of: of}
}

// Close is that of watch.Decoder.
func (e *events) Close() { _ = e.body.Close() }

// Decode is that of watch.Decoder. Who asks knows an end by its value, and other errors by what they wrap.
func (e *events) Decode() (watch.EventType, runtime.Object, error) {
	kind, object, err := e.next()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.ErrUnexpectedEOF
	}
	return kind, object, err
}

// next takes an event apart. Of which type it is comes first: a server that has another order is understood, and takes longer.
func (e *events) next() (kind watch.EventType, object runtime.Object, err error) {
	var late jsontext.Value
	err = e.members(func(name string) (err error) {
		switch {
		case name == "type":
			kind, err = e.kind()
		case name == "object" && kind == "":
			late, err = e.decoder.ReadValue()
			late = late.Clone()
		case name == "object":
			object, err = e.object(kind)
		default:
			err = e.decoder.SkipValue()
		}
		return err
	})
	if err != nil || object != nil {
		return kind, object, err
	}
	if late == nil || kind == "" {
		return "", nil, fmt.Errorf("an event without a type or an object")
	}
	of := events{decoder: jsontext.NewDecoder(bytes.NewReader(late), asServed), of: e.of}
	object, err = of.object(kind)
	return kind, object, err
}

// kind is the type of an event.
func (e *events) kind() (watch.EventType, error) {
	text, err := e.text()
	switch kind := watch.EventType(text); kind {
	case watch.Added, watch.Modified, watch.Deleted, watch.Bookmark, watch.Error:
		return kind, err
	default:
		return "", cmp.Or(err, fmt.Errorf("unknown type of event %q", text))
	}
}

// object is that of an event.
func (e *events) object(kind watch.EventType) (runtime.Object, error) {
	if _, ok := e.of.(runtime.Unstructured); ok && kind != watch.Error {
		content, err := e.fields("object")
		return &unstructured.Unstructured{Object: content}, err
	}
	o := runtime.Object(&metav1.Status{})
	if kind != watch.Error {
		o = reflect.New(reflect.TypeOf(e.of).Elem()).Interface().(runtime.Object)
	}
	if err := json.UnmarshalDecode(e.decoder, o, asServed); err != nil {
		return nil, err
	}
	if kind != watch.Error {
		o.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{}) // as clients of Go types have it
	}
	return o, nil
}

// fields are those of an object that has no Go type, or of something in it, without its managed fields; of is the name of what they are in.
func (e *events) fields(of string) (map[string]any, error) {
	o := map[string]any{}
	return o, e.members(func(name string) (err error) {
		switch {
		case of == "metadata" && name == "managedFields":
			return e.decoder.SkipValue()
		case of == "object" && name == "metadata" && e.decoder.PeekKind() == '{':
			o[name], err = e.fields(name)
		default:
			o[name], err = e.value()
		}
		return err
	})
}

// value is anything, as unstructured content has it: numbers are int64 where they can be.
func (e *events) value() (any, error) {
	switch e.decoder.PeekKind() {
	case '{':
		return e.fields("")
	case '[':
		return e.list()
	case '"':
		return e.text()
	case '0':
		return e.number()
	}
	token, err := e.decoder.ReadToken()
	if err != nil || token.Kind() == 'n' {
		return nil, err
	}
	return token.Bool(), nil
}

func (e *events) list() ([]any, error) {
	if _, err := e.decoder.ReadToken(); err != nil {
		return nil, err
	}
	list := []any{}
	for e.decoder.PeekKind() != ']' {
		item, err := e.value()
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := e.decoder.ReadToken()
	return list, err
}

// number is one: where it has a fraction or an exponent, or is too large for an int64, it is a float64.
func (e *events) number() (any, error) {
	raw, err := e.decoder.ReadValue()
	if err != nil {
		return nil, err
	}
	if i, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return i, nil
	}
	return strconv.ParseFloat(string(raw), 64)
}

// members has each member of an object taken, whose name it says.
func (e *events) members(take func(name string) error) error {
	token, err := e.decoder.ReadToken()
	if err != nil {
		return err
	}
	if token.Kind() != '{' {
		return fmt.Errorf("%v where an object is due", token.Kind())
	}
	for e.decoder.PeekKind() != '}' {
		name, err := e.text()
		if err != nil {
			return err
		}
		if err := take(name); err != nil {
			return err
		}
	}
	_, err = e.decoder.ReadToken()
	return err
}

// text is a string.
func (e *events) text() (string, error) {
	raw, err := e.decoder.ReadValue()
	if err != nil {
		return "", err
	}
	if raw.Kind() != '"' {
		return "", fmt.Errorf("%v where a string is due", raw.Kind())
	}
	switch inner := raw[1 : len(raw)-1]; {
	case bytes.IndexByte(inner, '\\') >= 0:
		text, err := jsontext.AppendUnquote(nil, raw)
		return string(text), err
	case len(inner) > longestWord:
		return string(inner), nil
	default:
		return e.words.word(inner), nil
	}
}

// longestWord is how long a string is at most that is taken for one that comes again.
const longestWord = 40

// words are the strings that came last: names of fields and what has few values come in every object, and are kept once.
type words [512]string

var wordSeed = maphash.MakeSeed()

// word is b.
func (w *words) word(b []byte) string {
	last := &w[maphash.Bytes(wordSeed, b)%uint64(len(w))]
	if *last != string(b) {
		*last = string(b)
	}
	return *last
}
