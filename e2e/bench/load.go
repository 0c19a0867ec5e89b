package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/ca"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
)

// profile is the size of a cluster.
type profile struct {
	Configurations, Hooks int // Hooks in each configuration
	Services, Namespaces  int // Services behind webhooks, in Namespaces
	CRDs, OtherNamespaces int
	// Converting of the CRDs have two versions and a conversion webhook.
	Converting int
	// Unrelated are Services with EndpointSlices that no webhook refers to: a
	// quarter of them in one namespace with Services of webhooks, the rest in all
	// of those namespaces alike.
	Unrelated int
	// Pods are spread over all namespaces. PodChanges of them change each second, for a minute.
	Pods, PodChanges int
}

var profiles = map[string]profile{
	"small":  {Configurations: 10, Hooks: 5, Services: 50, Namespaces: 50, CRDs: 10, OtherNamespaces: 50, Pods: 200},
	"medium": {Configurations: 100, Hooks: 5, Services: 100, Namespaces: 50, CRDs: 100, Converting: 30, OtherNamespaces: 500, Unrelated: 1900, Pods: 2000},
	"large":  {Configurations: 1000, Hooks: 5, Services: 500, Namespaces: 50, CRDs: 300, Converting: 85, OtherNamespaces: 4950, Pods: 5000},
	// Those of "medium", among ten times the Services.
	"services": {Configurations: 100, Hooks: 5, Services: 100, Namespaces: 50, CRDs: 100, Converting: 30, OtherNamespaces: 500, Unrelated: 19900, Pods: 2000},
	// Those of "medium", among the Pods of a large cluster.
	"pods": {Configurations: 100, Hooks: 5, Services: 100, Namespaces: 50, CRDs: 100, Converting: 30, OtherNamespaces: 1950, Unrelated: 1900, Pods: 50000, PodChanges: 20},
}

func profileNames() []string { return slices.Sorted(maps.Keys(profiles)) }

// filled is a control plane with the objects of a profile.
type filled struct {
	plane *cluster.ControlPlane
	size  profile
	kube  kubernetes.Interface
}

// writers is how many requests are under way while the cluster is filled.
const writers = 32

func fill(ctx context.Context, plane *cluster.ControlPlane, size profile) (*filled, error) {
	c := &filled{plane: plane, size: size}
	var err error
	if c.kube, err = kubernetes.NewForConfig(plane.Config()); err != nil {
		return nil, err
	}
	for _, part := range []struct {
		n      int
		create func(context.Context, int) error
	}{
		{size.Namespaces, func(ctx context.Context, i int) error { return c.createNamespace(ctx, hookNamespace(i)) }},
		{size.OtherNamespaces, func(ctx context.Context, i int) error { return c.createNamespace(ctx, fmt.Sprintf("other-%d", i)) }},
		{size.Services, c.createBackend},
		{size.Unrelated, c.createUnrelated},
		{size.Pods, c.createPod},
		{size.CRDs, c.createCRD},
		{size.Configurations, c.createConfiguration},
	} {
		if err := each(ctx, part.n, part.create); err != nil {
			return nil, fmt.Errorf("filling the cluster: %w", err)
		}
	}
	return c, c.rest(ctx)
}

// rest waits until the API server has taken in what it was given: it establishes
// CRDs one by one, and rebuilds its OpenAPI documents after each. After two minutes
// the measurement begins anyway.
func (c *filled) rest(ctx context.Context) error {
	const interval, idle = 3 * time.Second, 0.05 // share of a core
	server := c.plane.APIServer.PID()
	for range 40 {
		before := cpuSeconds(server)
		if err := sleep(ctx, interval); err != nil {
			return err
		}
		if cpuSeconds(server)-before < idle*interval.Seconds() {
			return nil
		}
	}
	return nil
}

func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

//go:embed objects.yaml
var objects string

// templates are objects by their resource.
var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"count": func(n int) []int { return make([]int, n) }, // whose indices are ranged over
}).Parse(objects))

// create posts the object of a resource to the path above it.
func (c *filled) create(ctx context.Context, above, resource string, manifest object) error {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, resource, manifest); err != nil {
		return err
	}
	return c.kube.Discovery().RESTClient().Post().AbsPath(above, resource).SetHeader("Content-Type", "application/yaml").Body(text.Bytes()).Do(ctx).Error()
}

// object is what templates say of an object.
type object = map[string]any

func hookNamespace(i int) string { return fmt.Sprintf("hooks-%d", i) }

// service is the namespace and the name of the i-th Service behind webhooks.
func (p profile) service(i int) (namespace, name string) {
	return hookNamespace(i % p.Namespaces), fmt.Sprintf("webhook-%d", i%p.Services/p.Namespaces)
}

func (c *filled) createNamespace(ctx context.Context, name string) error {
	return c.create(ctx, "/api/v1", "namespaces", object{"Name": name})
}

func (c *filled) createBackend(ctx context.Context, i int) error {
	namespace, name := c.size.service(i)
	return c.createService(ctx, namespace, object{"Name": name, "ClusterIP": ""})
}

func (c *filled) createUnrelated(ctx context.Context, i int) error {
	namespace := hookNamespace(0)
	if i%4 > 0 {
		namespace = hookNamespace(i % c.size.Namespaces)
	}
	return c.createService(ctx, namespace, object{"Name": fmt.Sprintf("unrelated-%d", i), "ClusterIP": "None"})
}

func (c *filled) createService(ctx context.Context, namespace string, manifest object) error {
	if err := c.create(ctx, "/api/v1/namespaces/"+namespace, "services", manifest); err != nil {
		return err
	}
	return c.create(ctx, "/apis/discovery.k8s.io/v1/namespaces/"+namespace, "endpointslices", manifest)
}

func (c *filled) createPod(ctx context.Context, i int) error {
	namespace, name := c.size.pod(i)
	return c.create(ctx, "/api/v1/namespaces/"+namespace, "pods", object{"Name": name, "App": fmt.Sprintf("app-%d", i%100)})
}

// pod is the namespace and the name of the i-th Pod.
func (p profile) pod(i int) (namespace, name string) {
	namespace, name = fmt.Sprintf("other-%d", i%p.OtherNamespaces), fmt.Sprintf("pod-%d", i)
	if i%10 == 0 {
		namespace = hookNamespace(i / 10 % p.Namespaces)
	}
	return namespace, name
}

// createCRD gives some CRDs an older version, and a webhook that converts it.
func (c *filled) createCRD(ctx context.Context, i int) error {
	crd := object{"Group": crdGroup(i)}
	if i < c.size.Converting {
		namespace, name := c.size.service(i)
		crd["Backend"] = object{"Namespace": namespace, "Name": name}
	}
	return c.create(ctx, "/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", crd)
}

func crdGroup(i int) string { return fmt.Sprintf("bench-%d.example.com", i) }

// createConfiguration registers for what operators intercept: their own resources mostly,
// and in every tenth configuration Pods. Each webhook has a CA of its own, as cert-manager
// makes one.
func (c *filled) createConfiguration(ctx context.Context, i int) error {
	var hooks []object
	for n := range c.size.Hooks {
		group, resource := crdGroup((i*c.size.Hooks+n)%c.size.CRDs), "widgets"
		if n == 0 && i%10 == 0 {
			group, resource = "", "pods"
		}
		authority, err := ca.New("bench")
		if err != nil {
			return err
		}
		namespace, name := c.size.service(i*c.size.Hooks + n)
		hooks = append(hooks, object{
			"Group": group, "Resource": resource, "Namespace": namespace, "Name": name, "Bundle": base64.StdEncoding.EncodeToString(authority.Bundle),
		})
	}
	return c.create(ctx, "/apis/admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", object{"Name": configurationName(i), "Hooks": hooks})
}

func configurationName(i int) string { return fmt.Sprintf("bench-%d", i) }
