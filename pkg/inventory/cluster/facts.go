package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const (
	versionPath   = "/version"
	metricsPath   = "/metrics"
	discoveryPath = "/apis"
)

// factsTimeout bounds one reading of the facts. An API server that takes
// longer over three small documents is not well.
const factsTimeout = 30 * time.Second

// openShiftGroup is the API group that tells OpenShift from other clusters.
const openShiftGroup = "config.openshift.io"

// facts are what no object tells of the API server.
type facts struct {
	version   inventory.Version
	served    []inventory.Served
	openShift bool
	// upgrading says that the ClusterVersion is progressing.
	upgrading bool
	excluded  *bool
	// gatesRead is when excluded was read, or refused.
	gatesRead time.Time
	// read is when the facts were read; what could not be read then is older.
	read     time.Time
	failures []failure
	errors   []inventory.Error
}

// readFacts reads the facts again, the gates only where gatesRead is zero.
// What cannot be read stays as it was.
func (c Clients) readFacts(ctx context.Context, f facts) facts {
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, klog.Logger{}), factsTimeout)
	defer cancel()
	f.failures = nil
	for _, part := range []struct {
		path string
		read func(context.Context, *facts) error
	}{{versionPath, c.readVersion}, {discoveryPath, c.discover}, {metricsPath, c.readGates}, {clusterVersions, c.readUpgrade}} {
		if err := part.read(ctx, &f); err != nil {
			f.failures = append(f.failures, failure{verb: "get", resource: part.path, err: err, asOf: f.read})
		}
	}
	if len(f.failures) == 0 {
		f.read = time.Now()
	}
	return f
}

// unsettled reports whether another reading may tell more.
func (f facts) unsettled() bool {
	return slices.ContainsFunc(f.failures, func(f failure) bool { return !f.refused() && !f.notServed() })
}

// same reports whether a Snapshot would show the same of both.
func (f facts) same(o facts) bool { return reflect.DeepEqual(f.shown(), o.shown()) }

func (f facts) shown() facts {
	f.errors = slices.Concat(f.errors, explain(f.failures))
	f.failures, f.read, f.gatesRead = nil, time.Time{}, time.Time{}
	return f
}

// clusterVersions is what tells whether OpenShift is being upgraded.
const clusterVersions = "clusterversions." + openShiftGroup

// readUpgrade reads the ClusterVersion, where there is one. It is read like the
// other facts, once a minute: an upgrade takes many, and conditions wait longer.
func (c Clients) readUpgrade(ctx context.Context, f *facts) error {
	if !f.openShift {
		f.upgrading = false
		return nil
	}
	raw, err := c.discovery.RESTClient().Get().AbsPath("/apis", openShiftGroup, "v1", "clusterversions", "version").
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		f.upgrading = false
		return nil
	case err != nil:
		return err
	}
	f.upgrading, err = progressing(raw)
	return err
}

func progressing(raw []byte) (bool, error) {
	var version struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(raw, &version); err != nil {
		return false, fmt.Errorf("reading the ClusterVersion: %w", err)
	}
	return meta.IsStatusConditionTrue(version.Status.Conditions, "Progressing"), nil
}

// serverVersion is what /version tells. Under emulation the version that
// counts is the emulated one; servers that cannot emulate do not tell it.
type serverVersion struct {
	Major, Minor, GitVersion       string
	EmulationMajor, EmulationMinor string
}

func (c Clients) readVersion(ctx context.Context, f *facts) error {
	raw, err := c.discovery.RESTClient().Get().AbsPath(versionPath).Do(ctx).Raw()
	if err != nil {
		return err
	}
	version, err := parseVersion(raw)
	if err == nil {
		f.version = version
	}
	return err
}

func parseVersion(raw []byte) (inventory.Version, error) {
	var told serverVersion
	if err := json.Unmarshal(raw, &told); err != nil {
		return inventory.Version{}, fmt.Errorf("reading %s: %w", versionPath, err)
	}
	if told.EmulationMinor == "" {
		told.EmulationMajor, told.EmulationMinor = told.Major, told.Minor
	}
	v, err := inventory.ParseVersion(told.EmulationMajor + "." + told.EmulationMinor)
	if err != nil {
		return inventory.Version{}, err
	}
	v.Git = told.GitVersion
	return v, nil
}

// discover reads what the API server serves. A group that cannot tell is
// reported, and what it served before is kept.
func (c Clients) discover(ctx context.Context, f *facts) error {
	groups, lists, err := c.discovery.ServerGroupsAndResourcesWithContext(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return err
	}
	served := servedBy(lists)
	for _, s := range f.served {
		if _, ok := failed[schema.GroupVersion{Group: s.Group, Version: s.Version}]; ok {
			served = append(served, s)
		}
	}
	f.served = served
	f.openShift = slices.ContainsFunc(groups, func(g *metav1.APIGroup) bool { return g.Name == openShiftGroup })
	f.errors = undiscovered(failed)
	return nil
}

func undiscovered(failed map[schema.GroupVersion]error) []inventory.Error {
	var out []inventory.Error
	for gv, err := range failed {
		out = append(out, inventory.Error{
			Object:  gv.String(),
			Message: "asking what it serves: " + err.Error() + "; check its APIService and what is behind it",
		})
	}
	slices.SortFunc(out, func(a, b inventory.Error) int { return strings.Compare(a.Object, b.Object) })
	return out
}

func servedBy(lists []*metav1.APIResourceList) []inventory.Served {
	out := []inventory.Served{}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, r := range list.APIResources {
			name, sub, _ := strings.Cut(r.Name, "/")
			out = append(out, inventory.Served{
				Resource:   inventory.Resource{Group: gv.Group, Name: name, Subresource: sub},
				Version:    gv.Version,
				Kind:       r.Kind,
				Namespaced: r.Namespaced,
				Verbs:      r.Verbs,
			})
		}
	}
	// client-go returns the groups in any order.
	slices.SortFunc(out, func(a, b inventory.Served) int {
		return cmp.Or(a.Resource.Compare(b.Resource), cmp.Compare(a.Version, b.Version))
	})
	return out
}

// reviewsGate is the line of /metrics that tells whether reviews are excluded
// from webhooks, up to its value.
const reviewsGate = `kubernetes_feature_enabled{name="ExcludeAdmissionWebhookVirtualResources"`

// readGates reads the feature gate from /metrics, where that is allowed. A
// refusal is no failure: the version decides then, as it does before the gate
// was introduced.
func (c Clients) readGates(ctx context.Context, f *facts) error {
	if f.version.Known() && !f.version.AtLeast(1, 37) {
		f.excluded = nil
		return nil
	}
	if !f.gatesRead.IsZero() {
		return nil
	}
	excluded, err := c.readGate(ctx)
	if refusal := (failure{err: err}); err != nil && !refusal.refused() && !refusal.notServed() {
		return err
	}
	f.excluded, f.gatesRead = excluded, time.Now()
	return nil
}

func (c Clients) readGate(ctx context.Context) (*bool, error) {
	body, err := c.discovery.RESTClient().Get().AbsPath(metricsPath).SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return findGate(body)
}

// findGate reads no further than the line: the document has some megabytes.
func findGate(r io.Reader) (*bool, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if bytes.HasPrefix(lines.Bytes(), []byte(reviewsGate)) {
			enabled := bytes.HasSuffix(bytes.TrimSpace(lines.Bytes()), []byte(" 1"))
			return &enabled, nil
		}
	}
	return nil, lines.Err()
}
