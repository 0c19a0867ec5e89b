#!/bin/sh
# Builds the control plane that the end-to-end tests and the demo run against:
# etcd, kube-apiserver and kube-controller-manager, one binary, and kubectl, from
# Go modules.
# Needs Go and a network or a filled module cache; no C compiler, no root.
# Does nothing when e2e/bin is up to date with the pins, the flags and Go.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here" # the version of Go depends on the folder
bin=$here/bin
names='etcd kube-apiserver kube-controller-manager'

. "$here/flags.sh"

digest() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

pins() {
	go version
	printf '%s\n' "$GOFLAGS" "$@" "$ldflags" "$names"
	cat "$here/kube/go.mod" "$here/kube/go.sum" "$here/kube/main.go" "$here/kube/kubectl/main.go"
}

complete() {
	for name in $names kubectl; do
		[ -x "$bin/$name" ] || return 1
	done
}

# heartbeat says that process $1 still runs: on one line of a terminal, each minute in a log.
heartbeat() {
	every=60 start='' end='\n'
	if [ -t 2 ]; then every=1 start='\r' end=''; fi
	begun=$(date +%s)
	while kill -0 "$1" 2>/dev/null; do
		sleep 1
		elapsed=$(($(date +%s) - begun))
		if [ "$elapsed" -gt 0 ] && [ $((elapsed % every)) -eq 0 ]; then
			printf "$start  still building the control plane, %d seconds so far$end" "$elapsed" >&2
		fi
	done
	[ "$every" -gt 1 ] || echo >&2
}

stamp=$(pins "$@" | digest | cut -d' ' -f1)
if complete && [ "$(cat "$bin/.stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi

echo 'building etcd, kube-apiserver, kube-controller-manager and kubectl from source; first time only, five to twenty minutes…' >&2
mkdir -p "$bin"
rm -f "$bin/.stamp"
new=$bin/new.$$
started=$(date +%s)
(cd "$here/kube" && exec nice -n 5 go build "$@" -ldflags="$ldflags" -o "$new/" . ./kubectl) &
build=$!
trap 'kill "$build" 2>/dev/null || true' INT TERM
trap 'rm -rf "$new"' EXIT
heartbeat "$build"
wait "$build"
mv "$new/kube" "$bin/kubebox"
mv "$new/kubectl" "$bin/kubectl"
for name in $names; do
	ln -sf kubebox "$bin/$name"
done
echo "$stamp" >"$bin/.stamp"
printf 'built the control plane in %d seconds\n' "$(($(date +%s) - started))" >&2
