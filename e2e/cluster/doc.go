// Package cluster runs a real Kubernetes control plane on the loopback
// interface: etcd, kube-apiserver and, unless told otherwise,
// kube-controller-manager, with fresh certificates, for tests and for the demo.
package cluster
