#!/bin/sh
# Builds the monitoring stack that the end-to-end tests and the demo run
# against: prometheus and promtool, alertmanager and amtool, from Go modules.
# Needs Go and a network or a filled module cache; no C compiler, no root.
# Does nothing when e2e/bin is up to date with the pins, the flags and Go.
# "build.sh promtool" builds promtool alone, which is all that rule tests need.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin
wanted=${1:-all}

export CGO_ENABLED=0
# The modules are built as pinned, whatever workspace or flags surround them.
export GOWORK=off
# Flags that change what is compiled are those of the Makefile, so that packages
# that are the same are compiled once.
export GOFLAGS='-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false'

# Without the clouds' service discoveries: static and file discovery are left.
tags=remove_all_sd
version=github.com/prometheus/common/version
prometheus=github.com/prometheus/prometheus/cmd
# 0.31.1 is the newest Alertmanager that carries its web pages in its module.
alertmanager=github.com/prometheus/alertmanager/cmd

digest() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

# pins prints all that the binaries of the module in folder $1 depend on.
pins() {
	go version
	printf '%s\n' "$tags" "$GOFLAGS"
	cat "$1/go.mod" "$1/go.sum" "$here/build.sh"
}

# build makes the binary $1 of version $2 from package $4 of the module in
# folder $3, in about the time $5.
build() {
	stamp=$(pins "$3" | digest | cut -d' ' -f1)
	if [ -x "$bin/$1" ] && [ "$(cat "$bin/.stamp-$1" 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	echo "building $1 from source; first time only, ${5:-a minute or two}…" >&2
	mkdir -p "$bin"
	rm -f "$bin/.stamp-$1"
	started=$(date +%s)
	(cd "$3" && nice -n 5 go build -tags "$tags" \
		-ldflags "-s -w -X $version.Version=$2" -o "$bin/$1.$$" "$4")
	mv "$bin/$1.$$" "$bin/$1"
	echo "$stamp" >"$bin/.stamp-$1"
	printf 'built %s in %d seconds\n' "$1" "$(($(date +%s) - started))" >&2
}

build promtool 3.15.0 "$here" "$prometheus/promtool"
[ "$wanted" = promtool ] && exit 0
build prometheus 3.15.0 "$here" "$prometheus/prometheus"
build alertmanager 0.31.1 "$here/alertmanager" "$alertmanager/alertmanager"
build amtool 0.31.1 "$here/alertmanager" "$alertmanager/amtool"
