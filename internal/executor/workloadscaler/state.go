package workloadscaler

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/labkeeper/labkeeper/internal/executor"
)

// part is one object, and the value of the field that puts it to sleep: as it was, or as it was made.
type part struct {
	// Resource as group/version/resource.
	Resource string `json:"resource"`
	Kind     string `json:"kind"`
	// Namespace and Name, and UID: an object with another one is another.
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	// Value is null where the field was not there.
	Value json.RawMessage `json:"value"`
}

// state of a workload with its autoscalers, sorted by kind and name.
type state struct {
	part
	Autoscalers []part `json:"autoscalers,omitempty"`
	// Ready is how many of its pods were, where that was not all of them.
	Ready *int64 `json:"ready,omitempty"`
	// Ours says that it was found with a value that a runner has left (ours). It is for Renew: a runner of before reads past it.
	Ours bool `json:"ours,omitempty"`
}

func newPart(k kind, object *unstructured.Unstructured, value any) part {
	return part{
		Resource: resourceText(k.gvr), Kind: object.GetKind(),
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), Value: encode(value),
	}
}

// of is the kind of the part.
func (p part) of() kind {
	k := known(parseResource(p.Resource))
	k.gvr, k.name = parseResource(p.Resource), p.Kind
	return k
}

// key of the part: Kind.group/namespace/name.
func (p part) key() string {
	return schema.GroupKind{Group: p.of().gvr.Group, Kind: p.Kind}.String() + "/" + p.Namespace + "/" + p.Name
}

// String is the part as people read it.
func (p part) String() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

// autoscaler is one of the state by its key; nil if it has none.
func (s *state) autoscaler(key string) *part {
	if s == nil {
		return nil
	}
	for i := range s.Autoscalers {
		if s.Autoscalers[i].key() == key {
			return &s.Autoscalers[i]
		}
	}
	return nil
}

// decodeState reads how a workload was.
func decodeState(key string, raw json.RawMessage) (*state, error) {
	s := &state{}
	if err := json.Unmarshal(raw, s); err != nil {
		return nil, fmt.Errorf("reading state of %s: %w", key, err)
	}
	if s.key() != key || s.UID == "" || s.Value == nil {
		return nil, fmt.Errorf("reading state of %s: it is that of %q, or not whole", key, s.key())
	}
	return s, nil
}

// decodeSlept reads what Shutdown made of it; nil if that is not known.
func decodeSlept(key string, raw json.RawMessage) (*state, error) {
	if len(raw) == 0 || equal(raw, executor.Gone) {
		return nil, nil
	}
	return decodeState(key, raw)
}

// encode is a value that came from JSON as it is compared: keys sorted, no spaces.
func encode(value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // it came from JSON
	}
	return raw
}

// equal compares two values.
func equal(a, b json.RawMessage) bool {
	return bytes.Equal(encode(decode(a)), encode(decode(b)))
}

// decode is the value of JSON, with whole numbers as int64; nil for null, and for what is none.
func decode(raw json.RawMessage) any {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil
	}
	if number, ok := value.(json.Number); ok && !strings.ContainsAny(number.String(), ".eE") {
		if n, err := number.Int64(); err == nil {
			return n
		}
	}
	return value
}
