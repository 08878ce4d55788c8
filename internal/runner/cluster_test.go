package runner

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
)

// A cluster cannot be told from others where the API server does not let its Namespace be read. What stands before the server does not
// say so: a restore point that is begun with that would be believed in any other cluster.
func TestClusterID(t *testing.T) {
	t.Parallel()
	status := func(code, reason string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","code":` + code + `}`
	}
	for name, test := range map[string]struct {
		code int
		body string
		id   string
		err  bool
	}{
		"told":                 {http.StatusOK, `{"kind":"Namespace","apiVersion":"v1","metadata":{"uid":"u1"}}`, "u1", false},
		"the manager's own":    {http.StatusOK, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"manager"}}`, "", true},
		"forbidden":            {http.StatusForbidden, status("403", "Forbidden"), "", false},
		"not there":            {http.StatusNotFound, status("404", "NotFound"), "", true},
		"forbidden by another": {http.StatusForbidden, "403 Forbidden", "", true},
		"not found by another": {http.StatusNotFound, "404 page not found", "", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(test.code)
				_, _ = w.Write([]byte(test.body))
			}))
			defer server.Close()
			if id, err := ClusterID(t.Context(), &rest.Config{Host: server.URL}); id != test.id || (err != nil) != test.err {
				t.Errorf("it is %q, error %v", id, err)
			}
		})
	}
}
