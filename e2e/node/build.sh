#!/bin/sh
# Builds what the nodes run, into e2e/bin: kubelet, kube-proxy and kube-scheduler, one
# binary; CoreDNS; the program of the tests' Pods. First it installs
# the Debian packages that are missing, where apt-get and root are. "build.sh able" does
# no more than that, and fails where nodes cannot be; "build.sh software" alone builds
# webhooks of others.
# The control plane is built first, by e2e/build.sh: two thirds of the packages are its.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../bin
wanted=${1:-}

missing() {
	for pair in containerd:containerd runc:runc iptables:iptables conntrack:conntrack nft:nftables ip:iproute2 nsenter:util-linux sysctl:procps; do
		command -v "${pair%%:*}" >/dev/null || printf '%s ' "${pair#*:}"
	done
	[ -e /usr/lib/cni/ptp ] || [ -e /opt/cni/bin/ptp ] || printf 'containernetworking-plugins '
}

# install installs the packages that are missing, where it can.
install() {
	lacks=$(missing)
	[ -n "$lacks" ] || return 0
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		# shellcheck disable=SC2086 # several packages
		timeout 300 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 300 apt-get install -qq -y --no-install-recommends $lacks >/dev/null && return
	fi
	echo "nodes need these packages, which root can install: $lacks" >&2
	return 1
}

# try makes, in namespaces that end with it, a little of each thing that nodes are made of.
try() {
	case "$1:$here" in /var/* | /run/* | *:/var/* | *:/run/*) echo "nodes have a /var and a /run of their own: have TMPDIR and the repository elsewhere" && return 1 ;; esac
	groups=/sys/fs/cgroup
	if [ -d $groups/memory ]; then
		groups=$groups/memory
	elif ! grep -qs memory $groups/cgroup.subtree_control; then
		echo "no controller for memory in $groups/cgroup.subtree_control" && return 1
	fi
	mkdir "$groups/nodes-try-$$" && rmdir "$groups/nodes-try-$$" || return
	unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc sh -ec '
		mount --make-rprivate /
		mount -t tmpfs tmpfs /run
		cd "$1" && mkdir lower upper work all
		mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work all
		ip link add nodes type bridge
		ip link add to-node type veth peer name eth0
		iptables -t nat -A OUTPUT -j ACCEPT
		nft add table ip nodes' try "$1"
}

# able says in one line why there can be no nodes on this machine, where so.
able() {
	folder=$(mktemp -d)
	if reason=$( (install && try "$folder") 2>&1); then able=0; else able=1; fi
	rm -rf "$folder"
	[ $able = 0 ] || printf 'real nodes were not tried: %s\n' "$(printf %s "$reason" | tail -n 1)"
	return $able
}

if [ "$wanted" = able ]; then
	able
	exit
fi
install

"$here/../build.sh"
. "$here/../flags.sh"

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

# image packs the binary $1, static, as an image of that name, as "docker save" does.
image() {
	[ ! "$bin/$1.tar" -nt "$bin/$1" ] || return 0
	folder=$(mktemp -d)
	tar -C "$bin" --owner=0 --group=0 --mode=755 -cf "$folder/layer.tar" "$1"
	printf '{"os": "linux", "architecture": "%s", "config": {"User": "65532:65532", "Entrypoint": ["/%s"]}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%s"]}}' \
		"$(go env GOARCH)" "$1" "$(sha256sum "$folder/layer.tar" | cut -d' ' -f1)" >"$folder/config.json"
	printf '[{"Config": "config.json", "RepoTags": ["docker.io/library/%s:1"], "Layers": ["layer.tar"]}]' "$1" >"$folder/manifest.json"
	tar -C "$folder" -cf "$bin/$1.tar.$$" config.json layer.tar manifest.json
	mv "$bin/$1.tar.$$" "$bin/$1.tar"
	rm -rf "$folder"
}

build nodebox kube . "$@"
for name in kubelet kube-proxy kube-scheduler; do
	ln -sf nodebox "$bin/$name"
done
build coredns dns .
(cd "$here/.." && nice -n 5 go build -ldflags='-s -w' -o "$bin/fixture" ./node/fixture)
image coredns
image fixture
if [ "$wanted" = software ]; then
	build admission-webhook prometheus-operator github.com/prometheus-operator/prometheus-operator/cmd/admission-webhook
	build manager gatekeeper github.com/open-policy-agent/gatekeeper/v3
	image admission-webhook
	image manager
fi
# As programs.Helm builds it, for there is no way out from where the tests run.
(cd "$here/../helm" && GOFLAGS='' nice -n 5 go build -ldflags='-s -w' -o "$bin/helm4" helm.sh/helm/v4/cmd/helm)
