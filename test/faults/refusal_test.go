package faults

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

// What a workload has refused is refused until it allows it, and nothing else is.
func TestRefused(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"of": "b", "x": "y"}}}
	var binary bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(pod, &binary); err != nil {
		t.Fatal(err)
	}
	const json = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"of":"b"}}}`
	for name, test := range map[string]struct {
		verb, path, body string
		of               labels.Set
		want             bool
	}{
		"of a label":       {http.MethodPost, "/api/v1/namespaces/x/pods", json, labels.Set{"of": "b"}, true},
		"in protobuf":      {http.MethodPost, "/api/v1/namespaces/x/pods", binary.String(), labels.Set{"of": "b"}, true},
		"of another label": {http.MethodPost, "/api/v1/namespaces/x/pods", json, labels.Set{"of": "a"}, false},
		"all":              {http.MethodPost, "/api/v1/namespaces/x/pods", json, nil, true},
		"without a body":   {http.MethodPost, "/api/v1/namespaces/x/pods", "", labels.Set{"of": "b"}, false},
		"another verb":     {http.MethodPut, "/api/v1/namespaces/x/pods/p", json, labels.Set{"of": "b"}, false},
		"another kind":     {http.MethodPost, "/api/v1/namespaces/x/services", json, labels.Set{"of": "b"}, false},
	} {
		p := &proxy{refusals: map[string]int{}}
		s := &Stage{proxy: p}
		s.Refuse("create", corev1.Resource("pods"), test.of)
		asked := func() bool {
			request, err := http.NewRequest(test.verb, "http://server"+test.path, bytes.NewReader([]byte(test.body)))
			if err != nil {
				t.Fatal(err)
			}
			w, _ := readWrite(request)
			barred := p.bars(w, request)
			if left, _ := io.ReadAll(request.Body); string(left) != test.body {
				t.Errorf("%s: %q is left of what is sent", name, left)
			}
			return barred
		}
		if got := asked(); got != test.want {
			t.Errorf("%s: refused %t", name, got)
		}
		if _, times := p.insisted(); times > 0 != test.want {
			t.Errorf("%s: counted %d times", name, times)
		}
		if s.Allow(); asked() {
			t.Errorf("%s: refused when it is allowed", name)
		}
	}
}
