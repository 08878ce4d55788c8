package env

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// auditPolicy records who asked for what, never the content, so that it costs next to nothing.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
`

// Request is one request that the API server answered. A watch counts once, when it starts.
type Request struct {
	Time        time.Time
	User        string
	UserAgent   string
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	Code        int // HTTP status
}

// Write says whether the request asked for a change.
func (r Request) Write() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// auditEvent is what Requests reads of an audit.k8s.io/v1 Event.
type auditEvent struct {
	AuditID                  string    `json:"auditID"`
	Verb                     string    `json:"verb"`
	UserAgent                string    `json:"userAgent"`
	RequestReceivedTimestamp time.Time `json:"requestReceivedTimestamp"`
	User                     struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

func (e auditEvent) request() Request {
	return Request{
		Time:        e.RequestReceivedTimestamp,
		User:        e.User.Username,
		UserAgent:   e.UserAgent,
		Verb:        e.Verb,
		Group:       e.ObjectRef.APIGroup,
		Resource:    e.ObjectRef.Resource,
		Subresource: e.ObjectRef.Subresource,
		Namespace:   e.ObjectRef.Namespace,
		Name:        e.ObjectRef.Name,
		Code:        e.ResponseStatus.Code,
	}
}

// Requests returns all requests since the start, in the order of their answers. It needs
// Options.AuditLog.
func (cp *ControlPlane) Requests() ([]Request, error) {
	if !cp.options.AuditLog {
		return nil, errors.New("reading audit log: the control plane was started without Options.AuditLog")
	}
	file, err := os.Open(cp.auditLog())
	if err != nil {
		return nil, fmt.Errorf("reading audit log: %w", err)
	}
	defer file.Close()
	var requests []Request
	seen := map[string]bool{} // a watch is logged when it starts and when it ends
	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests, nil // a line without an end is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("reading audit log: %w", err)
		}
		var event auditEvent
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("reading audit log: %w", err)
		}
		if !seen[event.AuditID] {
			seen[event.AuditID] = true
			requests = append(requests, event.request())
		}
	}
}

// auditLog is the path of the audit log.
func (cp *ControlPlane) auditLog() string { return filepath.Join(cp.dir, "audit.jsonl") }

// writeAuditPolicy writes the policy file and returns its path.
func (cp *ControlPlane) writeAuditPolicy() (string, error) {
	path := filepath.Join(cp.dir, "audit-policy.yaml")
	if err := os.WriteFile(path, []byte(auditPolicy), 0o644); err != nil {
		return "", fmt.Errorf("writing audit policy: %w", err)
	}
	return path, nil
}
