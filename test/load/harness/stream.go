package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// follow watches until ctx is done and tells of every event, in order. It begins with all that
// there is, and goes on where it was when the server ends the stream. started is called when
// the first stream is open.
func (c *Client) follow(ctx context.Context, w Watched, started func(), happened func(Event)) error {
	version := ""
	open := func() {
		started()
		started = func() {}
	}
	for tries := 0; ; tries++ {
		err := c.stream(ctx, w, &version, open, happened)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && version == "" && tries < openTries: // nothing can have been missed
			select {
			case <-time.After(openPause):
			case <-ctx.Done():
			}
		case err != nil:
			return fmt.Errorf("watching %s: %w", w.Resource.Resource, err)
		}
	}
}

// openTries is how often more a first stream is asked for, and openPause how long after the last time: the server may be about
// to serve the kind anew, and then does not answer, or asks for another try in a second.
const (
	openTries = 3
	openPause = time.Second
)

func (c *Client) stream(ctx context.Context, w Watched, version *string, started func(), happened func(Event)) error {
	query := url.Values{"watch": {"true"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {"3600"}}
	if *version != "" {
		query.Set("resourceVersion", *version)
	}
	if w.Labels != "" {
		query.Set("labelSelector", w.Labels)
	}
	body, err := c.send(ctx, http.MethodGet, Path(w.Resource, w.Namespace, "")+"?"+query.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	started()
	decoder := json.NewDecoder(body)
	for {
		var event Event
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
		switch event.Type {
		case "ERROR":
			return fmt.Errorf("the server ended the stream after version %s", *version)
		case "BOOKMARK":
		default:
			event.Object.Resource = w.Resource
			happened(event)
		}
		*version = event.Object.Metadata.ResourceVersion
	}
}

// followAll follows several and returns when all streams are open. Errors go to failed.
func (c *Client) followAll(ctx context.Context, all []Watched, happened func(Event), failed func(error)) error {
	open, ended := make(chan struct{}, len(all)), make(chan error, len(all))
	for _, w := range all {
		go func() {
			if err := c.follow(ctx, w, func() { open <- struct{}{} }, happened); err != nil {
				failed(err)
				ended <- err
			}
		}()
	}
	for range all {
		select {
		case <-open:
		case err := <-ended:
			return err
		case <-time.After((openTries + 1) * (answerTimeout + openPause)):
			return errors.New("opening watches: no answer")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
