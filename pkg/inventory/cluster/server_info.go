package cluster

import (
	"bufio"
	"bytes"
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
	"k8s.io/klog/v2"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const (
	versionPath   = "/version"
	metricsPath   = "/metrics"
	discoveryPath = "/apis"
)

// serverInfoTimeout bounds one fetch of the serverInfo: four small documents.
const serverInfoTimeout = 30 * time.Second

// openShiftGroup is an API group that only OpenShift serves.
const openShiftGroup = "config.openshift.io"

type serverInfo struct {
	version   inventory.Version
	served    []inventory.Served
	openShift bool
	upgrading bool
	// reviewsExcluded is the value of the feature gate that excludes reviews from
	// webhooks; nil if unknown.
	reviewsExcluded *bool
	// gatesRead is when reviewsExcluded was read, or refused.
	gatesRead time.Time
	// attempted is the end of the last fetch, and complete that of the last one
	// without a failure: what failed since is older.
	attempted, complete time.Time
	failures            []failure
	errors              []inventory.Error
}

// fetchServerInfo fetches the serverInfo again, the gates only where gatesRead is
// zero. What cannot be read stays as it was.
func (c Clients) fetchServerInfo(ctx context.Context, info serverInfo) serverInfo {
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, klog.Logger{}), serverInfoTimeout)
	defer cancel()
	info.failures = nil
	for _, part := range []struct {
		path string
		read func(context.Context, *serverInfo) error
	}{
		{versionPath, c.readVersion},
		{discoveryPath, c.discover},
		{metricsPath, c.readGates},
		{clusterVersions, c.readUpgrade},
	} {
		if err := part.read(ctx, &info); err != nil {
			info.failures = append(info.failures, failure{verb: "get", resource: part.path, err: err, asOf: info.complete})
		}
	}
	info.attempted = time.Now()
	if len(info.failures) == 0 {
		info.complete = info.attempted
	}
	return info
}

// unsettled reports whether another fetch may show more.
func (info serverInfo) unsettled() bool {
	return slices.ContainsFunc(info.failures, func(f failure) bool { return !f.refused() && !f.notServed() })
}

func (info serverInfo) same(o serverInfo) bool {
	return reflect.DeepEqual(info.shownInfo(), o.shownInfo())
}

func (info serverInfo) shownInfo() serverInfo {
	info.errors = slices.Concat(info.errors, errorsByCause(info.failures))
	info.failures, info.attempted, info.complete, info.gatesRead = nil, time.Time{}, time.Time{}, time.Time{}
	return info
}

// clusterVersions is the resource that shows whether OpenShift is being upgraded.
const clusterVersions = "clusterversions." + openShiftGroup

// readUpgrade reads the ClusterVersion, where there is one. It is fetched once a
// minute: an upgrade takes many, and conditions wait longer.
func (c Clients) readUpgrade(ctx context.Context, info *serverInfo) error {
	if !info.openShift {
		info.upgrading = false
		return nil
	}
	raw, err := c.core.Get().AbsPath("/apis", openShiftGroup, "v1", "clusterversions", "version").
		SetHeader("Accept", "application/json").Do(ctx).Raw()
	switch {
	case apierrors.IsNotFound(err):
		info.upgrading = false
		return nil
	case err != nil:
		return err
	}
	info.upgrading, err = progressing(raw)
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

// serverVersion is the document /version. Under emulation the version that counts
// is the emulated one; servers that cannot emulate leave it out.
type serverVersion struct {
	Major, Minor, GitVersion       string
	EmulationMajor, EmulationMinor string
}

func (c Clients) readVersion(ctx context.Context, info *serverInfo) error {
	raw, err := c.core.Get().AbsPath(versionPath).Do(ctx).Raw()
	if err != nil {
		return err
	}
	version, err := parseVersion(raw)
	if err == nil {
		info.version = version
	}
	return err
}

func parseVersion(raw []byte) (inventory.Version, error) {
	var document serverVersion
	if err := json.Unmarshal(raw, &document); err != nil {
		return inventory.Version{}, fmt.Errorf("reading %s: %w", versionPath, err)
	}
	if document.EmulationMinor == "" {
		document.EmulationMajor, document.EmulationMinor = document.Major, document.Minor
	}
	v, err := inventory.ParseVersion(document.EmulationMajor + "." + document.EmulationMinor)
	if err != nil {
		return inventory.Version{}, err
	}
	v.Git = document.GitVersion
	return v, nil
}

// discover reads what the API server serves. A group whose discovery fails is
// reported, and what it served before is kept.
func (c Clients) discover(ctx context.Context, info *serverInfo) error {
	found, err := discover(ctx, c.core)
	if err != nil {
		return err
	}
	served := found.served
	for _, s := range info.served {
		if _, ok := found.failed[schema.GroupVersion{Group: s.Group, Version: s.Version}]; ok {
			served = append(served, s)
		}
	}
	info.served = served
	info.openShift = slices.Contains(found.groups, openShiftGroup)
	info.errors = undiscovered(found.failed)
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

// reviewsGate is the line of /metrics, up to its value, with the feature gate that
// excludes reviews from webhooks.
const reviewsGate = `kubernetes_feature_enabled{name="ExcludeAdmissionWebhookVirtualResources"`

// readGates reads the feature gate from /metrics, where that is allowed. A
// refusal is no failure: then the version decides, as in versions without the
// gate.
func (c Clients) readGates(ctx context.Context, info *serverInfo) error {
	if info.version.Known() && !info.version.AtLeast(1, 37) {
		info.reviewsExcluded = nil
		return nil
	}
	if !info.gatesRead.IsZero() {
		return nil
	}
	excluded, err := c.readGate(ctx)
	if refusal := (failure{err: err}); err != nil && !refusal.refused() && !refusal.notServed() {
		return err
	}
	info.reviewsExcluded, info.gatesRead = excluded, time.Now()
	return nil
}

func (c Clients) readGate(ctx context.Context) (*bool, error) {
	body, err := c.core.Get().AbsPath(metricsPath).SetHeader("Accept", "text/plain").Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return findGate(body)
}

// findGate reads up to the line: the document has some megabytes.
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
