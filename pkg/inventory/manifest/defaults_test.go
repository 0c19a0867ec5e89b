package manifest

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// TestDefaults: what a file leaves to kube-apiserver is read as what that makes of it, in
// all kinds and versions. TestDefaultsAreTheAPIServers in e2e/suites/inputs holds the
// second file against the API server's own tables of defaults.
func TestDefaults(t *testing.T) {
	const written, stored = "testdata/defaults/written.yaml", "testdata/defaults/stored.yaml"
	text := must.Get(os.ReadFile(written))(t)
	for kind, d := range decoders {
		kind, group, _ := strings.Cut(kind, ".")
		if _, ofOLM := d.object().(*serviceVersion); ofOLM { // other objects are made of it
			continue
		}
		if _, isServer := convert(d.object()).(server); !isServer {
			new(inventory.Objects).Add(d.object()) // has a list of its type
		}
		switch d.object().(type) {
		case *inventory.PluginPolicy, *inventory.PeerAuthentication, *inventory.AuthorizationPolicy, *inventory.LinkerdPolicy, *inventory.IssuedCertificate: // no API server fills anything in
			continue
		}
		for _, version := range d.versions {
			head := "apiVersion: " + strings.TrimPrefix(group+"/"+version, "/") + "\nkind: " + kind + "\n"
			if !isOpenShift(group) && !strings.Contains(string(text), head) {
				t.Errorf("%s has no %s", written, head)
			}
		}
	}
	want, got := snapshotOf(t, stored), snapshotOf(t, written)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(inventory.Snapshot{}), cmpopts.IgnoreFields(inventory.Snapshot{}, "Manifests"), cmp.Transformer("selector", inventory.Selector.String), cmp.Transformer("policy", func(n inventory.NetworkPolicy) string { return fmt.Sprintf("%#v", n) })); diff != "" {
		t.Errorf("as stored and as written:\n%s", diff)
	}
}

func snapshotOf(t *testing.T, file string) *inventory.Snapshot {
	t.Helper()
	o, _ := Read([]string{file}, Options{})
	for _, e := range o.Errors {
		t.Error(e)
	}
	o.Inputs, o.Sources = nil, nil
	return o.Snapshot(time.Time{})
}
