# Sourced by build-k8s.sh and build-tools.sh, which set dir: one binary from a nested module.
# Each is rebuilt only when the module that pins it, the toolchain or one of the scripts changes.
hack=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export GOWORK=off CGO_ENABLED=0 GOFLAGS="${GOFLAGS:-} -mod=readonly -buildvcs=false"
ldflags=

# pinned MODULE PATH: the version of a dependency that a nested module pins.
pinned() {
	awk -v path="$2" '$1 == path { print $2; exit }' "$hack/$1/go.mod"
}

# build NAME MODULE PACKAGE: one binary and the line that says so.
build() {
	local name=$1 module=$2 package=$3 stamp start
	stamp=$(cat "$hack/$module"/go.* "$hack/build.sh" "$0" <(go env GOVERSION GOOS GOARCH) | cksum)
	if [[ -x $dir/$name && $(cat "$dir/.$name.stamp" 2>/dev/null) == "$stamp" ]]; then
		return
	fi
	printf 'building %-24s ' "$name"
	start=$SECONDS
	(cd "$hack/$module" && go build -trimpath -ldflags "-s -w $ldflags" -o "$dir/$name" "$package") \
		2> >(grep -v '^go: downloading ' >&2)
	echo "$stamp" >"$dir/.$name.stamp"
	printf '%4ds\n' $((SECONDS - start))
}
