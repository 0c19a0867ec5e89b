package nodes

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
)

// users are who calls the API server, with their groups, by their kubeconfigs, as kubeadm
// has them.
var users = map[string][]string{
	"super-admin.conf":        {"kubernetes-super-admin", "system:masters"},
	"controller-manager.conf": {"system:kube-controller-manager"},
	"scheduler.conf":          {"system:kube-scheduler"},
	"kube-proxy.conf":         {"system:kube-proxy"},
}

// credentials writes certificates, keys and kubeconfigs.
func (c *Cluster) credentials() error {
	authority, err := ca.New("kubernetes")
	if err != nil {
		return err
	}
	proxies, err := ca.New("front-proxy-ca")
	if err != nil {
		return err
	}
	serving, err := authority.Serving("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"localhost", "127.0.0.1", kubernetesService, c.Control().Address())
	if err != nil {
		return err
	}
	front, err := proxies.Client("front-proxy-client")
	if err != nil {
		return err
	}
	kubelets, err := authority.Client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"ca.crt": authority.Bundle, "front-proxy-ca.crt": proxies.Bundle,
		"apiserver.crt": serving.Certificate, "apiserver.key": serving.Key,
		"front-proxy.crt": front.Certificate, "front-proxy.key": front.Key,
		"kubelets.crt": kubelets.Certificate, "kubelets.key": kubelets.Key,
		// Any key pair signs the tokens of service accounts: a second use of one.
		"sa.crt": front.Certificate, "sa.key": front.Key,
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(c.path("pki", name), files[name], 0o600); err != nil {
			return fmt.Errorf("writing credentials: %w", err)
		}
	}
	return c.kubeconfigs(authority)
}

func (c *Cluster) kubeconfigs(authority *ca.Authority) error {
	all := maps.Clone(users)
	for _, n := range c.Nodes {
		all[n.Name+".conf"] = []string{"system:node:" + n.Name, "system:nodes"}
	}
	for name, user := range all {
		if err := c.kubeconfig(authority, name, user[0], user[1:]...); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) kubeconfig(authority *ca.Authority, file, user string, groups ...string) error {
	pair, err := authority.Client(user, groups...)
	if err != nil {
		return err
	}
	config := &rest.Config{
		Host: "https://" + c.Control().Address() + ":6443",
		TLSClientConfig: rest.TLSClientConfig{
			CAData: authority.Bundle, CertData: pair.Certificate, KeyData: pair.Key,
		},
		QPS: -1, WarningHandler: rest.NoWarnings{},
	}
	if file == "super-admin.conf" {
		c.admin = config
	}
	return cluster.WriteKubeconfig(c.path("pki", file), config)
}
