#!/bin/sh
# Builds kube-apiserver and kube-controller-manager of a release of Kubernetes that
# releases.tsv lists, from its modules, into e2e/bin/releases/RELEASE. etcd and kubectl
# there are those of e2e/build.sh, which also builds the newest release.
# Nothing is pinned here but the release: its own go.mod and go.sum pin the rest, and the
# checksum database its libraries.
# Does nothing when the programs are up to date with the release, the flags and Go.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "$here" # the version of Go depends on the folder
release=${1:?a release, as in e2e/matrix/releases.tsv: 1.31}
bin=$here/../bin/releases/$release

line=$(awk -v release="$release" '$1 == release' releases.tsv)
if [ -z "$line" ]; then
	echo "releases.tsv lists no release $release" >&2
	exit 1
fi
read -r _ version earlier <<END
$line
END

if grep -q "k8s.io/kubernetes $version\$" ../kube/go.mod; then
	exec ../build.sh # the one that all tests run in
fi

export CGO_ENABLED=0 GOWORK=off
# Not optimised, which takes a quarter less time, and the standard library is compiled
# once for all releases.
export GOFLAGS='-mod=mod -buildvcs=false -trimpath'
gcflags='all=-N -l -dwarf=false'
minor=${version#v1.}
package=k8s.io/component-base/version
ldflags="-s -w -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%.*} -X $package.gitTreeState=clean"

stamp="$(go version) $line $GOFLAGS $gcflags $ldflags"
if [ "$(cat "$bin/.stamp" 2>/dev/null)" = "$stamp" ]; then
	exit 0
fi

echo "building Kubernetes $version from source; first time only, three to ten minutes…" >&2
started=$(date +%s)
mkdir -p "$bin"
rm -f "$bin/.stamp"
for name in etcd kubectl; do
	ln -sf "../../$name" "$bin/$name"
done

# The release is the main module, as it is upstream, so that its settings of Go hold. Its
# libraries, which upstream replaces by folders, are the published ones.
source=$(cd / && GOFLAGS= go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')
sed -E -e '/ v0\.0\.0$/d' -e "s|=> \./staging/src/(.*)|=> \1 v0.$minor|" "$source/go.mod" >"$bin/go.mod"
cp "$source/go.sum" "$bin/go.sum"
chmod u+w "$bin/go.sum"
for pin in $earlier; do
	go mod edit -replace "k8s.io/${pin%=*}=k8s.io/${pin%=*}@${pin#*=}" "$bin/go.mod"
done
cd "$source"
log=$bin/build.log
nice -n 10 go build -modfile="$bin/go.mod" -gcflags="$gcflags" -ldflags="$ldflags" -o "$bin/" ./cmd/kube-apiserver ./cmd/kube-controller-manager >"$log" 2>&1 || {
	grep -v '^go: \(found\|downloading\) ' "$log" >&2
	exit 1
}
echo "$stamp" >"$bin/.stamp"
printf 'built Kubernetes %s in %d seconds\n' "$version" "$(($(date +%s) - started))" >&2
