#!/bin/sh
# Builds what the nodes run, into e2e/bin: kubelet, kube-proxy and kube-scheduler, one
# binary; CoreDNS; the program of the tests' Pods; webhooks of others. First it installs
# the Debian packages that are missing, where apt-get and root are.
# The control plane is built first, by e2e/build.sh: two thirds of the packages are its.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin

missing() {
	for pair in containerd:containerd runc:runc iptables:iptables conntrack:conntrack nft:nftables ip:iproute2 nsenter:util-linux sysctl:procps; do
		command -v "${pair%%:*}" >/dev/null || printf '%s ' "${pair#*:}"
	done
	[ -e /usr/lib/cni/ptp ] || [ -e /opt/cni/bin/ptp ] || printf 'containernetworking-plugins '
}
lacks=$(missing)
if [ -n "$lacks" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	apt-get update -qq
	# shellcheck disable=SC2086 # several packages
	DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $lacks >/dev/null
elif [ -n "$lacks" ]; then
	echo "nodes need these packages, which root can install: $lacks" >&2
	exit 1
fi

"$here/../build.sh"

export CGO_ENABLED=0 GOWORK=off
# As in e2e/build.sh, so that what that has compiled is not compiled again.
export GOFLAGS='-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false'
set --
for packages in k8s.io/kubernetes k8s.io/kubectl k8s.io/client-go/informers k8s.io/client-go/listers sigs.k8s.io/kustomize; do
	set -- "$@" "-gcflags=$packages/...=-N -l -dwarf=false"
done
version=k8s.io/component-base/version
ldflags="-s -w -X $version.gitVersion=v1.37.1 -X $version.gitMajor=1 -X $version.gitMinor=37 -X $version.gitTreeState=clean"

# build makes the binary $1 from package $3 of the module in folder $2, unless it is up to
# date. Further arguments are flags.
build() {
	name=$1 module=$2 package=$3
	shift 3
	stamp=$( (go version; echo "$GOFLAGS" "$@" "$ldflags"; cat "$here/$module"/go.mod "$here/$module"/go.sum "$here/$module"/*.go 2>/dev/null) | sha256sum | cut -d' ' -f1)
	if [ -x "$bin/$name" ] && [ "$(cat "$bin/.stamp-$name" 2>/dev/null)" = "$stamp" ]; then
		return
	fi
	echo "building $name from source; first time only, minutes…" >&2
	rm -f "$bin/.stamp-$name"
	started=$(date +%s)
	(cd "$here/$module" && nice -n 5 go build "$@" -ldflags="$ldflags" -o "$bin/$name.$$" "$package")
	mv "$bin/$name.$$" "$bin/$name"
	echo "$stamp" >"$bin/.stamp-$name"
	printf 'built %s in %d seconds\n' "$name" "$(($(date +%s) - started))" >&2
}

build nodebox kube . "$@"
for name in kubelet kube-proxy kube-scheduler; do
	ln -sf nodebox "$bin/$name"
done
build coredns dns .
build admission-webhook prometheus-operator github.com/prometheus-operator/prometheus-operator/cmd/admission-webhook
(cd "$here/.." && nice -n 5 go build -ldflags='-s -w' -o "$bin/fixture" ./node/fixture)
# As programs.Helm builds it, for there is no way out from where the tests run.
(cd "$here/../helm" && GOFLAGS='' nice -n 5 go build -ldflags='-s -w' -o "$bin/helm4" helm.sh/helm/v4/cmd/helm)
