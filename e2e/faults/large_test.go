//go:build faults

package faults

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
	"github.com/webhook-auditor/webhook-auditor/e2e/world"
)

// BenchmarkLargeCluster measures what an auditor takes of a cluster with 300
// CRDs of 33 kB and 5,000 webhooks, with
// go test -tags faults -run '^$' -bench Large -benchtime 1x ./faults
func BenchmarkLargeCluster(b *testing.B) {
	const crds, namespaces, configurations, hooks = 300, 50, 500, 10
	w := world.New(b, cluster.Options{WithoutControllers: true})
	world.Must(b, inParallel(crds, func(i int) error {
		_, err := w.CRDs.ApiextensionsV1().CustomResourceDefinitions().Create(b.Context(), largeCRD(i), metav1.CreateOptions{})
		return err
	}))
	var backends []webhook.Backend
	for i := range namespaces {
		backends = append(backends, w.Backend(b, crowd(i)))
	}
	world.Must(b, inParallel(configurations, func(i int) error {
		made := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: crowd(i)}}
		for j := range hooks {
			h := world.Hook(backends[i%namespaces], world.Rule("batch", "jobs"))
			h.Name = fmt.Sprintf("hook-%d.%s.example.com", j, crowd(i))
			made.Webhooks = append(made.Webhooks, h)
		}
		_, err := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(b.Context(), made, metav1.CreateOptions{})
		return err
	}))
	for b.Loop() {
		begun := time.Now()
		a := world.AuditAs(b, w.Plane.Kubeconfig())
		s := &stage{World: w, Auditor: a}
		world.Eventually(b, recovery, func() error { return s.counts(b.Context(), configurations*hooks) })
		b.ReportMetric(time.Since(begun).Seconds(), "s-to-first-report")
		time.Sleep(90 * time.Second) // until it has evaluated again, and returned what it does not need
		used, peak := memoryOf(b, a.PID())
		b.ReportMetric(used, "MiB-settled")
		b.ReportMetric(peak, "MiB-peak")
		world.Must(b, a.Stop())
	}
}

// largeCRD has a schema of 33 kB.
func largeCRD(i int) *apiextensionsv1.CustomResourceDefinition {
	group := fmt.Sprintf("large-%d.example.com", i)
	schema := &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for field := range 300 {
		schema.Properties[fmt.Sprintf("field%d", field)] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: strings.Repeat("what it means ", 5)}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "larges." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "larges", Singular: "large", Kind: "Large", ListKind: "LargeList"},
			Scope: apiextensionsv1.NamespaceScoped,
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: schema},
			}},
		},
	}
}

// memoryOf is what the kernel says a process holds, and held at most, in MiB.
func memoryOf(t testing.TB, pid int) (used, peak float64) {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	world.Must(t, err)
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		value, _ := strconv.ParseFloat(fields[1], 64) // other lines are no numbers
		switch fields[0] {
		case "VmRSS:":
			used = value / 1024
		case "VmHWM:":
			peak = value / 1024
		}
	}
	return used, peak
}
