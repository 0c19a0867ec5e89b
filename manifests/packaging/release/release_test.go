package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/operator-framework/api/pkg/manifests"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"sigs.k8s.io/yaml"
)

const image = "registry.example.com:5000/platform/webhook-auditor:v1.2.3"

// TestRelease makes a release for this platform, and reads all of it back.
func TestRelease(t *testing.T) {
	if output, err := exec.Command("make", "-C", "../../..", "build").CombinedOutput(); err != nil {
		t.Fatalf("make build: %v\n%s", err, output)
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	r := release{
		root: "../../..", out: t.TempDir(), version: "v1.2.3", image: image,
		url: "https://example.com/download", platforms: []string{platform},
	}
	if err := os.WriteFile(filepath.Join(r.out, "webhook-auditor-image.tar"), []byte("an image"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	stem := "webhook-auditor_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH
	t.Run("checksums", func(t *testing.T) { checksumsHold(t, r.out) })
	t.Run("provenance", func(t *testing.T) { provenanceNamesAll(t, r) })
	t.Run("binary", func(t *testing.T) { runs(t, filepath.Join(r.out, stem+".tar.gz")) })
	t.Run("SBOM", func(t *testing.T) { listsModules(t, filepath.Join(r.out, stem+".cdx.json")) })
	t.Run("chart", func(t *testing.T) { chartIsOfTheRelease(t, filepath.Join(r.out, "webhook-auditor-1.2.3.tgz")) })
	t.Run("bundle", func(t *testing.T) {
		bundleIsOfTheRelease(t, filepath.Join(r.out, "webhook-auditor_v1.2.3_bundle.tar.gz"))
	})
	t.Run("krew", func(t *testing.T) {
		krewValidates(t, r)
		krewInstalls(t, r, stem+".tar.gz")
	})
	t.Run("workflow", func(t *testing.T) { workflowPublishes(t, r) })
	t.Run("install.yaml", func(t *testing.T) {
		if text := read(t, filepath.Join(r.out, "install.yaml")); !bytes.Contains(text, []byte("image: "+image+"\n")) {
			t.Error("it does not name the image of the release")
		}
	})
}

// TestReleaseRefuses what could not be installed later.
func TestReleaseRefuses(t *testing.T) {
	for name, r := range map[string]release{
		"no version":         {image: image},
		"a version as 1.2.3": {version: "1.2.3", image: image},
		"no image":           {version: "v1.2.3"},
		"no tag":             {version: "v1.2.3", image: "registry.example.com:5000/webhook-auditor"},
		"plan9":              {version: "v1.2.3", image: image, platforms: []string{"plan9/amd64"}},
	} {
		if err := r.check(); err == nil || !strings.Contains(err.Error(), "must") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// checksumsHold: sha256sum agrees, and each file has one.
func checksumsHold(t *testing.T, dir string) {
	check := exec.Command("sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = dir
	output, err := check.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "checksums.txt" && !strings.Contains(string(output), name+": OK") {
			t.Errorf("%s has no checksum", name)
		}
	}
}

// provenanceNamesAll: each file that has a checksum is a subject with that digest, and the
// commit is named.
func provenanceNamesAll(t *testing.T, r release) {
	var s statement
	if err := json.Unmarshal(read(t, filepath.Join(r.out, "provenance.json")), &s); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, subject := range s.Subject {
		lines = append(lines, subject.Digest["sha256"]+"  "+subject.Name)
	}
	for line := range strings.Lines(string(read(t, filepath.Join(r.out, "checksums.txt")))) {
		if line = strings.TrimSpace(line); !strings.HasSuffix(line, "provenance.json") && !slices.Contains(lines, line) {
			t.Errorf("the provenance lacks %s", line)
		}
	}
	build := s.Predicate.BuildDefinition
	if len(build.ResolvedDependencies) != 1 || len(build.ResolvedDependencies[0].Digest["gitCommit"]) != 40 || build.ExternalParameters["image"] != image {
		t.Errorf("of which commit and image: %+v", build)
	}
}

// unpacked are the files of an archive.
func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	archive := tar.NewReader(zipped)
	for {
		header, err := archive.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[header.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// runs: the binary is there with the license, and knows its version.
func runs(t *testing.T, archive string) {
	files := unpacked(t, archive)
	if names := slices.Sorted(maps.Keys(files)); !slices.Equal(names, []string{"LICENSE", program}) {
		t.Fatalf("the archive has %v", names)
	}
	path := filepath.Join(t.TempDir(), "kubectl-webhook_auditor")
	if err := os.WriteFile(path, files[program], 0o755); err != nil {
		t.Fatal(err)
	}
	output, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "v1.2.3") {
		t.Errorf("%v\n%s", err, output)
	}
}

func listsModules(t *testing.T, path string) {
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(read(t, path)), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range *bom.Components {
		if c.Version == "" || c.PackageURL == "" {
			t.Errorf("%s: version %q, package %q", c.Name, c.Version, c.PackageURL)
		}
		names = append(names, c.Name)
	}
	for _, want := range []string{"std", "k8s.io/client-go", "github.com/prometheus/client_golang"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is missing in %v", want, names)
		}
	}
}

// chartIsOfTheRelease: installed with no values, it takes the image of the release.
func chartIsOfTheRelease(t *testing.T, path string) {
	chart, err := loader.LoadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	values := chart.Values["image"].(map[string]any)
	if got := values["repository"].(string) + ":" + values["tag"].(string); got != image || chart.Metadata.AppVersion != "v1.2.3" {
		t.Errorf("image %s, version %s", got, chart.Metadata.AppVersion)
	}
	if err := chart.Validate(); err != nil {
		t.Error(err)
	}
	for name, content := range unpacked(t, path) { // of regular files: a link has no content
		if len(content) == 0 {
			t.Errorf("%s is empty in the chart", name)
		}
	}
}

func bundleIsOfTheRelease(t *testing.T, path string) {
	dir := t.TempDir()
	for name, content := range unpacked(t, path) {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bundle, err := manifests.GetBundleFromDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if bundle.CSV.Name != "webhook-auditor.v1.2.3" || bundle.CSV.Spec.RelatedImages[0].Image != image {
		t.Errorf("%s with %v", bundle.CSV.Name, bundle.CSV.Spec.RelatedImages)
	}
	if _, err := os.Stat(filepath.Join(dir, "bundle.Dockerfile")); err != nil {
		t.Errorf("it lacks what makes its image: %v", err)
	}
}

// The rules of krew's index for a manifest, as its documentation has them.
var (
	krewName   = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	krewSum    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	krewKeys   = []string{"apiVersion", "kind", "metadata", "spec"}
	krewLength = 50
)

// krewValidates: krew's own validator takes the manifest.
func krewValidates(t *testing.T, r release) {
	output, err := exec.CommandContext(t.Context(), "go", "tool", "validate-krew-manifest", "-skip-install", "-manifest", filepath.Join(r.out, "webhook-auditor.yaml")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}

// krewInstalls: the manifest is what krew's index takes, and its archive is the
// one of the release.
func krewInstalls(t *testing.T, r release, archive string) {
	text := read(t, filepath.Join(r.out, "webhook-auditor.yaml"))
	var p plugin
	if err := yaml.UnmarshalStrict(text, &p); err != nil {
		t.Fatal(err)
	}
	var top map[string]any
	if err := yaml.Unmarshal(text, &top); err != nil || !slices.Equal(slices.Sorted(maps.Keys(top)), krewKeys) {
		t.Errorf("%v, keys %v", err, top)
	}
	if p.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || p.Kind != "Plugin" || !krewName.MatchString(p.Metadata["name"]) || !semantic.MatchString(p.Spec.Version) {
		t.Errorf("the head is %s %s %s %s", p.APIVersion, p.Kind, p.Metadata["name"], p.Spec.Version)
	}
	if d := p.Spec.ShortDescription; d == "" || len(d) > krewLength || strings.Contains(d, "\n") || strings.HasSuffix(d, ".") {
		t.Errorf("the short description is %q", d)
	}
	if len(p.Spec.Platforms) != 1 {
		t.Fatalf("%d platforms", len(p.Spec.Platforms))
	}
	d := p.Spec.Platforms[0]
	sum, err := digest(filepath.Join(r.out, archive))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := url.Parse(d.URI); err != nil || u.Scheme != "https" || d.URI != "https://example.com/download/v1.2.3/"+archive {
		t.Errorf("the URI is %s", d.URI)
	}
	if !krewSum.MatchString(d.Sha256) || d.Sha256 != sum || unpacked(t, filepath.Join(r.out, archive))[d.Bin] == nil {
		t.Errorf("checksum %s, binary %s", d.Sha256, d.Bin)
	}
	if want := map[string]string{"os": runtime.GOOS, "arch": runtime.GOARCH}; !maps.Equal(d.Selector.MatchLabels, want) {
		t.Errorf("the selector is %v", d.Selector.MatchLabels)
	}
}
