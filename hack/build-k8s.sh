#!/usr/bin/env bash
# Builds the local control plane from Go modules: hack/build-k8s.sh DIR.
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"

kube=$(pinned k8s k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${kube#v}"
# Without a version the binaries call themselves v0.0.0-master and kubectl refuses to compare.
# client-go carries the copy that kubectl's own user agent reads.
for pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags+=" -X $pkg.gitVersion=$kube -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"
done

build etcd k8s ./etcd
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
	build "$name" k8s "k8s.io/kubernetes/cmd/$name"
done
build kwok kwok sigs.k8s.io/kwok/cmd/kwok
