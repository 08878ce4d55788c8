// Command trace is `crossplane beta trace` of Crossplane's own CLI, without the rest of that, which would bring Git and Docker.
package main

import (
	"github.com/alecthomas/kong"

	"github.com/crossplane/crossplane-runtime/v2/pkg/logging"
	"github.com/crossplane/crossplane/v2/cmd/crank/beta/trace"
)

func main() {
	var cli struct {
		Beta struct {
			Trace trace.Cmd `cmd:""`
		} `cmd:""`
	}
	command := kong.Parse(&cli, kong.Name("crossplane"))
	command.BindTo(logging.NewNopLogger(), (*logging.Logger)(nil))
	command.FatalIfErrorf(command.Run())
}
