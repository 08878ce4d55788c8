#!/usr/bin/env bash
# Builds the local control plane from Go modules: hack/build-k8s.sh DIR.
# Each binary is rebuilt only when the module that pins it, the toolchain or this script changes.
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOWORK=off CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -mod=readonly"

kube=$(awk '$1 == "k8s.io/kubernetes" { print $2; exit }' "$hack/k8s/go.mod")
IFS=. read -r major minor _ <<<"${kube#v}"
# Without a version the binaries call themselves v0.0.0-master and kubectl refuses to compare.
# client-go carries the copy that kubectl's own user agent reads.
for pkg in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	ldflags+=" -X $pkg.gitVersion=$kube -X $pkg.gitMajor=$major -X $pkg.gitMinor=$minor"
done

# build NAME MODULE PACKAGE: one binary and the line that says so.
build() {
	local name=$1 module=$2 package=$3 stamp start
	stamp=$(cat "$hack/$module/go.mod" "$hack/$module/go.sum" "$hack/build-k8s.sh" <(go env GOVERSION GOOS GOARCH) | cksum)
	if [[ -x $dir/$name && $(cat "$dir/.$name.stamp" 2>/dev/null) == "$stamp" ]]; then
		return
	fi
	printf 'building %-24s ' "$name"
	start=$SECONDS
	(cd "$hack/$module" && go build -trimpath -ldflags "-s -w $ldflags" -o "$dir/$name" "$package")
	echo "$stamp" >"$dir/.$name.stamp"
	printf '%4ds\n' $((SECONDS - start))
}

build etcd k8s ./etcd
for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
	build "$name" k8s "k8s.io/kubernetes/cmd/$name"
done
build kwok kwok sigs.k8s.io/kwok/cmd/kwok
