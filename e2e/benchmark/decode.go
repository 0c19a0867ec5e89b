package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// decode decodes a manifest into the API's types on all cores with what
// kubectl uses, and does nothing else.
func decode(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the manifest: %w", err)
	}
	documents := bytes.Split(bytes.TrimPrefix(data, []byte("---\n")), []byte("\n---\n"))
	failures := make([]error, runtime.NumCPU())
	var workers sync.WaitGroup
	for w := range failures {
		workers.Go(func() {
			for i := w; i < len(documents); i += len(failures) {
				failures[w] = errors.Join(failures[w], decodeDocument(documents[i]))
			}
		})
	}
	workers.Wait()
	return errors.Join(failures...)
}

func decodeDocument(document []byte) error {
	var into any = &admissionv1.ValidatingWebhookConfiguration{}
	if bytes.Contains(document, []byte("kind: Service\n")) {
		into = &corev1.Service{}
	}
	if err := yaml.Unmarshal(document, into); err != nil {
		return fmt.Errorf("decoding: %w", err)
	}
	return nil
}
