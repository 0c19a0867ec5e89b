// Package operator holds the auditor as an operator against a real control
// plane: what it writes, who writes it, and who may read it.
package operator

import (
	"context"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/metrics"
	"github.com/webhook-auditor/webhook-auditor/e2e/webhook"
	"github.com/webhook-auditor/webhook-auditor/e2e/world"
)

// elected are the flags of a replica that shows errors at once.
var elected = []string{"--leader-elect", "--namespace=" + world.Home, "--degraded.inertia=1s"}

// older is as servers up to 1.36 are: reviews are sent to webhooks.
const older = "--feature-gates=ExcludeAdmissionWebhookVirtualResources=false"

// breakage is a way for a backend to be of no use, its cure and the reason that
// conditions give.
type breakage struct {
	name, reason  string
	breaks, heals func(webhook.Backend, context.Context) error
}

var breakages = []breakage{
	{"service", "WebhookServiceNotFound", webhook.Backend.DeleteService, webhook.Backend.CreateService},
	{
		"port", "WebhookServicePortNotFound",
		func(b webhook.Backend, ctx context.Context) error { return b.SetPort(ctx, 444) },
		func(b webhook.Backend, ctx context.Context) error { return b.SetPort(ctx, webhook.Port) },
	},
	{"endpoints", "WebhookServiceNoEndpoints", webhook.Backend.DeleteEndpoints, webhook.Backend.CreateEndpoints},
}

// registrations are the types of webhooks and the conditions they turn True.
var registrations = []struct {
	name, condition string
	register        func(testing.TB, *world.World, webhook.Backend)
}{
	{"validating", "ValidatingAdmissionWebhookConfigurationError", func(t testing.TB, w *world.World, b webhook.Backend) {
		w.Validate(t, b.Namespace, world.Hook(b, world.Rule("", "configmaps")))
	}},
	{"mutating", "MutatingAdmissionWebhookConfigurationError", func(t testing.TB, w *world.World, b webhook.Backend) {
		w.Mutate(t, b.Namespace, world.Hook(b, world.Rule("", "configmaps")))
	}},
	{"conversion", "CRDConversionWebhookConfigurationError", func(t testing.TB, w *world.World, b webhook.Backend) {
		w.Widgets(t, b.Namespace+".example.com", b.Conversion("/convert"))
	}},
}

// well is a condition that has nothing to say.
func well(name string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionFalse, Reason: "AsExpected"}
}

// TestConditions breaks each type of webhook in each way: the conditions tell,
// and stop telling after the cure.
func TestConditions(t *testing.T) {
	w := world.New(t, cluster.Options{APIServerFlags: []string{older}})
	w.Operated(t)
	w.Audit(t, elected...)
	w.Reaches(t, well("Degraded"))
	t.Run("objects", func(t *testing.T) { describe(t, w) })
	for _, r := range registrations {
		for _, broken := range breakages {
			t.Run(r.name+" "+broken.name, func(t *testing.T) {
				b := w.Backend(t, r.name+"-"+broken.name)
				r.register(t, w, b)
				w.Reaches(t, well(r.condition))
				world.Must(t, broken.breaks(b, t.Context()))
				w.Reaches(t, metav1.Condition{Type: r.condition, Status: metav1.ConditionTrue, Reason: broken.reason, Message: b.Namespace})
				w.Reaches(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Reason: r.condition + "_" + broken.reason})
				world.Must(t, broken.heals(b, t.Context()))
				w.Reaches(t, well(r.condition))
				w.Reaches(t, well("Degraded"))
			})
		}
	}
	t.Run("virtual resource", func(t *testing.T) { interceptReviews(t, w) })
	t.Run("what does not degrade", func(t *testing.T) { tolerate(t, w) })
	t.Run("Events", func(t *testing.T) { announce(t, w) })
}

// describe wants what the cluster version operator and must-gather read.
func describe(t *testing.T, w *world.World) {
	status, found, err := w.Status(t.Context(), world.ClusterOperator)
	world.Must(t, err)
	if len(status.Versions) != 1 || status.Versions[0].Name != "operator" || status.Versions[0].Version == "" {
		t.Errorf("versions: %+v", status.Versions)
	}
	related := map[string]bool{}
	for _, o := range status.RelatedObjects {
		related[o.Resource+"."+o.Group] = true
	}
	for _, resource := range []string{
		"mutatingwebhookconfigurations.admissionregistration.k8s.io",
		"validatingwebhookconfigurations.admissionregistration.k8s.io",
	} {
		if !related[resource] {
			t.Errorf("relatedObjects lack %s: %+v", resource, status.RelatedObjects)
		}
	}
	if owners := found.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "Namespace" || owners[0].Name != world.Home {
		t.Errorf("owners: %+v", owners)
	}
	for _, want := range []metav1.Condition{
		{Type: "Available", Status: metav1.ConditionTrue},
		well("Progressing"),
		{Type: "Upgradeable", Status: metav1.ConditionTrue},
	} {
		w.Reaches(t, want)
	}
}

func interceptReviews(t *testing.T, w *world.World) {
	b := w.Backend(t, "virtual")
	h := world.Hook(b, world.Rule("authentication.k8s.io", "tokenreviews"))
	w.Validate(t, b.Namespace, h)
	const condition, reason = "VirtualResourceAdmissionError", "AdmissionWebhookMatchesVirtualResource"
	w.Reaches(t, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: reason, Message: h.Name})
	w.Reaches(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Reason: condition + "_" + reason})
	w.Unregister(t, b.Namespace)
	w.Reaches(t, well(condition))
	w.Reaches(t, well("Degraded"))
}

// tolerate registers what is no reason to degrade, and then what is: all that
// Degraded tells is the latter.
func tolerate(t *testing.T, w *world.World) {
	ignored := w.Backend(t, "tolerated-ignore")
	world.Must(t, ignored.DeleteService(t.Context()))
	h := world.Hook(ignored, world.Rule("", "configmaps"))
	h.FailurePolicy = new(admissionv1.Ignore)
	w.Validate(t, ignored.Namespace, h)

	flaky := w.Backend(t, "tolerated-flaky")
	h = world.Hook(flaky, world.Rule("", "configmaps"))
	h.ClientConfig = flaky.Admission("/fail-every/10")
	w.Validate(t, flaky.Namespace, h)

	sensitive := w.Backend(t, "tolerated-sensitive")
	w.Validate(t, sensitive.Namespace, world.Hook(sensitive, world.Rule("", "secrets")))
	core := w.Backend(t, "openshift-tolerated-core")
	w.Validate(t, core.Namespace, world.Hook(core, world.Rule("apps", "deployments")))

	broken := w.Backend(t, "not-tolerated")
	world.Must(t, broken.DeleteService(t.Context()))
	w.Validate(t, broken.Namespace, world.Hook(broken, world.Rule("", "configmaps")))
	w.Reaches(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Message: "not-tolerated"})
	for _, target := range world.Targets {
		status, _, err := w.Status(t.Context(), target)
		world.Must(t, err)
		for _, c := range status.Conditions {
			if contains(c.Message, "tolerated-ignore", "tolerated-flaky", "tolerated-sensitive", "tolerated-core") {
				t.Errorf("%s tells of what is tolerated: %s", c.Type, c.Message)
			}
		}
	}
	w.Unregister(t, broken.Namespace)
	w.Reaches(t, well("Degraded"))
}

func announce(t *testing.T, w *world.World) {
	b := w.Backend(t, "announced")
	w.Validate(t, b.Namespace, world.Hook(b, world.Rule("", "configmaps")))
	world.Must(t, b.DeleteService(t.Context()))
	w.Announced(t, b.Namespace, "Warning", "service-missing: webhook announced.e2e.example.com")
	world.Must(t, b.CreateService(t.Context()))
	w.Announced(t, b.Namespace, "Normal", "service-missing: no longer true of webhook announced.e2e.example.com")
	made, err := w.Kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), b.Namespace, metav1.GetOptions{})
	world.Must(t, err)
	events, err := w.Events(t.Context(), b.Namespace)
	world.Must(t, err)
	for _, e := range events {
		if e.InvolvedObject.UID != made.UID {
			t.Errorf("an Event on %+v, want uid %s", e.InvolvedObject, made.UID)
		}
	}
}

// TestUninstall deletes the auditor's namespace: nothing of it stays, for an
// orphaned ClusterOperator pages.
func TestUninstall(t *testing.T) {
	w := world.New(t, cluster.Options{})
	w.Operated(t)
	a := w.Audit(t, elected...)
	w.Reaches(t, well("Degraded"))
	world.Must(t, w.Kube.CoreV1().Namespaces().Delete(t.Context(), world.Home, metav1.DeleteOptions{}))
	world.Eventually(t, world.Patience, func() error { // the kubelet would do so
		_, err := w.Kube.CoreV1().Namespaces().Get(t.Context(), world.Home, metav1.GetOptions{})
		return missing(err)
	})
	world.Must(t, a.Stop())
	for _, target := range world.Targets {
		world.Eventually(t, 3*world.Patience, func() error { // the garbage collector learns of CRDs by and by
			_, _, err := w.Status(t.Context(), target)
			return missing(err)
		})
	}
}

// missing wants an object to be gone.
func missing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		return apierrors.NewConflict(world.ClusterOperator.Resource.GroupResource(), "still there", nil)
	}
	return err
}

// TestOlderBuild: a condition that an older build wrote and this one dropped
// leaves; one that somebody else added stays.
func TestOlderBuild(t *testing.T) {
	w := world.New(t, cluster.Options{WithoutControllers: true})
	w.Operated(t)
	for _, target := range world.Targets {
		w.Wrote(t, target, "webhook-auditor", well("DroppedError"))
		w.Wrote(t, target, "somebody-else", well("ForeignCondition"))
	}
	w.Audit(t, elected...)
	w.Reaches(t, well("Degraded"))
	for _, target := range world.Targets {
		status, _, err := w.Status(t.Context(), target)
		world.Must(t, err)
		kept := map[string]bool{}
		for _, c := range status.Conditions {
			kept[c.Type] = true
		}
		if kept["DroppedError"] || !kept["ForeignCondition"] {
			t.Errorf("%s: kept %v, want ForeignCondition and not DroppedError", target.Name, kept)
		}
	}
}

// TestFutureStamps: a writer whose clock was ten minutes ahead does not delay
// what is to be told now.
func TestFutureStamps(t *testing.T) {
	w := world.New(t, cluster.Options{WithoutControllers: true})
	w.Operated(t)
	const condition = "ValidatingAdmissionWebhookConfigurationError"
	ahead := metav1.Condition{Type: condition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(10 * time.Minute))}
	for _, target := range world.Targets {
		w.Wrote(t, target, "webhook-auditor", ahead)
	}
	b := w.Backend(t, "ahead")
	world.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, b.Namespace, world.Hook(b, world.Rule("", "configmaps")))
	w.Audit(t, elected...)
	w.Reaches(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Reason: condition})
}

// TestUpgrade: while the ClusterVersion is progressing, backends come and go.
func TestUpgrade(t *testing.T) {
	w := world.New(t, cluster.Options{WithoutControllers: true})
	w.Operated(t)
	w.Install(t, world.OpenShift(t, "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml"))
	w.Progressing(t, metav1.ConditionTrue)
	b := w.Backend(t, "upgraded")
	world.Must(t, b.DeleteService(t.Context()))
	w.Validate(t, b.Namespace, world.Hook(b, world.Rule("", "configmaps")))
	w.Audit(t, elected...)
	w.Reaches(t, metav1.Condition{Type: "ValidatingAdmissionWebhookConfigurationError", Status: metav1.ConditionTrue, Reason: "WebhookServiceNotFound"})
	w.Reaches(t, metav1.Condition{Type: "Degraded", Status: metav1.ConditionFalse, Message: "being upgraded"})
	w.Progressing(t, metav1.ConditionFalse)
	const reading = 2 * time.Minute // the ClusterVersion is read once a minute
	for _, target := range world.Targets {
		world.Eventually(t, reading, func() error {
			return w.Condition(t.Context(), target, metav1.Condition{Type: "Degraded", Status: metav1.ConditionTrue, Message: b.Namespace})
		})
	}
}

// TestOlderServers audits servers of older versions: what they send to
// webhooks, and whether the auditor says so.
func TestOlderServers(t *testing.T) {
	for _, version := range []struct {
		flag    string
		reviews bool
	}{
		{"--feature-gates=ExcludeAdmissionWebhookVirtualResources=true", false},
		{older, true},
		{"--emulated-version=1.36", true},
		{"--emulated-version=1.35", true},
		{"--emulated-version=1.34", true},
	} {
		t.Run(version.flag, func(t *testing.T) {
			w := world.New(t, cluster.Options{APIServerFlags: []string{version.flag}, WithoutControllers: true})
			w.Operated(t)
			a := w.Audit(t, elected...)
			b := w.Backend(t, "virtual")
			w.Validate(t, b.Namespace, world.Hook(b, world.Rule("authentication.k8s.io", "tokenreviews")))
			check := "dead-rule"
			if version.reviews {
				check = "virtual-resource"
			}
			_, err := a.Eventually(t.Context(), metrics.Present(auditor.Prefix+"finding", metrics.Labels{"check": check, "configuration": b.Namespace}))
			world.Must(t, err)
			if version.reviews {
				w.Reaches(t, metav1.Condition{Type: "VirtualResourceAdmissionError", Status: metav1.ConditionTrue})
			}
			got, err := auditor.Command(t.Context(), world.Binary(t), "audit", "--kubeconfig="+w.Plane.Kubeconfig(), "-o=json", "--fail-on=never")
			world.Must(t, err)
			if got.Code != 0 || !contains(got.Stdout, `"check": "`+check+`"`, `"check":"`+check+`"`) {
				t.Errorf("audit: %+v", got)
			}
		})
	}
}
