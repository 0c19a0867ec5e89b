package manifest

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// manyDocuments makes YAML as kubectl writes it: configurations of three
// webhooks with CA bundles, and the Services behind them, in turn.
func manyDocuments(size int) [][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	var out [][]byte
	for i, total := 0, 0; total < size; i++ {
		var b bytes.Buffer
		fmt.Fprintf(&b, "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n  labels:\n    app.kubernetes.io/managed-by: Helm\n  name: policy-%d\nwebhooks:\n", i)
		for j := range 3 {
			fmt.Fprintf(&b, hookPattern, bundle(random), i, j, i)
		}
		out = append(out, b.Bytes(), fmt.Appendf(nil, servicePattern, i))
		total += b.Len() + len(servicePattern)
	}
	return out
}

func bundle(random *rand.Rand) string {
	raw := make([]byte, 1100)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return base64.StdEncoding.EncodeToString(raw)
}

const hookPattern = `- admissionReviewVersions:
  - v1
  clientConfig:
    caBundle: %s
    service:
      name: policy-%d
      namespace: policy
      path: /validate
      port: 443
  failurePolicy: Fail
  matchPolicy: Equivalent
  name: h%d.policy-%d.example.com
  namespaceSelector:
    matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
      - kube-system
  objectSelector: {}
  rules:
  - apiGroups:
    - apps
    apiVersions:
    - v1
    operations:
    - CREATE
    - UPDATE
    resources:
    - deployments
    scope: '*'
  sideEffects: None
  timeoutSeconds: 10
`

const servicePattern = `apiVersion: v1
kind: Service
metadata:
  labels:
    app: policy
  name: policy-%d
  namespace: policy
spec:
  clusterIP: 10.0.0.1
  ports:
  - name: https
    port: 443
    protocol: TCP
    targetPort: 8443
  selector:
    app: policy
  type: ClusterIP
`

const benchmarkSize = 50 << 20

// BenchmarkRead reads one manifest of 50 MiB: documents, a List, and JSON.
func BenchmarkRead(b *testing.B) {
	docs := manyDocuments(benchmarkSize)
	for name, data := range map[string][]byte{
		"documents": bytes.Join(docs, []byte("---\n")),
		"list":      asList(docs),
		"json":      asJSON(b, docs),
	} {
		path := must.File(b, "manifest", string(data))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				o, summary := Read([]string{path}, Options{})
				if len(o.Errors) > 0 || summary.Objects != len(docs) {
					b.Fatal(summary, o.Errors)
				}
			}
		})
	}
}

// BenchmarkDecode decodes the same documents, cut beforehand, on as many cores
// with what kubectl uses, and does nothing else: Read is to take at most 1.3
// times as long.
func BenchmarkDecode(b *testing.B) {
	docs := manyDocuments(benchmarkSize)
	b.SetBytes(int64(len(bytes.Join(docs, nil))))
	for b.Loop() {
		var wg sync.WaitGroup
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			wg.Go(func() {
				for i := 2 * w; i+1 < len(docs); i += 2 * workers {
					var c admissionv1.ValidatingWebhookConfiguration
					var s corev1.Service
					if yaml.Unmarshal(docs[i], &c) != nil || yaml.Unmarshal(docs[i+1], &s) != nil {
						panic("not YAML")
					}
				}
			})
		}
		wg.Wait()
	}
}

func asList(docs [][]byte) []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: v1\nitems:\n")
	for _, d := range docs {
		b.WriteString("- " + strings.TrimSuffix(strings.ReplaceAll(string(d), "\n", "\n  "), "  "))
	}
	b.WriteString("kind: List\n")
	return b.Bytes()
}

func asJSON(b *testing.B, docs [][]byte) []byte {
	b.Helper()
	out := []byte(`{"apiVersion": "v1", "kind": "List", "items": [`)
	for i, d := range docs {
		item := must.Get(yaml.YAMLToJSON(d))(b)
		if i > 0 {
			out = append(out, ',', '\n')
		}
		out = append(out, item...)
	}
	return append(out, "]}\n"...)
}

// BenchmarkMustGather reads a must-gather of 20,000 files and 2 GB, nearly all
// of it logs, as it is and packed.
func BenchmarkMustGather(b *testing.B) {
	b.Chdir(b.TempDir())
	files := largeMustGather()
	for name, content := range files {
		must.Write(b, name, content)
	}
	packed := must.Get(os.Create("packed"))(b)
	w := gzip.NewWriter(packed)
	files.pack(b, w)
	must.Succeed(b, errors.Join(w.Close(), packed.Close()))
	for _, path := range []string{"must-gather.local.1", "packed"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				if o, _ := Read([]string{path}, Options{}); len(o.Errors) > 0 || len(o.ServicesKnown.Namespaces) != 200 {
					b.Fatal(o.Errors)
				}
			}
		})
	}
}

func largeMustGather() tree {
	const root = "must-gather.local.1/image/"
	var log strings.Builder
	for i := range 1_100 {
		fmt.Fprintf(&log, "2026-11-21T03:00:00.%09dZ I1121 03:00:00.000000 1 reconciler.go:100] reconciling pod %x\n", i*7919, i*i*7919)
	}
	files := tree{}
	for i, d := range manyDocuments(2 << 20) {
		if i%2 == 0 {
			files[fmt.Sprintf("%scluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations/%d.yaml", root, i)] = "---\n" + string(d)
		}
	}
	for n := range 200 {
		ns := fmt.Sprintf("%snamespaces/ns-%d/", root, n)
		files[fmt.Sprintf("%sns-%d.yaml", ns, n)] = namespace(fmt.Sprintf("ns-%d", n))
		files[ns+"core/services.yaml"] = "---\n" + string(asList([][]byte{fmt.Appendf(nil, servicePattern, n)}))
		files[ns+"core/configmaps.yaml"] = strings.Repeat("x: [\n", 20_000)
		for p := range 96 {
			files[fmt.Sprintf("%spods/pod-%d/c/c/logs/current.log", ns, p)] = log.String()
		}
	}
	return files
}
