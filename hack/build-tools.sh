#!/usr/bin/env bash
# Builds the developers' tools from Go modules: hack/build-tools.sh DIR [NAME...], by default those that make test needs, and the developers'.
set -euo pipefail

dir=$(mkdir -p "$1" && cd "$1" && pwd)
shift
source "$(dirname "${BASH_SOURCE[0]}")/build.sh"

[[ $# -gt 0 ]] || set -- controller-gen kustomize golangci-lint helm prometheus
for name; do
	case $name in
	controller-gen)
		# The generated files name the version; without this it would be that of the last commit.
		ldflags="-X sigs.k8s.io/controller-tools/pkg/version.version=$(pinned tools sigs.k8s.io/controller-tools)"
		build controller-gen tools sigs.k8s.io/controller-tools/cmd/controller-gen
		;;
	kustomize)
		ldflags="-X sigs.k8s.io/kustomize/api/provenance.version=$(pinned tools sigs.k8s.io/kustomize/kustomize/v5)"
		build kustomize tools sigs.k8s.io/kustomize/kustomize/v5
		;;
	golangci-lint)
		ldflags="-X main.version=$(pinned lint github.com/golangci/golangci-lint/v2)"
		build golangci-lint lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
		;;
	helm)
		ldflags="-X helm.sh/helm/v3/internal/version.version=$(pinned helm helm.sh/helm/v3)"
		build helm helm helm.sh/helm/v3/cmd/helm
		;;
	prometheus)
		# Of what it can discover, Kubernetes is what the agent needs.
		ldflags=
		GOFLAGS="$GOFLAGS -tags=remove_all_sd,enable_kubernetes_sd" build prometheus prometheus github.com/prometheus/prometheus/cmd/prometheus
		GOFLAGS="$GOFLAGS -tags=remove_all_sd" build promtool prometheus github.com/prometheus/prometheus/cmd/promtool
		;;
	rollouts)
		ldflags="-X github.com/argoproj/argo-rollouts/utils/version.version=$(pinned rollouts github.com/argoproj/argo-rollouts)"
		build rollouts-controller rollouts github.com/argoproj/argo-rollouts/cmd/rollouts-controller
		;;
	karpenter)
		ldflags="-X sigs.k8s.io/karpenter/pkg/operator.Version=$(pinned karpenter sigs.k8s.io/karpenter)"
		build karpenter karpenter sigs.k8s.io/karpenter/kwok
		;;
	argocd)
		ldflags="-X github.com/argoproj/argo-cd/v3/common.version=$(pinned argocd github.com/argoproj/argo-cd/v3)"
		build argocd argocd ./argocd
		;;
	capi)
		ldflags="-X sigs.k8s.io/cluster-api/version.gitVersion=$(pinned capi sigs.k8s.io/cluster-api)"
		build capi capi sigs.k8s.io/cluster-api
		build capi-dev capi sigs.k8s.io/cluster-api/test/infrastructure/docker
		;;
	workflows)
		ldflags="-X github.com/argoproj/argo-workflows/v4.version=$(pinned workflows github.com/argoproj/argo-workflows/v4)"
		build workflow-controller workflows github.com/argoproj/argo-workflows/v4/cmd/workflow-controller
		;;
	crossplane)
		ldflags="-X github.com/crossplane/crossplane/v2/internal/version.version=$(pinned crossplane github.com/crossplane/crossplane/v2)"
		build crossplane crossplane github.com/crossplane/crossplane/v2/cmd/crossplane
		ldflags=
		build function-patch-and-transform patch-and-transform github.com/crossplane-contrib/function-patch-and-transform
		build function-auto-ready crossplane github.com/crossplane/function-auto-ready
		build crossplane-trace crossplane ./trace
		;;
	keda)
		ldflags="-X github.com/kedacore/keda/v2/version.Version=$(pinned keda github.com/kedacore/keda/v2)"
		build keda keda github.com/kedacore/keda/v2/cmd/operator
		;;
	*)
		echo "hack/build-tools.sh: no tool is called $name" >&2
		exit 2
		;;
	esac
done
