package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// The sizes of the inputs.
const (
	manifestBytes = 50_000_000
	treeFiles     = 20_000
	treeBytes     = 2_000_000_000
)

// writeManifests writes what kubectl would: configurations of three webhooks
// with CA bundles, and the Service behind them, in turn; by hand, people write
// lists in brackets.
func writeManifests(path string, style *strings.Replacer) error {
	return write(path, func(w io.Writer) {
		random, n := rand.New(rand.NewPCG(1, 2)), 0
		for i := 0; n < manifestBytes; i++ {
			n += count(style.WriteString(w, configuration(random, i)))
			n += count(fmt.Fprintf(w, servicePattern, i))
		}
	})
}

var (
	asKubectl = strings.NewReplacer()
	byHand    = strings.NewReplacer(
		"Versions:\n  - v1\n", "Versions: [v1]\n",
		"values:\n      - kube-system\n", "values: [kube-system]\n",
		"Groups:\n    - apps\n", "Groups: [apps]\n",
		"Versions:\n    - v1\n", "Versions: [v1]\n",
		"operations:\n    - CREATE\n    - UPDATE\n", "operations: [CREATE, UPDATE]\n",
		"resources:\n    - deployments\n", "resources: [deployments]\n",
	)
)

func count(n int, _ error) int { return n }

// write leaves the first error of all writes to the last one, as bufio does.
func write(path string, fill func(io.Writer)) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the input: %w", err)
	}
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("writing the input: %w", err)
	}
	defer f.Close()
	b := bufio.NewWriterSize(f, 1<<20)
	fill(b)
	if err := b.Flush(); err != nil {
		return fmt.Errorf("writing the input: %w", err)
	}
	return nil
}

func configuration(random *rand.Rand, i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata:\n  name: policy-%d\nwebhooks:\n", i)
	for j := range 3 {
		fmt.Fprintf(&b, hookPattern, bundle(random), i, j, i)
	}
	return b.String()
}

// bundle is as long as a CA bundle. It is random: a bundle that is read once
// for all webhooks would flatter.
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

const servicePattern = `---
apiVersion: v1
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

// writeMustGather writes a tree as oc adm must-gather leaves it: 200
// configurations, a Service and a Pod in each of as many namespaces, and logs,
// which are nearly all of it.
func writeMustGather(root string) error {
	root = filepath.Join(root, "image")
	random := rand.New(rand.NewPCG(3, 4))
	const namespaces = 200
	logs := treeFiles - 3*namespaces
	line := strings.Repeat("2026-01-01T00:00:00.000000000Z I0101 00:00:00.000000 1 controller.go:100] all is well\n", 64)
	for i := range namespaces {
		space := filepath.Join(root, "namespaces", fmt.Sprintf("ns-%d", i))
		for path, text := range map[string]string{
			filepath.Join(root, "cluster-scoped-resources/admissionregistration.k8s.io/validatingwebhookconfigurations", fmt.Sprintf("policy-%d.yaml", i)): configuration(random, i),
			filepath.Join(space, "core/services.yaml"):         fmt.Sprintf(servicePattern, i),
			filepath.Join(space, fmt.Sprintf("ns-%d.yaml", i)): fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ns-%d\n", i),
		} {
			if err := write(path, func(w io.Writer) { _, _ = io.WriteString(w, text) }); err != nil {
				return err
			}
		}
	}
	for i := range logs {
		path := filepath.Join(root, "namespaces", fmt.Sprintf("ns-%d", i%namespaces), "pods", fmt.Sprintf("pod-%d", i), "app", "app", "logs", "current.log")
		err := write(path, func(w io.Writer) {
			for n := 0; n < treeBytes/logs; n += len(line) {
				_, _ = io.WriteString(w, line)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
