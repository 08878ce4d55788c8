package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// prober has a connection for each request, as the kubelet does. Two requests at the same time can leave
// http.DefaultClient a connection that nothing was ever sent on, and for such a one a server that is shut
// down waits six seconds.
var prober = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Answers says whether a GET of a URL is answered with 200.
func Answers(ctx context.Context, url string) bool { return Asked(ctx, url) == nil }

// Asked is nil, or how a GET of a URL is answered instead of with 200.
func Asked(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := prober.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	said, err := io.ReadAll(response.Body)
	return errors.Join(fmt.Errorf("%s: %s", response.Status, said), err)
}
