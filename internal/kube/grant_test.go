package kube

import (
	"errors"
	"testing"
)

func TestSecretsCommand(t *testing.T) {
	const prefix = "kubectl -n lab create rolebinding labkeeper-kubeconfigs --clusterrole=labkeeper-kubeconfig-reader "
	for refused, want := range map[string]string{
		`secrets "x" is forbidden: User "system:serviceaccount:keeper:manager" cannot get`: "--serviceaccount=keeper:manager",
		`secrets "x" is forbidden: User "somebody" cannot get`:                             "--user=somebody",
		`no`: "--serviceaccount=labkeeper-system:labkeeper-controller-manager",
	} {
		if got := SecretsCommand("lab", errors.New(refused)); got != prefix+want {
			t.Errorf("%s: got %s, want %s", refused, got, prefix+want)
		}
	}
}
