package env

import (
	"context"
	"net/http"
)

// prober has a connection for each request, as the kubelet does. Two requests at the same time can leave
// http.DefaultClient a connection that nothing was ever sent on, and for such a one a server that is shut
// down waits six seconds.
var prober = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Answers says whether a GET of a URL is answered with 200.
func Answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	response, err := prober.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}
