package packaging

import (
	"bytes"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/manifests/packaging/must"
)

// stages parses a Dockerfile as BuildKit does.
func stages(t *testing.T, file string) []instructions.Stage {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	parsed := must.Get(parser.Parse(bytes.NewReader(text)))(t)
	if len(parsed.Warnings) > 0 {
		t.Errorf("warnings of the parser: %v", parsed.Warnings)
	}
	found, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestDockerfile: it builds the program with the Go of the module and makes an
// image that runs as that of "make image" does, with nothing else in it.
func TestDockerfile(t *testing.T) {
	found := stages(t, "../../Dockerfile")
	if len(found) != 2 || found[1].BaseName != "scratch" {
		t.Fatalf("stages are %+v, want one that compiles and one from scratch", found)
	}
	module := must.Get(os.ReadFile("../../go.mod"))(t)
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)
	if version == nil || found[0].BaseName != "golang:"+string(version[1]) {
		t.Errorf("compiles in %s, and go.mod asks for Go %s", found[0].BaseName, version)
	}
	var image, built []string
	for _, command := range slices.Concat(found[0].Commands, found[1].Commands) {
		switch c := command.(type) {
		case *instructions.RunCommand:
			_, rest, _ := strings.Cut(strings.Join(c.CmdLine, " "), " -o ")
			output, program, _ := strings.Cut(rest, " ")
			built = append(built, output)
			if _, err := os.Stat(path.Join("../..", program)); err != nil || !strings.Contains(c.String(), "CGO_ENABLED=0") {
				t.Errorf("%s: want a static build of a program of the module", c)
			}
		case *instructions.CopyCommand:
			if c.From != "" {
				image = append(image, "from "+c.From+": "+strings.Join(c.SourcePaths, " ")+" to "+c.DestPath)
			}
		case *instructions.UserCommand:
			image = append(image, "user "+c.User)
		case *instructions.EntrypointCommand:
			image = append(image, "entrypoint "+strings.Join(c.CmdLine, " "))
		default:
			t.Errorf("%s: unexpected", command.Name())
		}
	}
	want := []string{"from build: " + strings.Join(built, " ") + " to /webhook-auditor", "user 65532:65532", "entrypoint /webhook-auditor"}
	if diff := cmp.Diff(want, image); diff != "" {
		t.Errorf("the image: -want +got\n%s", diff)
	}
}

// TestBundleDockerfile: the labels of the bundle's image are the annotations in its
// files, and it holds the folders that they name.
func TestBundleDockerfile(t *testing.T) {
	found := stages(t, bundleDir+"/bundle.Dockerfile")
	if len(found) != 1 || found[0].BaseName != "scratch" {
		t.Fatalf("stages are %+v", found)
	}
	text := must.Get(os.ReadFile(bundleDir + "/metadata/annotations.yaml"))(t)
	var metadata struct{ Annotations map[string]string }
	must.Succeed(t, yaml.UnmarshalStrict(text, &metadata))
	labels, folders := map[string]string{}, map[string]string{}
	for _, command := range found[0].Commands {
		switch c := command.(type) {
		case *instructions.LabelCommand:
			for _, l := range c.Labels {
				labels[l.Key] = l.Value
			}
		case *instructions.CopyCommand:
			folders[c.SourcePaths[0]+"/"] = c.DestPath
		}
	}
	if diff := cmp.Diff(metadata.Annotations, labels); diff != "" {
		t.Errorf("labels: -annotations +image\n%s", diff)
	}
	for _, folder := range []string{"manifests", "metadata"} {
		named := labels["operators.operatorframework.io.bundle."+folder+".v1"]
		if folders[named] != "/"+named {
			t.Errorf("%s is in the image at %q", named, folders[named])
		}
	}
}
