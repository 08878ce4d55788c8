#!/usr/bin/env bash
# Prints the kubeconfig of the account that config/target-cluster has made: hack/target-kubeconfig.sh [CONTEXT]
# It has the address of the context, as you reach the cluster: the manager's pods must reach it by the same.
set -euo pipefail

kubectl=${KUBECTL:-kubectl}
context=${1:-}

target() { "$kubectl" ${context:+--context "$context"} "$@"; }
of() { target config view --raw --flatten --minify -o "jsonpath={.clusters[0].cluster.$1}"; }

for ((tries = 50; ; tries--)); do # the token is written a moment after its Secret
	token=$(target -n labkeeper-system get secret labkeeper-runner -o 'go-template={{with .data}}{{with .token}}{{. | base64decode}}{{end}}{{end}}')
	[[ -z $token ]] || break
	((tries)) || {
		echo 'hack/target-kubeconfig.sh: Secret labkeeper-system/labkeeper-runner gets no token; does kube-controller-manager run?' >&2
		exit 1
	}
	sleep 0.2
done

server=$(of server)
authority=$(of certificate-authority-data)
name=$(of tls-server-name)
proxy=$(of proxy-url)
cat <<EOF
apiVersion: v1
kind: Config
current-context: target
clusters:
- name: target
  cluster: {server: "$server"${authority:+, certificate-authority-data: "$authority"}${name:+, tls-server-name: "$name"}${proxy:+, proxy-url: "$proxy"}}
contexts:
- name: target
  context: {cluster: target, user: labkeeper-runner}
users:
- name: labkeeper-runner
  user: {token: "$token"}
EOF
