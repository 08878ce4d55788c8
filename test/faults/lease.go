package faults

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
)

// leaseNamespace is where managers look for theirs; it is always there.
const leaseNamespace = "default"

// lease is the one that the managers of a run lead by. The proxy has it, because every run must have its own.
type lease struct {
	mu    sync.Mutex
	held  *coordinationv1.Lease // nil until somebody takes it
	still string                // the identity of who stands still
}

// isLease says whether a request is about a Lease.
func isLease(r *http.Request) bool {
	w, ok := parsePath(r.URL.Path)
	return ok && w.Resource.Resource == "leases"
}

// ServeHTTP answers as the API server does.
func (l *lease) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodGet && l.held == nil {
		answer(w, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound})
		return
	}
	if r.Method != http.MethodGet {
		if !l.write(r) {
			answer(w, metav1.Status{Status: metav1.StatusFailure, Code: http.StatusConflict, Reason: metav1.StatusReasonConflict})
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(l.held)
}

// write stores what is asked for, if it was made of what there is.
func (l *lease) write(r *http.Request) bool {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return false
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	asked, ok := object.(*coordinationv1.Lease)
	version := 0
	if l.held != nil {
		version, _ = strconv.Atoi(l.held.ResourceVersion)
	}
	if err != nil || !ok || version > 0 && asked.ResourceVersion != strconv.Itoa(version) {
		return false
	}
	asked.ResourceVersion = strconv.Itoa(version + 1)
	asked.APIVersion, asked.Kind = coordinationv1.SchemeGroupVersion.String(), "Lease"
	l.held = asked
	return true
}

// holder is who leads; empty if nobody does.
func (l *lease) holder() string {
	if l.held == nil {
		return ""
	}
	return ptr.Deref(l.held.Spec.HolderIdentity, "")
}

// stands notes that who leads stands still.
func (l *lease) stands() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.still = l.holder()
}

// taken says whether another leads than who stands still.
func (l *lease) taken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.holder() != "" && l.holder() != l.still
}

// free has the next manager lead at once, unless it must wait for one that stands still: that one is away by the will of a user, for
// as long as he wants.
func (l *lease) free() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != nil && l.holder() != l.still {
		l.held.Spec.HolderIdentity = nil
	}
}
