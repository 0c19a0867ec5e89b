package manifest

import (
	"fmt"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// server is what an object tells of the API server's version.
type server struct {
	// trust orders the sources: the API server's own word counts most.
	trust   int
	version inventory.Version
}

// Where a version comes from, the least trusted first.
const (
	fromKubelet = iota + 1
	fromOpenShift
	fromOperator
	fromServer
)

// known reports whether the object told a version at all.
func (s server) known() bool { return s.version.Known() }

// better reports whether s is to be believed rather than o. Of the kubelets
// the newest counts: none is newer than its API server.
func (s server) better(o server) bool {
	if s.trust != o.trust {
		return s.trust > o.trust
	}
	return s.trust == fromKubelet && s.version.AtLeast(o.version.Major, o.version.Minor)
}

func newServer(trust int, version string) server {
	v, err := inventory.ParseVersion(version)
	if err != nil {
		return server{}
	}
	return server{trust: trust, version: v}
}

// readVersion reads what the API server answers to /version, or what kubectl
// version makes of it.
func readVersion(n *node) server {
	if s := n.get("serverVersion"); s != nil {
		n = s
	}
	return newServer(fromServer, n.str("gitVersion"))
}

func readNode(_ *decoder, n *node, _ typeMeta) (any, *problem) {
	return newServer(fromKubelet, n.str("status", "nodeInfo", "kubeletVersion")), nil
}

// readClusterOperator reads the version that the operator of kube-apiserver
// reports of its operand.
func readClusterOperator(_ *decoder, n *node, _ typeMeta) (any, *problem) {
	versions := n.get("status").get("versions")
	if n.str("metadata", "name") != "kube-apiserver" || versions == nil {
		return server{}, nil
	}
	for i := range versions.items {
		if versions.items[i].str("name") == "kube-apiserver" {
			return newServer(fromOperator, versions.items[i].str("version")), nil
		}
	}
	return server{}, nil
}

// readClusterVersion reads the newest version that was rolled out completely.
func readClusterVersion(_ *decoder, n *node, _ typeMeta) (any, *problem) {
	history := n.get("status").get("history")
	if history == nil {
		return openShift(n.str("status", "desired", "version")), nil
	}
	for i := range history.items {
		if history.items[i].str("state") == "Completed" {
			return openShift(history.items[i].str("version")), nil
		}
	}
	return openShift(n.str("status", "desired", "version")), nil
}

// openShift maps a version of OpenShift 4 to the Kubernetes in it: each minor
// release rebased by one since 4.3 on 1.16.
func openShift(version string) server {
	v, err := inventory.ParseVersion(version)
	if err != nil || v.Major != 4 || v.Minor < 3 {
		return server{}
	}
	return newServer(fromOpenShift, fmt.Sprintf("v1.%d", v.Minor+13))
}
