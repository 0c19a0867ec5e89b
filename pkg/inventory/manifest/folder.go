package manifest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// folder is a directory as a source tree: which of its files are objects. What a
// kustomization that builds lists are the objects; a file that none lists is one where it is
// whole.
type folder struct {
	kustomizations map[string]*kustomization // by folder
	// skipped are the folders that are not read, and the files that were built or are a part
	// of a kustomization without being an object.
	skipped map[string]bool
}

// kustomization is what the file of one lists.
type kustomization struct {
	file, folder string
	bases        []string
	component    bool
	// patches is set of one that changes what it builds on, and incomplete of one that such a one
	// builds on which cannot be built: its workloads lack what the patches add.
	patches, incomplete bool
	// describesBundle is set of one with the base of a ClusterServiceVersion, or that builds on
	// such a one: operator-sdk makes a bundle of them, in which samples are examples. It is
	// applied by no one.
	describesBundle bool
}

const chartFile = "Chart.yaml"

// survey looks for the kustomizations and charts below a directory.
func survey(input *input) *folder {
	d := &folder{kustomizations: map[string]*kustomization{}, skipped: map[string]bool{}}
	// A folder that cannot be read is reported where its files are read.
	_ = filepath.WalkDir(input.path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
		case entry.IsDir():
			return d.enter(input, name)
		case entry.Type().IsRegular() && slices.Contains(kustomizationNames, entry.Name()):
			d.add(input, name)
		}
		return nil
	})
	for _, k := range d.kustomizations {
		k.describesBundle = k.describesBundle || slices.ContainsFunc(slices.Collect(maps.Keys(d.below(k))),
			func(name string) bool { return d.kustomizations[name].describesBundle })
	}
	return d
}

// enter skips the folders that hold no objects of the tree: charts but for kustomizations beside
// them, and code of others.
func (d *folder) enter(input *input, name string) error {
	chart, base := name, filepath.Base(name)
	if base == "templates" {
		chart = filepath.Dir(name)
	}
	_, err := os.Stat(filepath.Join(chart, chartFile))
	switch inChart := d.skipped[filepath.Dir(name)]; {
	case inChart && slices.Contains([]string{"charts", "crds", "templates"}, base):
		return fs.SkipDir
	case inChart && err != nil:
		d.skipped[name] = true
		return nil
	case err == nil && chart == name:
		input.unread = append(input.unread, fmt.Sprintf("chart %s is not rendered: helm template --include-crds %s | webhook-auditor audit -", chart, chart))
		d.skipped[name] = true
		return nil
	case err == nil:
		input.unread = append(input.unread, fmt.Sprintf("chart %s is not rendered: helm template --include-crds %s | webhook-auditor audit -", chart, chart))
	case name == input.path || base != "node_modules" && (base != "vendor" || filepath.Base(filepath.Dir(name)) == "namespaces"):
		return nil
	}
	d.skipped[name] = true
	return fs.SkipDir
}

func (d *folder) add(input *input, file string) {
	k := &kustomization{file: file, folder: filepath.Dir(file)}
	tree := map[string]any{}
	data, _ := os.ReadFile(file)
	_ = yaml.Unmarshal(data, &tree) // kustomize says what cannot be read
	k.component = tree["kind"] == "Component"
	for _, name := range basesOfBundles(k.folder) {
		k.describesBundle, d.skipped[name] = true, true
	}
	for field, value := range tree {
		k.patches = k.patches || strings.HasPrefix(field, "patches") || field == "components"
		for _, name := range pathsIn(map[string]any{field: value}, "") {
			full := filepath.Join(k.folder, name)
			switch info, err := os.Stat(full); {
			case err == nil && info.IsDir():
				k.bases = append(k.bases, full)
			case field != "resources" && field != "bases", k.component && k.folder != input.path:
				d.skipped[full] = true
			}
		}
	}
	d.kustomizations[k.folder] = k
}

// basesOfBundles are the files below the folder of a kustomization of which operator-sdk makes a
// ClusterServiceVersion.
func basesOfBundles(folder string) (out []string) {
	for _, base := range []string{"", "bases", "*/bases"} {
		versions, _ := filepath.Glob(filepath.Join(folder, base, "*.clusterserviceversion.yaml"))
		out = append(out, versions...)
	}
	return out
}

// below are the folders of the kustomizations that one builds on, however indirectly.
func (d *folder) below(k *kustomization) map[string]bool {
	out, queue := map[string]bool{}, slices.Clone(k.bases)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if base := d.kustomizations[name]; base != nil && !out[name] {
			out[name] = true
			queue = append(queue, base.bases...)
		}
	}
	return out
}

// roots are the kustomizations on which no other one builds, and what kubebuilder deploys, which
// overlays may build on; of some that build on one another, all. What it deploys comes first.
func (d *folder) roots() []*kustomization {
	below, based := map[string]map[string]bool{}, map[string]bool{}
	for name, k := range d.kustomizations {
		if !k.component && (!k.describesBundle || len(d.bases(k)) == 0) {
			below[name] = d.below(k)
		}
	}
	for name, bases := range below {
		for base := range bases {
			based[base] = based[base] || !below[base][name]
		}
	}
	var out []*kustomization
	for _, name := range slices.Sorted(maps.Keys(below)) {
		switch {
		case filepath.Base(name) == deployedFolder:
			out = slices.Insert(out, 0, d.kustomizations[name])
		case !based[name]:
			out = append(out, d.kustomizations[name])
		}
	}
	return out
}

// deployedFolder is the folder of the kustomization that kubebuilder's projects deploy.
const deployedFolder = "default"

// unit are the objects that are applied together: what a kustomization makes, or the files of
// a folder.
type unit struct {
	// name is its folder, and kustomized is set where it was built.
	name       string
	kustomized bool
	// webhooks are how many its registrations have, and crds its CRDs; left is set where it is not
	// read.
	webhooks, crds int
	left           bool
}

// remarks say what of a file is not read as it stands.
type remarks []remark

type remark struct {
	file *file
	text string
}

// texts are those of files that are not left out.
func (r remarks) texts() (out []string) {
	for _, one := range r {
		if one.file.unit == nil || !one.file.unit.left {
			out = append(out, one.text)
		}
	}
	return out
}

// noted is an object that is still to be applied, and its unit, if it has one.
type noted struct {
	inventory.Manifest
	unit *unit
}

// builtBelow reads what kustomize makes of the roots. One that cannot be built hands on to
// those that it builds on.
func (r *reader) builtBelow(input *input, d *folder) {
	tried := map[string]bool{}
	for next := d.roots(); len(next) > 0; {
		pending := next
		next = nil
		for _, k := range pending {
			if tried[k.folder] || k.component {
				continue
			}
			tried[k.folder] = true
			b := kustomize(k.file)
			if b.err != nil {
				input.unread = append(input.unread, b.failure())
				for name := range d.below(k) {
					d.kustomizations[name].incomplete = d.kustomizations[name].incomplete || k.patches || k.incomplete
				}
				next = append(next, d.bases(k)...)
				continue
			}
			for name := range b.used {
				tried[name] = tried[name] || d.kustomizations[name] != nil
				d.skipped[name] = d.skipped[name] || d.kustomizations[name] == nil
			}
			r.built(input, b, k.incomplete)
		}
	}
}

// bases are the kustomizations below the directory that one builds on.
func (d *folder) bases(k *kustomization) []*kustomization {
	var out []*kustomization
	for _, name := range k.bases {
		if base := d.kustomizations[name]; base != nil {
			out = append(out, base)
		}
	}
	return out
}

// keep adds the objects of the units. Of those that make other forms of the same objects, as
// overlays of one base do, a cluster has one: that with the most webhooks is read.
func (r *reader) keep(input *input) {
	if input.layout == plain {
		input.exclude()
	}
	for _, o := range input.found {
		if !o.file.unit.left {
			r.add(o)
		}
	}
	input.found = nil
}

// exclude marks the units that are not read, and says of what they are other forms.
func (in *input) exclude() {
	others := in.leaveOlder()
	forms := map[*unit]map[string]string{}
	for _, o := range in.found {
		if forms[o.file.unit] == nil {
			forms[o.file.unit] = map[string]string{}
		}
		o.addForms(forms[o.file.unit])
	}
	sorted := slices.SortedStableFunc(slices.Values(in.units),
		func(a, b *unit) int { return cmp.Compare(a.rank(), b.rank()) })
	formOf, owner := map[string]string{}, map[string]*unit{}
	for _, u := range sorted {
		if u.left {
			continue
		}
		if rival := rivalOf(u, forms[u], formOf, owner); rival != nil {
			u.left = true
			if u.name != rival.name && !slices.Contains(others[rival], u.name) {
				others[rival] = append(others[rival], u.name)
			}
			continue
		}
		for key := range forms[u] {
			if formOf[key] == "" {
				formOf[key], owner[key] = forms[u][key], u
			}
		}
	}
	for _, u := range in.units {
		if len(others[u]) > 0 {
			in.unread = append(in.unread, overlays(u.name, others[u]))
		}
	}
}

// rank sorts what is built before files, more webhooks before fewer, the overlay that
// kubebuilder names default before others, and more CRDs before fewer.
func (u *unit) rank() string {
	return fmt.Sprintf("%t %06d %t %06d", !u.kustomized, 999_999-u.webhooks, filepath.Base(u.name) != deployedFolder, 999_999-u.crds)
}

// rivalOf is the unit that makes another form of one of the objects, nil where none does.
// Other objects than registrations decide where leaving the unit out loses no registration.
func rivalOf(u *unit, forms, owners map[string]string, owner map[string]*unit) *unit {
	keys := slices.Sorted(maps.Keys(forms))
	isNew := func(key string) bool { return strings.HasPrefix(key, registered) && owners[key] == "" }
	isOther := func(kinds string) bool {
		return slices.ContainsFunc(keys, func(key string) bool {
			return strings.HasPrefix(key, kinds) && owners[key] != "" && owners[key] != forms[key]
		})
	}
	// A configuration and a Deployment of one name each are the same software, with other webhooks.
	adds := !u.kustomized || slices.ContainsFunc(keys, isNew) && !(isOther("{Deployment ") && isOther(configured))
	for _, key := range keys {
		if owners[key] != "" && owners[key] != forms[key] && (strings.HasPrefix(key, registered) || !adds) {
			return owner[key]
		}
	}
	return nil
}

// registered starts the keys of the forms of registrations and policies.
const registered = "+"

// configured starts the keys of webhook configurations as a whole.
const configured = "="

// addForms adds the object as it is kept, by kind and name; a webhook configuration by the
// names of its webhooks, which no overlay changes.
func (o object) addForms(forms map[string]string) {
	if i := o.file.installation; o.key.Kind == "Namespace" || i != nil && i.isStored() {
		return
	}
	content, _ := json.Marshal(o.value) // it was read from JSON
	key, form := fmt.Sprint(o.key), join(o.key.Kind, o.key.Name)+string(content)
	for _, h := range o.hooks {
		forms[registered+o.key.Kind+h.name] = form
	}
	o.file.unit.webhooks += len(o.hooks)
	if o.key.Kind == inventory.KindCRD {
		o.file.unit.crds++
	}
	switch {
	case len(o.hooks) > 0:
		forms[configured+key] = form
	case o.key.Kind == inventory.KindCRD || slices.Contains(policyKinds, o.key.Kind):
		forms[registered+key] = form
	default:
		forms[key] = form
	}
}

func overlays(read string, left []string) string {
	slices.Sort(left)
	all := strings.Join(left[:min(3, len(left))], ", ")
	if more := len(left) - 3; more > 0 {
		all += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("not read, as other forms of the objects of %s: %s; for one: webhook-auditor audit %s", read, all, left[0])
}

// isPatch reports whether an object of the file is a part that is merged into another one: of a
// file that is named, a CRD without a group, else whatever lacks what an API server requires.
// What an API server has stored, or a kustomization made, is whole.
func (f *file) isPatch(object metav1.Object) bool {
	crd, isCRD := object.(*apiextensionsv1.CustomResourceDefinition)
	switch {
	case f.incomplete && isWorkload(object):
		return true
	case !f.plain || object.GetUID() != "" || object.GetResourceVersion() != "" || !f.lenient && f.member != "":
		return false
	case !f.lenient:
		return isCRD && crd.Spec.Group == ""
	}
	return object.GetName()+object.GetGenerateName() == "" || isPartial(object)
}

func isWorkload(object metav1.Object) bool {
	switch object.(type) {
	case *appsv1.Deployment, *appsv1.StatefulSet, *appsv1.DaemonSet:
		return true
	}
	return false
}

// isPartial reports whether an object lacks what an API server requires of it.
func isPartial(object metav1.Object) bool {
	// Some software writes the rules of its webhooks itself: what it ships has all else.
	isCalled := func(w admissionv1.ValidatingWebhook) bool {
		return (w.ClientConfig.Service != nil || w.ClientConfig.URL != nil) &&
			(len(w.Rules) > 0 || w.SideEffects != nil && len(w.AdmissionReviewVersions) > 0)
	}
	switch o := object.(type) {
	case *admissionv1.ValidatingWebhookConfiguration, *admissionv1.MutatingWebhookConfiguration:
		return !slices.ContainsFunc(inventory.WebhooksOf(o), isCalled)
	case *apiextensionsv1.CustomResourceDefinition:
		return o.Spec.Group == "" || len(o.Spec.Versions) == 0 && o.Spec.Names.Kind == ""
	case *admissionv1.ValidatingAdmissionPolicy:
		return o.Spec.MatchConstraints == nil
	case *admissionv1.MutatingAdmissionPolicy:
		return o.Spec.MatchConstraints == nil
	case *appsv1.Deployment:
		return o.Spec.Selector == nil
	case *appsv1.StatefulSet:
		return o.Spec.Selector == nil
	case *appsv1.DaemonSet:
		return o.Spec.Selector == nil
	case *corev1.Service:
		return inventory.LacksPorts(o.Spec)
	}
	return false
}

// rendered reports the templates, most often files of a chart: one line for all.
func (r *reader) rendered(input *input) {
	if len(input.templates) == 0 {
		return
	}
	cure := "no chart shows how"
	for name := filepath.Dir(input.templates[0].name); name != filepath.Dir(name); name = filepath.Dir(name) {
		if filepath.Base(name) == "templates" {
			cure = fmt.Sprintf("helm template %s | webhook-auditor audit -", filepath.Dir(name))
			break
		}
	}
	r.failed(input.templates[0], 0, fmt.Errorf("%s to render first: %s", inventory.Counted(len(input.templates), "template"), cure))
}
