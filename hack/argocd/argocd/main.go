// Command argocd is as much of Argo CD as deploys Applications: its application controller and its repository server, by
// their own commands, and a store of keys that both take for Redis.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alicebob/miniredis/v2"
	controller "github.com/argoproj/argo-cd/v3/cmd/argocd-application-controller/commands"
	reposerver "github.com/argoproj/argo-cd/v3/cmd/argocd-repo-server/commands"
	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "argocd", SilenceUsage: true}
	root.AddCommand(controller.NewCommand(), reposerver.NewCommand(), &cobra.Command{
		Use: "redis ADDRESS", Args: cobra.ExactArgs(1), RunE: func(_ *cobra.Command, args []string) error { return redis(args[0]) },
	})
	if root.Execute() != nil {
		os.Exit(1)
	}
}

// redis serves an empty store until it is told to stop.
func redis(address string) error {
	store := miniredis.NewMiniRedis()
	if err := store.StartAddr(address); err != nil {
		return fmt.Errorf("serving Redis: %w", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	<-stop
	store.Close()
	return nil
}
