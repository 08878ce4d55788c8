# make lists the targets. Only Go, git and make are needed; every other tool is built from
# Go modules into bin/, once.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
ifndef BESIDE
.NOTPARALLEL:
endif
.SUFFIXES:

IMG ?=
TESTFLAGS ?=
CONTAINER_TOOL ?= docker
DIST ?= dist
KUBECTL ?= $(or $(wildcard bin/k8s/kubectl),$(shell command -v kubectl))

# $(call need,VARIABLE,example): stop with a clear error when a variable is not set.
need = $(if $($(1)),,$(error set $(1), for instance: make $(MAKECMDGOALS) $(1)=$(2)))
kubectl = $(or $(KUBECTL),$(error no kubectl: make k8s builds bin/k8s/kubectl, or set KUBECTL))
apply = $(kubectl) apply --server-side --force-conflicts --field-manager=labkeeper-install

.PHONY: help
help: ## List the targets.
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

##@ Try it

.PHONY: demo
demo: k8s build ## Watch Experiments run on a local control plane; CHECK=1 exits with a verdict, SAMPLES=all applies all samples.
	@go build -buildvcs=false -o bin/demo ./test/demo
	@bin/demo $(if $(filter-out 0,$(CHECK)),-check) $(if $(filter all,$(SAMPLES)),-samples=config/samples:config/observability/components.yaml:config/samples/more:config/samples/twins:config/samples/hibernation/night.yaml)

##@ Develop

.PHONY: build
build: ## Build the manager: bin/manager.
	@go build -buildvcs=false -trimpath -o bin/manager ./cmd

# The linker, the tests and the API servers that those start collect less garbage: that is a tenth of their time.
test test-packages test-integration test-faults test-long sweep sweep-full sweep-mutants: export GOGC ?= 400

.PHONY: test test-packages test-integration test-faults
test: k8s kustomize helm prometheus ## Run all tests; TESTFLAGS are passed on to go test.
	@TIMEFORMAT='make test: %0R s'; time (failed=0; \
		$(MAKE) --no-print-directory -j2 BESIDE=1 test-integration test-packages || failed=1; \
		$(MAKE) --no-print-directory test-faults || failed=1; \
		exit $$failed)

# What starts programs, by test/env, is played whether that has been done or not: go test does not know what those are made of. What
# takes long of that (TestLengthy…) is left to test-long.
# (A list that fails, fails the assignment; of an argument nobody asks how it came about.)
test-packages:
	@tested=$$(go list -test -f '{{if eq .Name "main"}}{{.ImportPath}} {{join .Deps " "}}{{end}}' ./... | grep -vE '^[^ ]*/test/(integration|faults)\b'); \
	starts=$$(sed -nE '/\/test\/env( |$$)/s/\.test .*//p' <<<"$$tested"); others=$$(sed -nE '/\/test\/env( |$$)/!s/\.test .*//p' <<<"$$tested"); \
	failed=0; go test -vet=off -p 2 $(TESTFLAGS) $$others || failed=1; go test -vet=off -count=1 -p 2 -skip '^TestLengthy' $(TESTFLAGS) $$starts || failed=1; exit $$failed

# What is held to the time that it took before is not played beside everything else. The toy waits for the most part: it goes first,
# so that it is not what the end is waited for.
test-faults:
	@go test -vet=off -count=1 -p 2 $(TESTFLAGS) ./test/faults/toy ./test/faults/...

# Specs wait for the most part: two processes go through them, each with a control plane and a manager of its own.
test-integration:
	@go tool ginkgo run -procs=2 -vet=off -no-color -timeout=25m -label-filter='!long' -fail-on-empty ./test/integration

.PHONY: test-long test-long-packages test-long-integration
test-long: k8s kustomize helm prometheus ## Play what takes long: days on which plans, exceptions, edits and twins meet, every write of a runner, the installer, outages.
	@$(MAKE) --no-print-directory -k -j2 BESIDE=1 test-long-integration test-long-packages

test-long-integration:
	@go tool ginkgo run -procs=2 -vet=off -no-color -timeout=25m -label-filter=long -fail-on-empty ./test/integration

test-long-packages:
	@go test -vet=off -count=1 -p 1 -run '^TestLengthy' $(TESTFLAGS) ./internal/executor/workloadscaler ./test/install ./test/load/scenario ./test/observability

.PHONY: test-rollouts
test-rollouts: k8s rollouts ## Run twins of Rollouts beside the controller of Argo Rollouts (which takes minutes to build, once).
	@go test -tags rollouts ./test/integration -count=1 -ginkgo.label-filter=rollouts -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: test-karpenter
test-karpenter: k8s karpenter ## Put NodePools of Karpenter itself to sleep and wake them.
	@go test -tags karpenter ./test/integration -count=1 -ginkgo.label-filter=karpenter -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: test-keda
test-keda: k8s keda ## Put workloads to sleep and wake them that KEDA itself scales (it takes minutes to build, once).
	@go test -tags keda ./test/integration -count=1 -ginkgo.label-filter=keda -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: test-argocd
test-argocd: k8s helm kustomize argocd ## Run Experiments that Argo CD itself deploys (it takes minutes to build, once).
	@go test -tags argocd ./test/integration -count=1 -timeout 20m -ginkgo.label-filter=argocd -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: test-capi
test-capi: k8s capi ## Run Experiments whose clusters Cluster API itself makes, on machines in memory (it takes minutes to build, once).
	@go test -tags capi ./test/integration -count=1 -timeout 20m -ginkgo.label-filter=capi -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: test-workflows
test-workflows: k8s workflows ## Run Experiments that Argo Workflows itself validates (it takes minutes to build, once).
	@go test -tags workflows ./test/integration -count=1 -timeout 20m -ginkgo.label-filter=workflows -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: test-crossplane
test-crossplane: k8s kustomize crossplane ## Run Experiments whose clusters Crossplane itself composes (it takes minutes to build, once).
	@go test -tags crossplane ./test/integration -count=1 -timeout 20m -ginkgo.label-filter=crossplane -ginkgo.fail-on-empty $(TESTFLAGS)

.PHONY: hibernate-crash
hibernate-crash: k8s ## Put 1,000 workloads to sleep and wake them while runners and managers are killed at random.
	@go test ./test/integration -count=1 -v -timeout 60m -run TestIntegration -ginkgo.v -ginkgo.label-filter=crash -ginkgo.fail-on-empty -hibernation.rounds=250 -hibernation.whole $(TESTFLAGS)

.PHONY: schedule
schedule: ## Compare schedules with an oracle that goes by the minute, in every time zone whose clocks change.
	@go test ./internal/schedule -count=1 -timeout 60m -run TestOracle -schedule.all $(TESTFLAGS)

.PHONY: moments
moments: ## End Experiments at every moment of every road, and hold what they have there.
	@go test ./internal/controller/experiment -count=1 -timeout 30m -run AtAnyMoment -moments.all $(TESTFLAGS)

.PHONY: lint
lint: golangci-lint ## Run golangci-lint (the nested modules under hack/ hold no code worth it).
	@bin/golangci-lint run ./...

.PHONY: fmt
fmt: golangci-lint ## Format the code and sort its imports.
	@bin/golangci-lint fmt ./...

.PHONY: generate
generate: controller-gen ## Write the deepcopy functions of api/.
	@bin/controller-gen object paths=./api/...

.PHONY: manifests
manifests: controller-gen ## Write the CRDs from api/ and the RBAC from the markers of internal/controller.
	@bin/controller-gen crd paths=./api/... output:crd:dir=config/crd/bases
	@bin/controller-gen rbac:roleName=labkeeper-manager paths=./internal/controller/... output:rbac:dir=config/rbac

generated := ':(glob)api/**/zz_generated.*.go' config/crd/bases config/rbac/role.yaml

.PHONY: verify
verify: generate manifests ## Regenerate everything and fail if that, go.mod or go vet shows a difference.
	@git --no-pager diff --exit-code -- $(generated) && [[ -z $$(git ls-files --others --exclude-standard -- $(generated)) ]] || \
		{ echo 'verify: generated files are out of date: run make generate manifests, and commit what changed' >&2; exit 1; }
	@go mod tidy -diff || { echo 'verify: go.mod or go.sum is out of date: run go mod tidy' >&2; exit 1; }
	@go vet ./... && go vet -tags mutants,rollouts,karpenter,keda,argocd,capi,workflows,crossplane ./test/faults/... ./test/integration || { echo 'verify: go vet found the above' >&2; exit 1; }

.PHONY: clean
clean: ## Remove everything that was built.
	@rm -rf bin dist

##@ Prove it

# The fault tests and the load tool build the manager themselves.
SWEEPFLAGS ?=
LOADFLAGS ?=

# What of the test/faults packages a target goes through: those in OF, or all.
swept = $(addprefix ./test/faults/,$(or $(OF),$(1)))

.PHONY: sweep
sweep: k8s ## Kill the manager after every write of every workload; OF=experiment plays those of one kind, SWEEPFLAGS are passed on.
	@go test $(call swept,...) -p 1 -count=1 -v -timeout 60m -run TestSweep -faults.full=C1 $(SWEEPFLAGS)

.PHONY: sweep-full
sweep-full: k8s ## Let every fault happen at every write of every workload; with SWEEPFLAGS=-faults.record=FILE it goes on where it ended.
	@go test $(call swept,...) -p 1 -count=1 -v -timeout 300m -run 'TestSweep|TestToy' -faults.full=all -faults.together=8 $(SWEEPFLAGS)

.PHONY: sweep-mutants
sweep-mutants: k8s ## Plant bugs in the manager and fail if the sweep does not find one of them; OF=experiment plays those of one kind.
	@go test -tags mutants ./test/faults -count=1 -run TestOverlay
	@go test -tags mutants $(call swept,experiment component experimentdeployment hibernateplan) -p 1 -count=1 -v -timeout 90m -run 'TestMutants$$' $(SWEEPFLAGS)

.PHONY: race
race: k8s ## Look for data races: in the unit tests, and in a manager that takes every road of every workload.
	@go test -race -vet=off -count=1 -p 2 -timeout 60m $(TESTFLAGS) ./api/... ./cmd/... ./internal/...
	@go build -race -tags faults -buildvcs=false -trimpath -o bin/manager-race ./cmd
	@go test $(call swept,experiment component experimentdeployment hibernateplan) -p 1 -count=1 -v -timeout 60m -run TestSweep \
		-faults.full=none -faults.manager=$(CURDIR)/bin/manager-race $(SWEEPFLAGS)

# What is interesting is made smaller for a minute by default, which is all the time that there is.
FUZZTIME ?= 1m
.PHONY: fuzz
fuzz: k8s ## Fuzz everything that has a fuzz test, each for FUZZTIME (1m); OF=FuzzResolve fuzzes one.
	@found=$$(grep -roE --include='*_test.go' '^func $(or $(OF),Fuzz\w+)\(' api cmd internal test | sed -E 's|^(.*)/[^/]*:func (.*)\(|./\1 \2|' | sort); \
		[[ -n $$found ]] || { echo 'fuzz: there is no fuzz test $(OF)' >&2; exit 1; }; \
		while read -r package fuzz; do echo "==> $$package $$fuzz"; go test "$$package" -run '^$$' -fuzz "^$$fuzz\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 100x </dev/null; done <<< "$$found"

.PHONY: merge-million
merge-million: ## Compare the merges of a million random overrides with those of evanphx/json-patch and of kubectl.
	@TIMEFORMAT='make merge-million: %0R s'; time go test ./internal/merge -count=1 -v -timeout 60m -run 'TestReplaceIsRFC7386|TestStrategicIsThatOfKubectl' -cases=1000000 -seed=0 $(TESTFLAGS)

.PHONY: privileges
privileges: ## Build twins of 100,000 random sources and overrides, and compare their privileges with those of the sources.
	@go test ./internal/twin -count=1 -timeout 60m -run 'TestNeverMorePrivileged|TestProperties' -cases=100000 -seed=0 $(TESTFLAGS)

.PHONY: load
load: k8s $(PEER) ## Measure: make load SCENARIO=experiment-burst N=1000 REPS=5; PEER=rollouts beside it; LOADFLAGS are passed on.
	@go build -buildvcs=false -o bin/load/load ./test/load
	@bin/load/load -scenario "$(SCENARIO)" $(if $(N),-n $(N)) $(if $(REPS),-reps $(REPS)) $(if $(PEER),-peer $(PEER)) $(LOADFLAGS)

##@ Install into a cluster (that of KUBECONFIG)

.PHONY: install
install: ## Install the CRDs.
	@$(apply) -f config/crd/bases

.PHONY: uninstall
uninstall: ## Remove the CRDs, unless there are objects of our kinds.
	@$(nothing-left)
	@$(kubectl) delete --ignore-not-found -f config/crd/bases

.PHONY: deploy
deploy: installer ## Install everything, with the manager's image IMG.
	@$(apply) -f bin/installer/install.yaml

.PHONY: undeploy
undeploy: kustomize ## Remove everything, unless there are objects of our kinds, or records of what they have left; OVERLAY=../lab has what yours adds and moves go, too.
	@$(nothing-left)
	@$(nothing-recorded)
	@$(kubectl) delete --ignore-not-found -f config/webhook/webhook.yaml -f config/grants
	@failed=0; for dir in $(OVERLAY) config/default; do bin/kustomize build $$dir | $(kubectl) delete --ignore-not-found --timeout=2m -f - || failed=1; done; exit $$failed

.PHONY: build-installer
build-installer: installer ## Write dist/install.yaml, which installs everything, with the image IMG.
	@mkdir -p $(DIST) && cp bin/installer/install.yaml $(DIST)/install.yaml && echo 'wrote $(DIST)/install.yaml'

.PHONY: docker-build
docker-build: ## Build the image IMG; CONTAINER_TOOL=podman builds it with another tool.
	$(call need,IMG,example/labkeeper:dev)
	@command -v $(CONTAINER_TOOL) >/dev/null || \
		{ echo 'docker-build: no $(CONTAINER_TOOL) on PATH: install it, or name another tool with CONTAINER_TOOL=podman' >&2; exit 1; }
	@$(CONTAINER_TOOL) build --tag $(IMG) .

# The default overlay with IMG, in an overlay of its own so that the tree stays as it is.
.PHONY: installer
installer: kustomize
	$(call need,IMG,example/labkeeper:dev)
	@rm -rf bin/installer && mkdir -p bin/installer
	@cd bin/installer && ../kustomize create --resources ../../config/default && ../kustomize edit set image controller=$(IMG)
	@bin/kustomize build bin/installer -o bin/installer/install.yaml

# Removing the CRDs removes all objects with them: Components for good, while Experiments would
# hang, with what they made outside, because their manager goes too, and what sleeps would never wake. (Listing a kind also waits
# for its storage: a CRD that is deleted before that can take minutes to go.)
define nothing-left
for kind in experiments.experiments.illm.io components.experiments.illm.io experimentdeployments.experimentcontroller.example.com \
	hibernateplans.hibernator.ardikabs.com scheduleexceptions.hibernator.ardikabs.com k8sclusters.hibernator.ardikabs.com cloudproviders.hibernator.ardikabs.com; do \
	crd=$$($(kubectl) get crd $$kind --ignore-not-found -o name); \
	[[ -n $$crd ]] || continue; \
	objects=$$($(kubectl) get $$kind -A -o name); \
	[[ -z $$objects ]] || { echo "$@: there are $${kind%%.*}; delete them first: kubectl delete $$kind -A --all" >&2; exit 1; }; \
done
endef

# The namespace takes along what its ConfigMaps tell: how to wake what plans have left asleep, and what Experiments could not take
# down, which costs. Both outlive their objects.
define nothing-recorded
for label in hibernator.ardikabs.com/restore-point experiments.illm.io/experiment; do \
	records=$$($(kubectl) get configmaps -A -l $$label -o name); \
	[[ -z $$records ]] || { echo "$@: there are records of what was left asleep or behind, which would be lost. What sleeps wakes when a plan of the same name and" \
		"namespace is created; otherwise see to it, take their finalizers off, and delete them first:" \
		"kubectl delete configmaps -A -l $$label" >&2; exit 1; }; \
done
endef

##@ Build the tools (done by the targets above; each is built once)

.PHONY: k8s
k8s: ## Build the local control plane into bin/k8s and fetch the foreign CRDs into bin/crds.
	@hack/build-k8s.sh bin/k8s
	@hack/crds.sh bin/crds

.PHONY: controller-gen kustomize golangci-lint helm prometheus rollouts karpenter keda argocd capi workflows crossplane
controller-gen kustomize golangci-lint helm prometheus rollouts karpenter keda argocd capi workflows crossplane:
	@hack/build-tools.sh bin $@
