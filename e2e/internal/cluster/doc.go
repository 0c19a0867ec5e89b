// Package cluster runs a real Kubernetes control plane, for tests and for the
// demo: kube-apiserver and, unless turned off, kube-controller-manager on the
// loopback interface with fresh certificates, and etcd behind a socket.
package cluster
