package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ServiceRange is where Services get their addresses: inside 127.0.0.0/8, so
// that no call to a Service can ever leave the machine.
const ServiceRange = "127.10.0.0/24"

// controllers are those that tests need: ownership, namespaces, endpoints and
// workloads. They go by these names, and an unknown one is fatal.
var controllers = []string{
	"endpoints-controller",
	"endpointslice-controller",
	"serviceaccount-controller",
	"namespace-controller",
	"garbage-collector-controller",
	"root-ca-certificate-publisher-controller",
	"deployment-controller",
	"replicaset-controller",
	"validatingadmissionpolicy-status-controller",
}

// unread are the API server's largest series that nothing here reads: more than
// half of what it would have to write at each scrape, every second.
var unread = []string{
	"apiserver_request_body_size_bytes",
	"apiserver_response_sizes",
	"apiserver_watch_cache_initialization_duration_seconds",
	"apiserver_watch_cache_read_wait_seconds",
	"apiserver_watch_events_dispatch_duration_seconds",
	"apiserver_watch_events_sizes",
	"apiserver_watch_list_duration_seconds",
	"etcd_request_duration_seconds",
}

const etcdSocket = "etcd.sock"

// Store is where etcd listens: a socket in a folder that is ours alone, so that
// no other etcd is mistaken for ours, and no other program writes to it.
func (c *ControlPlane) Store() string { return c.folder.path(etcdSocket) }

func (c *ControlPlane) store() string { return "unix://" + c.Store() }

func (c *ControlPlane) etcdFlags() []string {
	return flags(map[string]string{
		"data-dir":              c.folder.path(etcdData),
		"listen-client-urls":    c.store(),
		"advertise-client-urls": c.store(),
		"listen-peer-urls":      "http://127.0.0.1:0", // a single member has no peers
		"unsafe-no-fsync":       "true",               // the data is kept as long as the process runs
		"log-level":             "warn",
	})
}

func (c *ControlPlane) apiServerFlags(port int) []string {
	f := flags(map[string]string{
		"etcd-servers": c.store(),

		"bind-address":             "127.0.0.1",
		"advertise-address":        "127.0.0.1",
		"endpoint-reconciler-type": "none", // or a loopback advertise-address is fatal
		"secure-port":              fmt.Sprint(port),
		"authorization-mode":       "RBAC",

		"service-cluster-ip-range":  ServiceRange,
		"enable-aggregator-routing": "true", // OpenShift has it, and it alone notices missing endpoints
		"allow-privileged":          "true",
		"disabled-metrics":          strings.Join(unread, ","),
		// Without it, watches keep the server from stopping for a minute.
		"shutdown-watch-termination-grace-period": "1s",
		// Pods need no service account here; nothing runs them.
		"disable-admission-plugins": "ServiceAccount",
	})
	return slices.Concat(f, Trust(string(c.folder)), c.options.APIServerFlags)
}

func (c *ControlPlane) controllerFlags() []string {
	run := controllers
	if len(c.options.Controllers) > 0 {
		run = c.options.Controllers
	}
	return flags(map[string]string{
		"kubeconfig":                       c.kubeconfig,
		"controllers":                      strings.Join(run, ","),
		"leader-elect":                     "false",
		"bind-address":                     "127.0.0.1",
		"secure-port":                      fmt.Sprint(c.ports.controllers),
		"client-ca-file":                   c.folder.path("ca.crt"),
		"tls-cert-file":                    c.folder.path("serving.crt"),
		"tls-private-key-file":             c.folder.path("serving.key"),
		"root-ca-file":                     c.folder.path("ca.crt"),
		"service-account-private-key-file": c.folder.path("service-account.key"),
	})
}

// flags writes a command line in a stable order.
func flags(values map[string]string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, "--"+name+"="+values[name])
	}
	return out
}
