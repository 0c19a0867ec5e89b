// Command informers follows what webhook-auditor follows, by client-go's shared
// informers of the whole cluster and nothing else: what is plain to write, and what
// the benchmark compares with. /metrics has the number of objects and the newest
// change of each kind.
package main

import (
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "kubeconfig of the cluster")
	address := flag.String("address", "", "address to serve /metrics on")
	flag.Parse()
	if err := run(*kubeconfig, *address); err != nil {
		fmt.Fprintln(os.Stderr, "informers:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, address string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	crds, err := clientset.NewForConfig(config)
	if err != nil {
		return err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	builtin, custom := informers.NewSharedInformerFactory(kube, 0), crdinformers.NewSharedInformerFactory(crds, 0)
	admission := builtin.Admissionregistration().V1()
	kinds := map[string]cache.SharedIndexInformer{
		"validating":     admission.ValidatingWebhookConfigurations().Informer(),
		"mutating":       admission.MutatingWebhookConfigurations().Informer(),
		"namespaces":     builtin.Core().V1().Namespaces().Informer(),
		"services":       builtin.Core().V1().Services().Informer(),
		"endpointslices": builtin.Discovery().V1().EndpointSlices().Informer(),
		"pods":           builtin.Core().V1().Pods().Informer(),
		"daemonsets":     builtin.Apps().V1().DaemonSets().Informer(),
		"deployments":    builtin.Apps().V1().Deployments().Informer(),
		"policies":       builtin.Networking().V1().NetworkPolicies().Informer(),
		"budgets":        builtin.Policy().V1().PodDisruptionBudgets().Informer(),
		"crds":           custom.Apiextensions().V1().CustomResourceDefinitions().Informer(),
	}
	p := &page{kinds: kinds, newest: map[string]string{}}
	for kind, informer := range kinds {
		if _, err := informer.AddEventHandler(p.handler(kind)); err != nil {
			return err
		}
	}
	forever := make(chan struct{})
	builtin.Start(forever)
	custom.Start(forever)
	server := &http.Server{Addr: address, Handler: p, ReadHeaderTimeout: time.Minute}
	return server.ListenAndServe()
}

// page is /metrics.
type page struct {
	kinds map[string]cache.SharedIndexInformer

	mu     sync.Mutex
	newest map[string]string // resource version of the last event of each kind
}

func (p *page) handler(kind string) cache.ResourceEventHandlerFuncs {
	note := func(obj any) {
		if m, err := meta.Accessor(obj); err == nil {
			p.mu.Lock()
			p.newest[kind] = m.GetResourceVersion()
			p.mu.Unlock()
		}
	}
	return cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, obj any) { note(obj) }}
}

func (p *page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(p.kinds)) {
		if informer := p.kinds[kind]; informer.HasSynced() {
			fmt.Fprintf(w, "objects{kind=%q,newest=%q} %d\n", kind, p.newest[kind], len(informer.GetStore().ListKeys()))
		}
	}
}
