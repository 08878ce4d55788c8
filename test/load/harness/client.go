package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Content types.
const (
	jsonBody   = "application/json"
	mergePatch = "application/merge-patch+json"
)

// Client sends requests that are ready to be sent, so that it costs as little as it can. It
// has a connection of its own.
type Client struct {
	http  *http.Client
	host  string
	token string
}

// answerTimeout ends requests for watches that nobody answers.
const answerTimeout = 20 * time.Second

// NewClient makes a client for a configuration with a bearer token. A timeout ends requests
// whose answer does not begin until then; 0 waits as long as their context.
func NewClient(config *rest.Config, timeout time.Duration) (*Client, error) {
	tls, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("building client: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: tls, ForceAttemptHTTP2: true, ResponseHeaderTimeout: timeout}
	return &Client{http: &http.Client{Transport: transport}, host: config.Host, token: config.BearerToken}, nil
}

// AnswerError is an answer that is not a success.
type AnswerError struct {
	Request string
	Code    int
	Body    string
}

func (e *AnswerError) Error() string { return fmt.Sprintf("%s: %d: %s", e.Request, e.Code, e.Body) }

// Code is the HTTP status of an error; 0 for one that is no answer.
func Code(err error) int {
	var answer *AnswerError
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// Ignore drops an error that is an answer with one of these codes.
func Ignore(err error, codes ...int) error {
	for _, code := range codes {
		if Code(err) == code {
			return nil
		}
	}
	return err
}

func (c *Client) send(ctx context.Context, method, path, contentType string, body []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.host+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", jsonBody)
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		defer response.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return nil, &AnswerError{method + " " + path, response.StatusCode, string(said)}
	}
	return response.Body, nil
}

// Do sends a request and returns the answer.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body []byte) ([]byte, error) {
	answer, err := c.send(ctx, method, path, contentType, body)
	if err != nil {
		return nil, err
	}
	defer answer.Close()
	return io.ReadAll(answer)
}

// Create creates an object of a resource.
func (c *Client) Create(ctx context.Context, resource schema.GroupVersionResource, namespace string, object any) error {
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = c.Do(ctx, http.MethodPost, Path(resource, namespace, ""), jsonBody, body)
	return err
}

// Patch sends a merge patch.
func (c *Client) Patch(ctx context.Context, path string, patch any) error {
	body, ok := patch.([]byte)
	if !ok {
		var err error
		if body, err = json.Marshal(patch); err != nil {
			return err
		}
	}
	_, err := c.Do(ctx, http.MethodPatch, path, mergePatch, body)
	return err
}

// Delete asks for a deletion.
func (c *Client) Delete(ctx context.Context, path string) error {
	_, err := c.Do(ctx, http.MethodDelete, path, "", nil)
	return err
}

// Path is the path of a resource or, with a name, of an object.
func Path(resource schema.GroupVersionResource, namespace, name string) string {
	path := "/apis/" + resource.Group + "/" + resource.Version
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	if namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + resource.Resource
	if name != "" {
		path += "/" + name
	}
	return path
}
