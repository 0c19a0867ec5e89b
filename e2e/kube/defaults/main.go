// Command defaults reads API objects as YAML, applies what kube-apiserver sets by
// default in their version when it decodes them, and writes them in v1.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	admissionregistration "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	apps "k8s.io/kubernetes/pkg/apis/apps/install"
	batch "k8s.io/kubernetes/pkg/apis/batch/install"
	core "k8s.io/kubernetes/pkg/apis/core/install"
	discovery "k8s.io/kubernetes/pkg/apis/discovery/install"
	networking "k8s.io/kubernetes/pkg/apis/networking/install"
	policy "k8s.io/kubernetes/pkg/apis/policy/install"
	"sigs.k8s.io/yaml"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(input io.Reader, out io.Writer) error {
	scheme := runtime.NewScheme()
	for _, install := range []func(*runtime.Scheme){
		admissionregistration.Install, apiextensions.Install, apiregistration.Install, apps.Install, batch.Install, core.Install, discovery.Install, networking.Install, policy.Install,
	} {
		install(scheme)
	}
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(input)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading objects: %w", err)
		}
		if text, err = defaulted(scheme, codecs, text); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "---\n%s", text); err != nil {
			return fmt.Errorf("writing objects: %w", err)
		}
	}
}

// defaulted decodes the object with its defaults into what the API server works with,
// and encodes that in v1.
func defaulted(scheme *runtime.Scheme, codecs serializer.CodecFactory, text []byte) ([]byte, error) {
	object, kind, err := codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("decoding an object: %w", err)
	}
	v1 := schema.GroupVersion{Group: kind.Group, Version: "v1"}
	converted, err := scheme.ConvertToVersion(object, v1)
	if err != nil {
		return nil, fmt.Errorf("converting an object to %s: %w", v1, err)
	}
	converted.GetObjectKind().SetGroupVersionKind(v1.WithKind(kind.Kind))
	return yaml.Marshal(converted)
}
