// Package programs builds and finds the programs that the tests run.
package programs

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Root returns the folder of the repository.
var Root = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/webhook-auditor/webhook-auditor/e2e").Output()
	if err != nil {
		return "", fmt.Errorf("finding the module of the end-to-end tests: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(output))), nil
})

// ReleaseVariable is the environment variable that names the release of Kubernetes that
// the tests run in, as 1.31: one that e2e/matrix/releases.tsv lists.
const ReleaseVariable = "WEBHOOK_AUDITOR_E2E_RELEASE"

// Newest is the release that the tests run in unless the variable names another.
const Newest = "1.37"

// Release is the release of Kubernetes that the tests run in.
func Release() string { return cmp.Or(os.Getenv(ReleaseVariable), Newest) }

// ControlPlane builds etcd, kube-apiserver, kube-controller-manager and kubectl
// where that was not done before, and returns their folder.
var ControlPlane = sync.OnceValues(func() (string, error) {
	bin, err := script("e2e/build.sh")
	if release := Release(); err == nil && release != Newest {
		_, err = script("e2e/matrix/build.sh", release)
		bin = filepath.Join(bin, "releases", release)
	}
	return bin, err
})

// Monitoring builds Prometheus and Alertmanager where that was not done before,
// and returns their folder.
var Monitoring = sync.OnceValues(func() (string, error) { return script("e2e/prom/build.sh") })

// Fleet builds Thanos and mimirtool where that was not done before, and returns their folder.
var Fleet = sync.OnceValues(func() (string, error) { return script("e2e/prom/fleet.sh") })

// Auditor builds the auditor as users do, and returns its path.
var Auditor = sync.OnceValues(func() (string, error) {
	root, err := makeTarget("build")
	return filepath.Join(root, "bin", "webhook-auditor"), err
})

// Requests builds what answers many requests as the auditor's explain does one: it is in the
// binary of that package's tests, which goes by its name.
var Requests = sync.OnceValues(func() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "bin", "explain-requests")
	build := exec.Command("go", "test", "-c", "-o", path, "./cmd/webhook-auditor")
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building explain-requests: %w\n%s", err, output)
	}
	return path, nil
})

// Manifests writes the derived ones among the manifests, and returns their folder.
var Manifests = sync.OnceValues(func() (string, error) {
	root, err := makeTarget("manifests")
	return filepath.Join(root, "manifests"), err
})

// Helm builds Helm of major version 3 or 4 where that was not done before, and
// returns its path.
func Helm(major string) (string, error) {
	return compile("helm", "helm"+major, "helm.sh/helm/v"+major+"/cmd/helm", os.Environ(), "-ldflags=-s -w")
}

// Defaults builds what sets the defaults of kube-apiserver, and returns its path. The flags
// are those of e2e/build.sh, so that what that has compiled is not compiled again.
func Defaults() (string, error) {
	environment := append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false -trimpath -gcflags=all=-dwarf=false")
	return compile("kube", "defaults", "./defaults", environment, "-gcflags=k8s.io/kubernetes/...=-N -l -dwarf=false", "-ldflags=-s -w")
}

// compile builds a package from the module in a folder of e2e into e2e/bin.
func compile(module, program, source string, environment []string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, "e2e", "bin", program)
	build := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, source)...)
	build.Dir, build.Env = filepath.Join(root, "e2e", module), environment
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", program, err, output)
	}
	return path, nil
}

// makeTarget makes a target of the Makefile and returns the folder of the
// repository.
func makeTarget(target string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	if output, err := exec.Command("make", "-C", root, target).CombinedOutput(); err != nil {
		return "", fmt.Errorf("running make %s: %w\n%s", target, err, output)
	}
	return root, nil
}

func script(path string, args ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	build := exec.Command(filepath.Join(root, path), args...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr // it takes minutes the first time, and shows its progress
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("running %s: %w", path, err)
	}
	return filepath.Join(root, "e2e", "bin"), nil
}
