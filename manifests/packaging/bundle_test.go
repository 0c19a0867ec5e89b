package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

const bundleDir = "../bundle"

// grantsOfRemovedAPIs is the warning about these grants, in either order: they are taken
// to be for v1beta1, as grants have no version.
var grantsOfRemovedAPIs = regexp.MustCompile(`Migrate the API\(s\) for ((endpointslices|poddisruptionbudgets): \(\["[^"]*"\]\),?)+$`)

// TestBundle validates the bundle as the catalogs do before they take it.
func TestBundle(t *testing.T) {
	bundle := must.Get(manifests.GetBundleFromDir(bundleDir))(t)
	// Without MultipleArchitecturesValidator, which pulls the image.
	validators := append(validator.Validators{
		validation.OperatorHubV2Validator, validation.StandardCapabilitiesValidator, validation.StandardCategoriesValidator,
		validation.GoodPracticesValidator, validation.ObjectValidator, validation.AlphaDeprecatedAPIsValidator,
	}, validation.DefaultBundleValidators...)
	for _, result := range validators.Validate(bundle.ObjectsToValidate()...) {
		for _, e := range result.Errors {
			t.Errorf("%s: %v", result.Name, e)
		}
		for _, w := range result.Warnings {
			if !grantsOfRemovedAPIs.MatchString(w.Error()) {
				t.Errorf("%s: %v", result.Name, w)
			}
		}
	}
	csv := bundle.CSV
	if len(csv.Spec.RelatedImages) != 1 || csv.Spec.RelatedImages[0].Image != csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Image {
		t.Errorf("relatedImages are %v", csv.Spec.RelatedImages)
	}
}

// TestSubscriptionSetsFlags: a Subscription sets environment variables alone, and
// kubelet writes them into the arguments.
func TestSubscriptionSetsFlags(t *testing.T) {
	bundle := must.Get(manifests.GetBundleFromDir(bundleDir))(t)
	container := bundle.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0]
	if !slices.Contains(container.Args, "--degraded=$(DEGRADED)") {
		t.Errorf("the arguments are %q", container.Args)
	}
	if !slices.Contains(container.Env, corev1.EnvVar{Name: "DEGRADED", Value: "on"}) {
		t.Errorf("the environment is %v: without the variable, the argument would be no value", container.Env)
	}
}

// TestPrintedRulesReplaceThoseOfTheBundle: objects of a bundle depend on no variable,
// so what is applied beside it has their names and is what the component makes.
func TestPrintedRulesReplaceThoseOfTheBundle(t *testing.T) {
	text := must.Get(exec.CommandContext(t.Context(), "../../bin/webhook-auditor", "print", "rules", "--severities=enhancement", "--namespace="+openshift).Output())(t)
	printed, component, bundled := objects{}, objects{}, objects{}
	printed.add(t, text)
	for id, object := range kustomization(t, "overlays/openshift", "parts/enhancement") {
		if object["kind"] == "PrometheusRule" {
			component[id] = object
		}
	}
	compare(t, component, printed)
	files := must.Get(filepath.Glob(bundleDir + "/manifests/prometheusrule-*.yaml"))(t)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		bundled.add(t, text)
	}
	for id := range bundled {
		if inNamespace := strings.Replace(id, "/webhook-auditor/", "/"+openshift+"/", 1); printed[inNamespace] == nil {
			t.Errorf("%s of the bundle is not printed", id)
		}
	}
	if len(bundled) == 0 || len(bundled) != len(printed) {
		t.Errorf("%d rules are printed, %d are in the bundle", len(printed), len(bundled))
	}
}

// TestBundleHasTheObjectsOfTheOverlay: what is installed by the Operator Lifecycle
// Manager has the same specs, but what it makes itself or cannot install.
func TestBundleHasTheObjectsOfTheOverlay(t *testing.T) {
	overlay := kustomized(t, "overlays/openshift")
	for id, file := range map[string]string{
		"CustomResourceDefinition//webhookaudits.webhook-auditor.io": "crd.yaml",
		"ConfigMap/" + openshift + "/webhook-auditor":                "policy.yaml",
		"PodDisruptionBudget/" + openshift + "/webhook-auditor":      "poddisruptionbudget.yaml",
		"Service/" + openshift + "/webhook-auditor":                  "service.yaml",
		"ServiceMonitor/" + openshift + "/webhook-auditor":           "servicemonitor.yaml",
		"ClusterRole//webhook-auditor-metrics-reader":                "metrics-reader.yaml",
		"Role/" + openshift + "/prometheus-k8s":                      "prometheus-k8s-role.yaml",
		"RoleBinding/" + openshift + "/prometheus-k8s":               "prometheus-k8s-rolebinding.yaml",
	} {
		text := must.Get(os.ReadFile(filepath.Join(bundleDir, "manifests", file)))(t)
		var got map[string]any
		if err := yaml.UnmarshalStrict(text, &got); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		want := overlay[id]
		if want == nil {
			t.Fatalf("the overlay has no %s", id)
		}
		delete(want["metadata"].(map[string]any), "namespace")
		compare(t, objects{file: want}, objects{file: got})
	}
}
