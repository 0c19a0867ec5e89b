#!/bin/sh
# found.sh BIN: the servers that "make demo-live" runs, in the folder BIN. It links those of
# $KUBEBUILDER_ASSETS and PATH where all of a kind are there in a version that fits, and builds
# the others. What the tests run is pinned: e2e/build.sh and e2e/prom/build.sh replace the links.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$1
. "$here/flags.sh"
minor=$(echo "$ldflags" | sed 's/.*gitVersion=v\([0-9]*\.[0-9]*\)\..*/\1/')

# path finds the program $1 whose answer to --version has the pattern $2.
path() {
	found=$(PATH="${KUBEBUILDER_ASSETS:-}:$PATH" command -v "$1") && "$found" --version 2>&1 | grep -q "$2" && echo "$found"
}

# link links the programs, given as "NAME PATTERN" each, if all are there.
link() {
	for program in "$@"; do
		path ${program} >/dev/null || return 1
	done
	mkdir -p "$bin"
	rm -f "$bin/.stamp" # the tests build theirs
	for program in "$@"; do
		name=${program%% *}
		rm -f "$bin/.stamp-$name"
		ln -sf "$(path ${program})" "$bin/$name"
		echo "using $(path ${program})" >&2
	done
}

if ! [ -e "$bin/.stamp" ]; then
	link "etcd Version:.3" "kube-apiserver v$minor" "kube-controller-manager v$minor" || "$here/build.sh"
fi
if ! [ -e "$bin/.stamp-prometheus" ]; then
	link "prometheus version.3" "alertmanager version.0" || "$here/prom/build.sh"
fi
