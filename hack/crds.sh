#!/usr/bin/env bash
# Copies what the systems we talk to define from their Go modules: hack/crds.sh DIR. Their CRDs go to DIR,
# those of an older Crossplane to DIR-v1, those of which tests use parts to DIR-whole, and charts to DIR-charts.
# Only the modules' zips are fetched, so neither their dependencies nor their Go version matter.
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOWORK=off GOTOOLCHAIN=local

# copy NAME MODULE VERSION FOLDER [GROUP]: what CRDs there are in a folder of a module, of a group or of all, or a chart, to DIR/NAME.
copy() {
	local name=$1 module=$2 version=$3 folder=$4 group=${5:-} source file stamp
	stamp="$version $(cksum <"$hack/crds.sh")"
	if [[ $(cat "$dir/$name/.stamp" 2>/dev/null) == "$stamp" ]]; then
		return
	fi
	# Outside of any module: our go.mod has nothing to say about these.
	source=$(cd / && go mod download -json "$module@$version" |
		awk -F'"' '$2 == "Dir" { print $4 } $2 == "Error" { print $4 >"/dev/stderr" }')
	if [[ -z $source ]]; then
		echo "hack/crds.sh: downloading $module@$version: no folder" >&2
		return 1
	fi
	rm -rf "${dir:?}/$name"
	mkdir "$dir/$name"
	if [[ -f $source/$folder/Chart.yaml ]]; then
		cp -R "$source/$folder/." "$dir/$name"
		chmod -R u+w "$dir/$name"
		printf 'copied the chart %s %s\n' "$name" "$version"
	else
		for file in "$source/$folder/$group"*.yaml; do
			if grep -q '^kind: CustomResourceDefinition' "$file"; then
				install -m 644 "$file" "$dir/$name/"
			fi
		done
		printf 'copied %2d CRDs of %s %s\n' "$(find "$dir/$name" -name '*.yaml' | wc -l)" "$name" "$version"
	fi
	echo "$stamp" >"$dir/$name/.stamp"
}

copy argo-cd github.com/argoproj/argo-cd/v3 v3.2.12 manifests/crds
copy argo-rollouts github.com/argoproj/argo-rollouts v1.10.1 manifests/crds
copy crossplane github.com/crossplane/crossplane/v2 v2.1.3 cluster/crds
copy prometheus-operator github.com/prometheus-operator/prometheus-operator v0.85.0 example/prometheus-operator-crd
copy karpenter sigs.k8s.io/karpenter v1.13.0 pkg/apis/crds
copy keda github.com/kedacore/keda/v2 v2.20.2 config/crd/bases
copy karpenter-kwok sigs.k8s.io/karpenter v1.13.0 kwok/apis/crds
copy cluster-api sigs.k8s.io/cluster-api v1.13.6 config/crd/bases

# Beside them, because they define kinds of the above differently, or none.
crds=$dir
dir=$(mkdir -p "$crds-v1" && cd "$crds-v1" && pwd)
copy crossplane github.com/crossplane/crossplane v1.20.0 cluster/crds
dir=$(mkdir -p "$crds-whole" && cd "$crds-whole" && pwd)
copy argo-workflows github.com/argoproj/argo-workflows/v4 v4.0.5 manifests/base/crds/full
copy provider-gcp github.com/upbound/provider-gcp v1.14.0 package/crds gcp.upbound.io_providerconfigs
copy provider-gcp-container github.com/upbound/provider-gcp v1.14.0 package/crds container.gcp.upbound.io
copy provider-gcp-compute github.com/upbound/provider-gcp v1.14.0 package/crds compute.gcp.upbound.io
dir=$(mkdir -p "$crds-charts" && cd "$crds-charts" && pwd)
copy tailscale-operator tailscale.com v1.102.5 cmd/k8s-operator/deploy/chart
