package nodes

import (
	"maps"

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
	err = cluster.Credentials(c.path("pki", ""), authority, "kubernetes.default.svc.cluster.local", kubernetesService, c.Control().Address())
	if err != nil {
		return err
	}
	kubelets, err := authority.Client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	err = write(map[string]string{c.path("pki", "kubelets.crt"): string(kubelets.Certificate), c.path("pki", "kubelets.key"): string(kubelets.Key)})
	if err != nil {
		return err
	}
	all := maps.Clone(users)
	for _, n := range c.Nodes {
		all[n.Name+".conf"] = []string{"system:node:" + n.Name, "system:nodes"}
	}
	for file, user := range all {
		config, err := cluster.ConfigOf("https://"+c.Control().Address()+":6443", authority, user[0], user[1:]...)
		if err != nil {
			return err
		}
		if err := cluster.WriteKubeconfig(c.path("pki", file), config); err != nil {
			return err
		}
		if file == "super-admin.conf" {
			c.admin = config
		}
	}
	return nil
}
