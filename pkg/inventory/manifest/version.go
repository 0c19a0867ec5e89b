package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// server is the version of the API server as one object states it.
type server struct {
	// trust orders the sources: the API server's own answer counts most.
	trust   int
	version inventory.Version
}

// The sources of a version, the least trusted first.
const (
	fromKubelet = iota + 1
	fromOpenShift
	fromOperator
	fromServer
)

func (s server) isKnown() bool { return s.version.Known() }

// better reports whether s is more reliable than o. Of the kubelets the newest
// counts: none is newer than its API server.
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
// version prints of it.
func readVersion(data []byte) server {
	var v struct {
		GitVersion    string `json:"gitVersion"`
		ServerVersion struct {
			GitVersion string `json:"gitVersion"`
		} `json:"serverVersion"`
	}
	// What is no version says nothing of the server.
	_ = json.Unmarshal(data, &v)
	return newServer(fromServer, cmp.Or(v.ServerVersion.GitVersion, v.GitVersion))
}

type clusterStatus struct {
	metav1.ObjectMeta `json:"metadata"`

	Status struct {
		Versions []struct {
			Name    string `json:"name"`
			Version string `json:"version"`
		} `json:"versions"`
		Desired struct {
			Version string `json:"version"`
		} `json:"desired"`
		History []struct {
			State   string `json:"state"`
			Version string `json:"version"`
		} `json:"history"`
	} `json:"status"`
}

// server returns the version that the operator of kube-apiserver reports of its
// operand, or the newest release of OpenShift that was rolled out completely.
func (c *clusterStatus) server() server {
	for _, v := range c.Status.Versions {
		if c.Name == "kube-apiserver" && v.Name == "kube-apiserver" {
			return newServer(fromOperator, v.Version)
		}
	}
	for _, h := range c.Status.History {
		if h.State == "Completed" {
			return openShift(h.Version)
		}
	}
	return openShift(c.Status.Desired.Version)
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
