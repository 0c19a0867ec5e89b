# Read by e2e/build.sh and e2e/node/build.sh: what both compile has the same flags, so
# that it is compiled once. Sets the arguments to flags of "go build".
# shellcheck shell=sh

export CGO_ENABLED=0
# The modules are built as pinned, whatever workspace or flags surround them.
export GOWORK=off
# Flags that change what is compiled are those of the Makefile.
export GOFLAGS='-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false'

# What nothing else here compiles and no request spends its time in is not
# optimised: that would take a quarter longer.
set --
for packages in k8s.io/kubernetes k8s.io/kubectl k8s.io/client-go/informers k8s.io/client-go/listers sigs.k8s.io/kustomize; do
	set -- "$@" "-gcflags=$packages/...=-N -l -dwarf=false"
done
version=k8s.io/component-base/version
ldflags="-s -w -X $version.gitVersion=v1.37.1 -X $version.gitMajor=1 -X $version.gitMinor=37 -X $version.gitTreeState=clean"
