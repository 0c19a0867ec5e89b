package cluster

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
)

// As is a client configuration for a user of the given groups, who may do what
// RBAC lets them; the group system:masters may do everything.
func (c *ControlPlane) As(user string, groups ...string) (*rest.Config, error) {
	return ConfigOf(fmt.Sprintf("https://127.0.0.1:%d", c.ports.apiServer), c.users, user, groups...)
}

// ConfigOf is a client configuration for a user whom the authority of an API server names.
func ConfigOf(host string, users *ca.Authority, user string, groups ...string) (*rest.Config, error) {
	pair, err := users.Client(user, groups...)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:               host,
		TLSClientConfig:    rest.TLSClientConfig{CAData: users.Bundle, CertData: pair.Certificate, KeyData: pair.Key},
		DisableCompression: true, // which pays on a network
		// Tests wait for answers, not for a client-side rate limit.
		QPS: -1,
		// Who wants the warnings, of dead rules for example, sets a handler.
		WarningHandler: rest.NoWarnings{},
	}, nil
}

// WriteKubeconfig writes a kubeconfig file with a single context.
func WriteKubeconfig(path string, config *rest.Config) error {
	const name = "e2e"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   config.Host,
		CertificateAuthorityData: config.CAData,
	}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
	}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	file.CurrentContext = name
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("writing kubeconfig: %w", err)
	}
	return nil
}
