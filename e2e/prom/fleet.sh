#!/bin/sh
# Builds what "make e2e-fleet" alone needs, from Go modules: Thanos, and the tool with which
# Mimir reads rules. Does nothing when e2e/bin is up to date with the pins, the flags and Go.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin
export CGO_ENABLED=0 GOWORK=off
export GOFLAGS='-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false'

digest() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

# build makes the binary $1 of the tool in the module in folder $1, with tags $2.
build() {
	stamp=$( (go version; cat "$here/$1/go.mod" "$here/$1/go.sum" "$here/fleet.sh") | digest | cut -d' ' -f1)
	if [ -x "$bin/$1" ] && [ "$(cat "$bin/.stamp-$1" 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	echo "building $1 from source; first time only, ten minutes…" >&2
	mkdir -p "$bin"
	(cd "$here/$1" && nice -n 5 go build -tags "$2" -ldflags '-s -w' -o "$bin/$1.$$" "$(go list tool)")
	mv "$bin/$1.$$" "$bin/$1"
	echo "$stamp" >"$bin/.stamp-$1"
}

build thanos slicelabels
build mimirtool ''
