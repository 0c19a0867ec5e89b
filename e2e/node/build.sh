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

groups=/sys/fs/cgroup

# controllers says which control groups the kubelet and runc want and do not find.
controllers() {
	if [ -e $groups/cgroup.controllers ]; then
		for name in cpu cpuset memory pids; do
			grep -qsw "$name" $groups/cgroup.subtree_control || echo "no controller for $name in $groups/cgroup.subtree_control"
		done
	else
		for name in cpu cpuacct cpuset memory pids devices freezer; do
			[ -e "$groups/$name/cgroup.procs" ] || echo "no control groups for $name are mounted in $groups" # the folder may be there
		done
	fi
}

# try makes, in namespaces that end with it, a little of each thing that nodes are made of.
try() {
	case "$1:$here" in /var/* | /run/* | *:/var/* | *:/run/*) echo "nodes have a /var and a /run of their own: have TMPDIR and the repository elsewhere" && return 1 ;; esac
	controllers | grep . && return 1
	[ ! -d $groups/memory ] || groups=$groups/memory
	mkdir "$groups/nodes-try-$$" && rmdir "$groups/nodes-try-$$" || return
	grep -q '^Seccomp:' /proc/self/status || { echo "the kernel has no seccomp" && return 1; }
	unshare --mount --net --pid --uts --ipc --fork --kill-child --mount-proc sh -ec '
		mount --make-rprivate /
		mount -t tmpfs tmpfs /run
		cd "$1" && mkdir lower upper work all
		mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work all
		for name in vm/overcommit_memory kernel/panic kernel/keys/root_maxkeys; do mount --bind "$1/own" /proc/sys/$name; done
		sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1
		ip link add nodes type bridge
		ip link add to-node type veth peer name eth0
		# What kube-proxy writes.
		iptables -t nat -A POSTROUTING -m comment --comment try -m mark --mark 0x4000/0x4000 -m statistic --mode random --probability 0.5 -j MASQUERADE --random-fully
		iptables -t nat -A OUTPUT -m addrtype --dst-type LOCAL -p tcp -m tcp --dport 1 -j DNAT --to-destination 127.0.0.1:1
		iptables -A OUTPUT -m conntrack --ctstate NEW -j REJECT
		nft add table ip nodes' try "$1"
}

# able says in one line why there can be no nodes on this machine, where so.
able() {
	folder=$(mktemp -d)
	trap 'rm -rf "$folder"' EXIT
	trap 'exit 1' INT TERM
	touch "$folder/own"
	if reason=$( (install && try "$folder") 2>&1); then return 0; fi
	printf 'real nodes were not tried: %s\n' "$(printf %s "$reason" | tail -n 1)"
	return 1
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
	build kueue kueue sigs.k8s.io/kueue/cmd/kueue
	image admission-webhook
	image kueue
	image manager
fi
# As programs.Helm builds it, for there is no way out from where the tests run.
(cd "$here/../helm" && GOFLAGS='' nice -n 5 go build -ldflags='-s -w' -o "$bin/helm4" helm.sh/helm/v4/cmd/helm)
