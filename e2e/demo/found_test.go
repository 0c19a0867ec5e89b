package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFound: servers that are there are used if all are, in a version that fits.
func TestFound(t *testing.T) {
	for version, fits := range map[string]bool{"v1.37.4": true, "v1.36.1": false} {
		found, here := t.TempDir(), t.TempDir()
		for name, answer := range map[string]string{
			"etcd": "etcd Version: 3.6.1", "kube-apiserver": "Kubernetes " + version, "kube-controller-manager": "Kubernetes " + version,
			"prometheus": "prometheus, version 3.4.0", "alertmanager": "alertmanager, version 0.28.1",
		} {
			write(t, filepath.Join(found, name), "#!/bin/sh\necho "+answer)
		}
		for _, script := range []string{"found.sh", "flags.sh"} {
			text, err := os.ReadFile("../" + script)
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(here, script), string(text))
		}
		write(t, filepath.Join(here, "build.sh"), "#!/bin/sh\necho building")
		cmd := exec.Command(filepath.Join(here, "found.sh"), filepath.Join(here, "bin"))
		cmd.Env = append(os.Environ(), "KUBEBUILDER_ASSETS="+found)
		output, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(output), "building") == fits || !strings.Contains(string(output), "using "+found+"/prometheus") {
			t.Errorf("%s: %v\n%s", version, err, output)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
