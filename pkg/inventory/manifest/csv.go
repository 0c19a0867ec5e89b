package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// serviceVersion is what is read of a ClusterServiceVersion: what OLM makes of it.
// Source: pkg/operators/v1alpha1/clusterserviceversion_types.go of github.com/operator-framework/api.
type serviceVersion struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Version      string `json:"version"`
		InstallModes []struct {
			Type      string `json:"type"`
			Supported bool   `json:"supported"`
		} `json:"installModes"`
		Install struct {
			Spec struct {
				Deployments []struct {
					Name  string                `json:"name"`
					Label map[string]string     `json:"label"`
					Spec  appsv1.DeploymentSpec `json:"spec"`
				} `json:"deployments"`
			} `json:"spec"`
		} `json:"install"`
		CRDs struct {
			Owned []struct {
				Name string `json:"name"`
			} `json:"owned"`
		} `json:"customresourcedefinitions"`
		Webhooks []definition `json:"webhookdefinitions"`
	} `json:"spec"`
	Status struct {
		Phase  string `json:"phase"`
		Reason string `json:"reason"`
	} `json:"status"`
}

type definition struct {
	Type                        string              `json:"type"`
	GenerateName                string              `json:"generateName"`
	DeploymentName              string              `json:"deploymentName"`
	ContainerPort               int32               `json:"containerPort"`
	TargetPort                  *intstr.IntOrString `json:"targetPort"`
	Path                        *string             `json:"webhookPath"`
	CRDs                        []string            `json:"conversionCRDs"`
	admissionv1.MutatingWebhook `json:",inline"`
}

// unknownBundle stands for a CA bundle that is unknown: Authority.Blanked.
const unknownBundle = "xx"

func (c *serviceVersion) isStored() bool { return c.UID != "" || c.ResourceVersion != "" }

// isInstalled reports whether OLM makes objects of it: it copies one into other namespaces, keeps
// one for a while that another has replaced, and has not begun with one that lacks something.
func (c *serviceVersion) isInstalled() bool {
	_, copied := c.Labels["olm.copiedFrom"]
	return !copied && !slices.Contains([]string{"Pending", "Replacing", "Deleting"}, c.Status.Phase) &&
		!slices.Contains([]string{"Copied", "InvalidStrategy", "InvalidWebhookDescription", "OwnerConflict"}, c.Status.Reason)
}

// namespace is where it is installed; of a bundle, that which it suggests, or false.
func (c *serviceVersion) namespace() (string, bool) {
	if c.isStored() || c.Namespace != "" && c.Namespace != "placeholder" {
		return cmp.Or(c.Namespace, metav1.NamespaceDefault), true
	}
	suggested := c.Annotations["operatorframework.io/suggested-namespace"]
	return cmp.Or(suggested, metav1.NamespaceDefault), suggested != ""
}

// selector is the one of namespaces that OLM writes: all where the operator may be installed for
// all, else those with the label of its OperatorGroup.
func (c *serviceVersion) selector() *metav1.LabelSelector {
	for _, mode := range c.Spec.InstallModes {
		if mode.Type == "AllNamespaces" && mode.Supported {
			return nil
		}
	}
	if len(c.Spec.InstallModes) == 0 {
		return nil
	}
	return &metav1.LabelSelector{MatchLabels: map[string]string{"olm.operatorgroup.uid/UID": ""}}
}

// service is the Service that OLM makes for the definition.
// Source: pkg/controller/install/certresources.go of operator-lifecycle-manager.
func (d *definition) service(namespace string) admissionv1.ServiceReference {
	return admissionv1.ServiceReference{
		Namespace: namespace, Name: strings.ReplaceAll(d.DeploymentName, ".", "-") + "-service",
		Port: new(cmp.Or(d.ContainerPort, 443)), Path: d.Path,
	}
}

// installation is a ClusterServiceVersion in a file, and what OLM makes of it.
type installation struct {
	*serviceVersion
	file        *file
	namespace   string
	isPlaced    bool
	isOlder     bool // than another of its package in the directory
	conversions map[string]*apiextensionsv1.CustomResourceConversion
}

// release is the package of a bundle, and its version.
func (i *installation) release() (string, *version.Version) {
	name, written, _ := strings.Cut(i.Name, ".")
	if v, err := version.ParseSemantic(cmp.Or(i.Spec.Version, written)); err == nil {
		return name, v
	}
	return name, version.MustParseSemantic("0.0.0")
}

// leaveOlder leaves out what older bundles of a package make, of which it returns the folders, or
// files beside the newest, by the unit of the newest: OLM installs one of them.
func (in *input) leaveOlder() map[*unit][]string {
	newest, out := map[string]*installation{}, map[*unit][]string{}
	for _, o := range in.found {
		if i := o.file.installation; i != nil && !i.isStored() {
			name, v := i.release()
			if last := newest[name]; last != nil && last != i {
				if _, other := last.release(); !other.LessThan(v) {
					i, last = last, i
				}
				last.isOlder = true
			}
			newest[name] = i
		}
	}
	in.found = slices.DeleteFunc(in.found, func(o object) bool {
		i := o.file.installation
		if i == nil || !i.isOlder {
			return false
		}
		name, _ := i.release()
		unit, left := newest[name].file.unit, i.file.name
		if unit != i.file.unit {
			i.file.unit.left, left = true, i.file.unit.name
		}
		if !slices.Contains(out[unit], left) {
			out[unit] = append(out[unit], left)
		}
		return true
	})
	return out
}

// install reads what OLM makes of a ClusterServiceVersion as if it stood in its place.
func (r *reader) install(v value, csv *serviceVersion) {
	if !csv.isInstalled() {
		return
	}
	namespace, certain := csv.namespace()
	made := *v.file
	made.plain = false // OLM orders what it makes
	i := &installation{
		serviceVersion: csv, file: &made, namespace: namespace, isPlaced: certain,
		conversions: map[string]*apiextensionsv1.CustomResourceConversion{},
	}
	made.installation = i
	v.file = &made
	if !csv.isStored() {
		r.workloads(v, i)
	}
	r.definitions(v, i)
	if len(csv.Spec.Webhooks) > 0 {
		r.installations = append(r.installations, i)
	}
}

// workloads reads the Deployments, and the Services before those that serve webhooks.
func (r *reader) workloads(v value, i *installation) {
	deployments := v.showing(v.json).part("spec").part("install").part("spec").part("deployments")
	for n, d := range i.Spec.Install.Spec.Deployments {
		v.place = place{line: deployments.part(n).line}
		meta := metav1.ObjectMeta{Name: d.Name, Namespace: i.namespace, Labels: d.Label}
		r.made(v, appsv1.SchemeGroupVersion.WithKind("Deployment"), &appsv1.Deployment{ObjectMeta: meta, Spec: d.Spec})
		service := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace}}
		for _, w := range i.Spec.Webhooks {
			reference := w.service(i.namespace)
			port := corev1.ServicePort{
				Name: fmt.Sprint(*reference.Port), Port: *reference.Port, TargetPort: intstr.FromInt32(*reference.Port),
			}
			if w.TargetPort != nil {
				port.TargetPort = *w.TargetPort
			}
			if w.DeploymentName == d.Name && !slices.Contains(service.Spec.Ports, port) {
				service.Name, service.Spec.Ports = reference.Name, append(service.Spec.Ports, port)
			}
		}
		if service.Name != "" && d.Spec.Selector != nil {
			service.Spec.Selector = d.Spec.Selector.MatchLabels
			r.made(v, corev1.SchemeGroupVersion.WithKind("Service"), &service)
		}
	}
}

// fault is why OLM does not take the nth definition of a file, "" where it does.
func (c *serviceVersion) fault(n int) string {
	d, names := c.Spec.Webhooks[n], []string{}
	for _, deployment := range c.Spec.Install.Spec.Deployments {
		names = append(names, deployment.Name)
	}
	isAmong := func(same func(definition) bool) bool { return slices.ContainsFunc(c.Spec.Webhooks[:n], same) }
	port := func(d definition) int32 { return cmp.Or(d.ContainerPort, 443) }
	target := func(d definition) intstr.IntOrString { return ptr.Deref(d.TargetPort, intstr.FromInt32(port(d))) }
	switch {
	case c.isStored():
	case len(names) > 0 && !slices.Contains(names, d.DeploymentName):
		return fmt.Sprintf("deploymentName %q of webhook %s must be one of its deployments: %s", d.DeploymentName, d.GenerateName, strings.Join(names, ", "))
	case isAmong(func(o definition) bool { return o.GenerateName == d.GenerateName }):
		return fmt.Sprintf("generateName %s must be of one webhook alone", d.GenerateName)
	case isAmong(func(o definition) bool {
		return o.DeploymentName == d.DeploymentName && port(o) == port(d) && target(o) != target(d)
	}):
		return fmt.Sprintf("containerPort %d of deployment %s must have one targetPort alone", port(d), d.DeploymentName)
	case !slices.Contains([]string{"ConversionWebhook", "MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"}, d.Type):
		return fmt.Sprintf("%q is no type of webhook definition", d.Type)
	case d.Type == "ConversionWebhook" && len(d.CRDs) == 0:
		return fmt.Sprintf("conversionCRDs of webhook %s must name a CRD", d.GenerateName)
	}
	return ""
}

// definitions reads the configurations, one for each webhook, and notes the conversions.
// Source: pkg/controller/install/webhook.go of operator-lifecycle-manager.
func (r *reader) definitions(v value, i *installation) {
	definitions := v.showing(v.json).part("spec").part("webhookdefinitions")
	for n, d := range i.Spec.Webhooks {
		v.place = place{line: definitions.part(n).line}
		kind := inventory.KindMutating
		if fault := i.fault(n); fault != "" {
			r.fail(v.file, v.line, join("ClusterServiceVersion", i.Name), fault+"; OLM does not install it")
			continue
		}
		switch d.Type {
		case "ConversionWebhook":
			for _, crd := range d.CRDs {
				i.conversions[crd] = d.conversion(i.namespace)
			}
			continue
		case "ValidatingAdmissionWebhook":
			kind, d.ReinvocationPolicy = inventory.KindValidating, nil
		}
		d.Name, d.NamespaceSelector, d.MatchConditions = d.GenerateName, i.selector(), nil
		d.ClientConfig = admissionv1.WebhookClientConfig{
			Service: new(d.service(i.namespace)), CABundle: []byte(unknownBundle),
		}
		webhooks := []admissionv1.MutatingWebhook{d.MutatingWebhook}
		configuration := admissionv1.MutatingWebhookConfiguration{Webhooks: webhooks}
		configuration.Name = d.GenerateName             // OLM adds five letters: those of the next release differ
		if i.isStored() && d.NamespaceSelector != nil { // another namespace may have it, too
			configuration.Name += "-" + i.namespace
		}
		configuration.Labels = map[string]string{"olm.owner": i.Name, "olm.owner.namespace": i.namespace, descriptionLabel: d.GenerateName}
		r.made(v, admissionv1.SchemeGroupVersion.WithKind(kind), &configuration)
	}
}

// descriptionLabel leads from a configuration to the definition that OLM made it of.
const descriptionLabel = "olm.webhook-description-generate-name"

// conversion is what OLM writes into a CRD, whatever is there.
func (d *definition) conversion(namespace string) *apiextensionsv1.CustomResourceConversion {
	s := d.service(namespace)
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{
				Service: &apiextensionsv1.ServiceReference{
					Namespace: s.Namespace, Name: s.Name, Port: s.Port, Path: cmp.Or(s.Path, new("/")),
				},
				CABundle: []byte(unknownBundle),
			},
			ConversionReviewVersions: d.AdmissionReviewVersions,
		},
	}
}

func (r *reader) made(v value, gvk schema.GroupVersionKind, made metav1.Object) {
	v.json, _ = json.Marshal(made) // it was read from JSON
	r.object(v, gvk)
}

// convertCRDs writes the conversions of the ClusterServiceVersions that are read into the CRDs
// that are still to be applied.
func (r *reader) convertCRDs() {
	for _, i := range r.installations {
		if i.isOlder || i.file.unit != nil && i.file.unit.left {
			continue
		}
		if !i.isPlaced {
			i.file.input.unread = append(i.file.input.unread, fmt.Sprintf("the namespace of ClusterServiceVersion %s is not known: taken to be default", i.Name))
		}
		for _, name := range slices.Sorted(maps.Keys(i.conversions)) {
			n, read := r.index[inventory.SourceKey{Kind: inventory.KindCRD, Name: name}]
			if !read {
				i.file.input.unread = append(i.file.input.unread, fmt.Sprintf("the conversion of %s by ClusterServiceVersion %s is not read: no file has the CRD", name, i.Name))
				continue
			}
			if crd, ok := r.objects[n].value.(*apiextensionsv1.CustomResourceDefinition); ok && crd.UID == "" {
				i.file.input.unread = append(i.file.input.unread, i.remarks(crd)...)
				crd.Spec.Conversion = i.conversions[name]
				metav1.SetMetaDataLabel(&crd.ObjectMeta, "olm.owner", i.Name)
			}
		}
	}
}

// remarks are what of its conversion of a CRD goes wrong with OLM.
// Source: pkg/controller/install/webhook.go of operator-lifecycle-manager.
func (i *installation) remarks(crd *apiextensionsv1.CustomResourceDefinition) (out []string) {
	if i.isStored() {
		return nil
	}
	refused := fmt.Sprintf("OLM does not install ClusterServiceVersion %s, which converts %s: ", i.Name, crd.Name)
	owns := false
	for _, owned := range i.Spec.CRDs.Owned {
		owns = owns || owned.Name == crd.Name
	}
	if !owns {
		out = append(out, refused+"spec.customresourcedefinitions.owned lacks the CRD")
	}
	for _, mode := range i.Spec.InstallModes {
		if mode.Supported && mode.Type != "AllNamespaces" {
			out = append(out, refused+"its installModes must support AllNamespaces alone, not "+mode.Type)
		}
	}
	if crd.Spec.PreserveUnknownFields {
		out = append(out, refused+"its spec.preserveUnknownFields must be false")
	}
	if convertedByWebhook(crd) {
		out = append(out, fmt.Sprintf("%s has a spec.conversion of its own, which OLM applies before the operator of %s serves: leave it out of the bundle", crd.Name, i.Name))
	}
	return out
}

// isReplaced reports whether the configuration that OLM made of a definition is known, or would
// be if there were one.
func (r *reader) isReplaced(o object) bool {
	i := o.file.installation
	if i == nil || len(o.hooks) == 0 {
		return false
	}
	return slices.ContainsFunc(r.objects, func(other object) bool {
		if other.file.installation != nil || len(other.hooks) == 0 {
			return false
		}
		meta, _ := other.value.(metav1.Object)
		return i.isStored() && other.file.input == o.file.input ||
			other.key.Kind == o.key.Kind && meta.GetLabels()[descriptionLabel] == o.hooks[0].name
	})
}
