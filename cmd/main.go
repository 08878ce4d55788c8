// Command manager is Labkeeper: one process that reconciles every kind of the project. "manager runner" is another, which
// it starts in Jobs: see internal/runner.
package main

import (
	"fmt"
	"os"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		os.Exit(runRunner(ctrl.SetupSignalHandler(), os.Args[2:], os.Getenv, os.Stdout, os.Stderr))
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "manager: %v; manager --help lists the flags\n", err)
		os.Exit(2)
	}
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&o.zap)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "manager:", err) // whoever starts it reads this, and needs no stack trace
		os.Exit(1)
	}
}
