package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
)

const (
	startTime = "exec → first complete /metrics, s"
	serverCPU = "API server CPU of the start, s"
	// patience bounds every wait.
	patience = 5 * time.Minute
	// glance is the pause between two requests to the auditor while something is
	// awaited, and isolation the time without a change before the next one.
	glance    = time.Millisecond
	isolation = 300 * time.Millisecond
)

// measureList lists what the auditor needs to know in protobuf, without a watch:
// the configurations, CRDs and namespaces of the cluster, and of each namespace
// with webhooks the Services and their EndpointSlices.
func (c *filled) measureList(ctx context.Context, to *column) error {
	config := protobuf(c.plane.Config())
	kube, err1 := kubernetes.NewForConfig(config)
	crds, err2 := clientset.NewForConfig(config)
	meta, err3 := metadata.NewForConfig(config)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	cpu, began := cpuSeconds(c.plane.APIServer.PID()), time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	all := metav1.ListOptions{}
	for _, list := range []func() error{
		func() error {
			_, err := kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, all)
			return err
		},
		func() error { _, err := crds.ApiextensionsV1().CustomResourceDefinitions().List(ctx, all); return err },
		func() error {
			_, err := meta.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).List(ctx, all)
			return err
		},
	} {
		group.Go(list)
	}
	for i := range c.size.Namespaces {
		namespace := hookNamespace(i)
		group.Go(func() error {
			selector := discoveryv1.LabelServiceName + " in (" + strings.Join(c.size.servicesIn(i), ",") + ")"
			_, err := kube.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
			return err
		})
		group.Go(func() error { _, err := kube.CoreV1().Services(namespace).List(ctx, all); return err })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	to.add(startTime, time.Since(began).Seconds())
	to.add(serverCPU, cpuSeconds(c.plane.APIServer.PID())-cpu)
	return nil
}

// servicesIn are the names of the Services behind webhooks in a namespace.
func (p profile) servicesIn(namespace int) []string {
	var out []string
	for i := namespace; i < p.Services; i += p.Namespaces {
		_, name := p.service(i)
		out = append(out, name)
	}
	return out
}

func (c *filled) measureAuditor(ctx context.Context, o options, binary string, to *column) (err error) {
	server := c.plane.APIServer.PID()
	streams, err := c.watches(ctx)
	if err != nil {
		return err
	}
	cpu, began := cpuSeconds(server), time.Now()
	a, err := auditor.Launch(auditor.Options{Binary: binary, Kubeconfig: c.plane.Kubeconfig(), Flags: []string{"--probe=off"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Stop()) }()
	if err := await(func() (bool, error) { return c.complete(ctx, a), nil }); err != nil {
		return err
	}
	to.add(startTime, time.Since(began).Seconds())
	to.add(serverCPU, cpuSeconds(server)-cpu)
	to.add("peak RSS of the start, MiB", memory(a.PID(), "VmHWM"))
	if err := sleep(ctx, o.settle); err != nil {
		return err
	}
	to.add("settled RSS, MiB", memory(a.PID(), "VmRSS"))
	now, err := c.watches(ctx)
	if err != nil {
		return err
	}
	to.add("watches", now-streams)
	to.add("connections to the API server", connections(a.PID(), c.plane.Config().Host))
	goroutines, err := gauge(ctx, a, "go_goroutines")
	if err != nil {
		return err
	}
	to.add("goroutines", goroutines)
	if o.changes > 0 {
		if err := c.measureChanges(ctx, o.changes, a, to); err != nil {
			return err
		}
	}
	to.add("peak RSS, MiB", memory(a.PID(), "VmHWM"))
	return nil
}

// complete reports whether /metrics shows every webhook, and of each whether its
// backend is ready.
func (c *filled) complete(ctx context.Context, a *auditor.Auditor) bool {
	if a.Ready(ctx) != nil {
		return false
	}
	body, err := fetch(ctx, a.URL+"/metrics")
	for _, family := range []string{"webhook_info", "webhook_backend_ready"} {
		if bytes.Count(body, []byte("\n"+auditor.Prefix+family+"{")) != c.size.Configurations*c.size.Hooks {
			return false
		}
	}
	return err == nil
}

// measureChanges changes a webhook and the endpoint behind one over and over, and
// measures the time from the answer of the API server until /metrics shows it.
func (c *filled) measureChanges(ctx context.Context, n int, a *auditor.Auditor, to *column) error {
	cpu := cpuSeconds(a.PID())
	delays, err := c.delays(ctx, n, a, auditor.Prefix+"webhook_timeout_seconds", func(ctx context.Context, i int) error {
		patch := fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/timeoutSeconds","value":%d}]`, 5+i%2)
		_, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().
			Patch(ctx, configurationName(1), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	to.addDelays("change of a configuration → visible", delays)
	to.add("CPU of such a change, ms", (cpuSeconds(a.PID())-cpu)/float64(n)*1000)
	namespace, name := c.size.service(1)
	delays, err = c.delays(ctx, n, a, auditor.Prefix+"webhook_backend_ready", func(ctx context.Context, i int) error {
		_, err := c.kube.DiscoveryV1().EndpointSlices(namespace).Update(ctx, endpointSlice(name, i%2 == 1), metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	to.addDelays("last endpoint → visible", delays)
	return c.measureReferences(ctx, n, a, to)
}

// measureReferences makes a webhook refer to a Service that none referred to, and
// back.
func (c *filled) measureReferences(ctx context.Context, n int, a *auditor.Auditor, to *column) error {
	const spare = "spare"
	namespace, name := c.size.service(1)
	if err := c.createService(ctx, namespace, spare, ""); err != nil {
		return err
	}
	delays, err := c.delays(ctx, n, a, auditor.Prefix+"webhook_info", func(ctx context.Context, i int) error {
		to := []string{spare, name}[i%2]
		patch := fmt.Sprintf(`[{"op":"replace","path":"/webhooks/0/clientConfig/service","value":{"namespace":%q,"name":%q,"path":"/validate"}}]`, namespace, to)
		_, err := c.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().
			Patch(ctx, configurationName(1), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
	if err != nil {
		return err
	}
	to.addDelays("new reference → visible", delays)
	return errors.Join(
		c.kube.CoreV1().Services(namespace).Delete(ctx, spare, metav1.DeleteOptions{}),
		c.kube.DiscoveryV1().EndpointSlices(namespace).Delete(ctx, spare, metav1.DeleteOptions{}),
	)
}

func (c *filled) delays(ctx context.Context, n int, a *auditor.Auditor, family string, change func(context.Context, int) error) ([]time.Duration, error) {
	var out []time.Duration
	url := a.URL + "/metrics?name[]=" + family
	for i := range n {
		if err := sleep(ctx, isolation); err != nil {
			return nil, err
		}
		before, err := fetch(ctx, url)
		if err != nil {
			return nil, err
		}
		if err := change(ctx, i); err != nil {
			return nil, err
		}
		acknowledged := time.Now()
		err = await(func() (bool, error) {
			now, err := fetch(ctx, url)
			return !bytes.Equal(before, now), err
		})
		if err != nil {
			return nil, fmt.Errorf("change %d of %s: %w", i, family, err)
		}
		out = append(out, time.Since(acknowledged))
	}
	return out, nil
}

func await(holds func() (bool, error)) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(glance) {
		if ok, err := holds(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("not visible after %s", patience)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// watches is the number of watches that the API server has open. A server that is
// overloaded may take several attempts.
func (c *filled) watches(ctx context.Context) (float64, error) {
	var body []byte
	err := await(func() (bool, error) {
		var err error
		body, err = c.kube.Discovery().RESTClient().Get().AbsPath("/metrics").SetHeader("Accept", "text/plain").Do(ctx).Raw()
		return err == nil, ctx.Err()
	})
	total := 0.0
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "apiserver_longrunning_requests{") && strings.Contains(line, `verb="WATCH"`) {
			total += value(line)
		}
	}
	return total, err
}

func gauge(ctx context.Context, a *auditor.Auditor, name string) (float64, error) {
	body, err := fetch(ctx, a.URL+"/metrics")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name+" ") {
			return value(line), nil
		}
	}
	return 0, fmt.Errorf("no %s on /metrics", name)
}

func value(line string) float64 {
	fields := strings.Fields(line)
	v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
	if err != nil {
		return 0
	}
	return v
}
