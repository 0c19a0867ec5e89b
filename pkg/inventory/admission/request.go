package admission

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Subject is the object that a request is about, as far as it is given.
type Subject struct {
	Namespace string
	// Name is "" where it is not given.
	Name string
	// Labels are all labels of the object; nil where they are unknown.
	Labels map[string]string
	// Version is that of the API in which the request is made, "v1" or
	// "apps/v1"; "" is the one that discovery prefers.
	Version string
	// Object is the object itself; nil where it is unknown.
	Object map[string]any
	// Partial says that the object may have fields, and labels, that Object lacks.
	Partial bool
	// Patch says that an update is a PATCH, which creates an object as a server-side
	// apply alone.
	Patch bool
	// Stored is the metadata of the object as the API server has it; nil where that
	// is unknown.
	Stored map[string]any
	Absent bool
	// Lookup, if any, says what is stored of the object that a request changes or deletes, or
	// that there is none, or in a note why that is unknown.
	Lookup func(Request) (stored map[string]any, absent bool, note string)
	// User is who makes the request; nil where that is unknown.
	User *User
}

// Unlabeled are the labels of an object that has none which an objectSelector would ask for.
var Unlabeled = map[string]string{}

// Request is one request as admission sees it. Matcher.Request makes it: what
// else the API server knows of it comes from there.
type Request struct {
	Operation Operation
	Resource  inventory.Resource
	Version   string
	Kind      Kind
	// Namespace is "" for cluster-scoped resources, and a Namespace's own name.
	Namespace string
	Name      string
	// Object is what the request writes, or deletes; nil where it is not given.
	Object map[string]any
	// Notes say how the request was understood, where that is not obvious.
	Notes []string

	*requestContext
}

// requestContext is what the API server knows of a request beyond what it
// carries. All fields are read-only but the memo.
type requestContext struct {
	namespaced bool
	// exempt says that the API server calls no webhook for it.
	exempt bool
	// unjudged says that no policy of the API is evaluated for it.
	unjudged bool
	// namespaceUnknown is set where Namespace is unknown.
	namespaceUnknown bool
	// namespaceLabels are what the namespaceSelector is compared with; objectLabels
	// and oldLabels, those that an updated object had until then, what the
	// objectSelector is.
	namespaceLabels, objectLabels, oldLabels labelSet
	// foreign says that the kind is not that of the parent.
	foreign bool
	// patched says that it is a PATCH, partial that Object is not all of the object.
	patched, partial bool
	// stored is the metadata of the object as it is; nil where that is unknown.
	stored map[string]any
	// whole says that Object is all of the object as admission has it, and storedWhole all
	// of the one that is stored.
	whole       bool
	storedWhole map[string]any
	user        *User
	// created is what an update of Matcher.OpenRequest is where its object does not
	// exist yet; nil where the API server refuses that.
	created *Request
	// equivalents are the other versions, and resources, that are stored as one
	// with it.
	equivalents []apiVersion
	programs    programs
	index       *index
	// activations are what expressions read of it: to make one takes longer than to
	// evaluate most expressions.
	activations *memo[stage, cel.PartialActivation]
}

type apiVersion struct {
	inventory.Resource
	Version    string
	Kind       Kind
	Namespaced bool
	Served     bool
}

// Presumed reports whether the input does not show the resource.
func (v apiVersion) Presumed() bool { return v.Kind.Kind == "" }

// Request returns the request to the resource, or why the API server would not
// serve it. An update leaves the labels of its object as they are, and finds the
// object.
func (m *Matcher) Request(op Operation, r inventory.Resource, subject Subject) (Request, error) {
	request, _, err := m.newRequest(op, r, &subject)
	return request, err
}

// newRequest is Request, and what it is if it creates its object. The subject gets what is looked up.
func (m *Matcher) newRequest(op Operation, r inventory.Resource, subject *Subject) (Request, func() Request, error) {
	version, err := subject.version(r)
	if err != nil {
		return Request{}, nil, err
	}
	v, err := m.served(op, r, version)
	if err != nil {
		return Request{}, nil, err
	}
	moved, looked := "", ""
	*subject, moved = v.withNamespace(*subject)
	if subject.Lookup != nil && subject.Name != "" && (op == Update || op == Delete) {
		subject.Stored, subject.Absent, looked = subject.Lookup(Request{
			Resource: r, Version: v.Version, Namespace: subject.Namespace, Name: subject.Name,
		})
	}
	request := m.request(v, op, *subject)
	if err := m.otherKind(request, subject.Object); err != nil {
		return Request{}, nil, err
	}
	presumed := ""
	if v.Presumed() {
		presumed = fmt.Sprintf("the input has no CRD of %s: its kind, versions and scope are not known, and the rules that name it are the answer", r.Parent())
	}
	notes := []string{presumed, moved, foreignNote(request, *subject), m.absentNote(request), looked}
	request.Notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	return request, func() Request { return m.request(v, Create, *subject) }, nil
}

// absentNote says that the namespace of a request does not exist. Source: the plugin
// NamespaceLifecycle of k8s.io/apiserver, which comes before all webhooks.
func (m *Matcher) absentNote(r Request) string {
	_, exists := m.Snapshot.Namespaces[r.Namespace]
	if exists || !m.Snapshot.NamespacesKnown || !r.namespaced || r.namespaceUnknown || r.Namespace == "" {
		return ""
	}
	return fmt.Sprintf("namespace %s does not exist", r.Namespace) + Otherwise
}

// Otherwise ends the note that the API server answers 404.
const Otherwise = ": the API server answers 404 and calls no webhook; this is what would be called if it did"

// OpenRequest is Request where an update may change the labels of its object, and
// may create it.
func (m *Matcher) OpenRequest(op Operation, r inventory.Resource, subject Subject) (Request, error) {
	request, create, err := m.newRequest(op, r, &subject)
	if err != nil || op != Update && op != Delete {
		return request, err
	}
	how := ""
	if op == Update {
		request.oldLabels, how = labelsBefore(request, subject), m.createdBy(r, subject)
	}
	switch {
	case how != "" && subject.Absent:
		notes := append(request.Notes, fmt.Sprintf("the object does not exist: %s of %s is a CREATE", how, r))
		request = create()
		request.Notes = notes
	case how != "":
		request.created = new(create())
		request.Notes = append(request.Notes, fmt.Sprintf("where the object does not exist, and the client may create it, %s of %s is a CREATE", how, r))
	case subject.Absent:
		request.Notes = append(request.Notes, "the object does not exist"+Otherwise)
	}
	return request, nil
}

// labelsBefore are those that the object of an update has until then.
func labelsBefore(r Request, subject Subject) labelSet {
	switch {
	case r.Resource.Subresource == "scale" && r.Kind.Kind == scaleKind:
		return r.oldLabels
	case subject.Stored != nil:
		return storedLabels(subject)
	}
	return withNameLabel(anyLabels, namespaceName(r))
}

func storedLabels(s Subject) labelSet {
	return labelSet{values: labelsOf(map[string]any{"metadata": s.Stored}), complete: true}
}

// createdBy names the update that creates its object, "" where none does or the
// object is known to exist.
func (m *Matcher) createdBy(r inventory.Resource, subject Subject) string {
	switch {
	case subject.Stored != nil:
		return ""
	case subject.Patch && (createdByUpdate.Has(r) || r.Subresource == "" && m.index.target(r).operations.Has(Create)):
		return "a server-side apply"
	case !subject.Patch && createdByUpdate.Has(r):
		return "a PUT"
	}
	return ""
}

func (m *Matcher) served(op Operation, r inventory.Resource, version string) (apiVersion, error) {
	if _, served := m.index.targets[r]; !served {
		return apiVersion{}, fmt.Errorf("reading resource %q: %s", r, m.Snapshot.NotServed(r.Group))
	}
	if served := m.index.target(r).operations; !served.Has(op) {
		verb := strings.ToLower(string(op))
		return apiVersion{}, fmt.Errorf("reading operation %q: the API server does not %s %s; it takes %s", verb, verb, r, verbs(served))
	}
	return m.version(r, version)
}

// withNamespace defaults the namespace of the object, as kubectl does, and returns a
// note where it leaves out the one that was given.
func (v apiVersion) withNamespace(subject Subject) (Subject, string) {
	namespace := subject.Namespace
	switch {
	case v.Presumed() && cmp.Or(namespace, nested(subject.Object, "metadata", "namespace")) == "":
		return subject, "" // it may be cluster-scoped
	case v.Namespaced:
		subject.Namespace = cmp.Or(namespace, nested(subject.Object, "metadata", "namespace"), corev1.NamespaceDefault)
		return subject, ""
	case namespace == "":
		return subject, ""
	}
	subject.Namespace = ""
	return subject, fmt.Sprintf("%s is cluster-scoped: namespace %s is left out", v.Resource, namespace)
}

// createdByUpdate are the resources of which a PUT creates the object that does
// not exist, for a client that may create them: to admission it is a CREATE.
// Source: AllowCreateOnUpdate of the strategies in k8s.io/kubernetes/pkg/registry.
var createdByUpdate = sets.New(inventory.ResourcesNamed(`endpoints events limitranges services services/status
	leasecandidates.coordination.k8s.io leases.coordination.k8s.io events.events.k8s.io runtimeclasses.node.k8s.io
	clusterrolebindings.rbac.authorization.k8s.io clusterroles.rbac.authorization.k8s.io
	rolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io`)...)

// otherKind refuses an object that the request cannot be about: neither of the
// kind that it sends nor of that of the resource.
func (m *Matcher) otherKind(r Request, object map[string]any) error {
	kind := nested(object, "kind")
	if kind == "" || kind == r.Kind.Kind {
		return nil
	}
	for _, parent := range m.index.servedVersions(r.Resource.Parent()) {
		if parent.Kind.Kind == kind || parent.Presumed() {
			return nil
		}
	}
	return fmt.Errorf("reading the object: its kind is %s, and %s takes %s: leave RESOURCE out, or name a file with that", kind, r.Resource, r.Kind.Kind)
}

// version is that of the API in which the request is made: that of its object, unless another
// group has the kind, as that of Evictions.
func (s Subject) version(r inventory.Resource) (string, error) {
	own, _ := schema.ParseGroupVersion(nested(s.Object, "apiVersion"))
	switch version := strings.TrimPrefix(s.Version, r.Group+"/"); {
	case own.Version == "" || own.Group != r.Group:
		return s.Version, nil
	case version != "" && version != own.Version:
		return "", fmt.Errorf("reading the object: it is of %s, not %s: the version must be given once", own, s.Version)
	}
	return own.Version, nil
}

// Contradiction refuses what is given of the object where the object itself says otherwise, as the
// API server does.
func (s Subject) Contradiction() error {
	for key, value := range map[string]string{"namespace": s.Namespace, "name": s.Name} {
		if own := nested(s.Object, "metadata", key); value != "" && own != "" && value != own {
			return fmt.Errorf("reading the object: its %s is %s, not %s: the %[1]s must be given once", key, own, value)
		}
	}
	for key, value := range labelsOf(s.Object) {
		if labels := s.Labels; labels != nil && labels[key] != value {
			return fmt.Errorf("reading the object: its label %s is %s: labels that are given beside it must have it", key, value)
		}
	}
	return nil
}

// foreignNote says that what was given of an object may be that of another one, "" where
// it is not: an Eviction carries none of the labels of its Pod.
func foreignNote(r Request, subject Subject) string {
	if !r.foreign || r.Operation == Connect || subject.Labels == nil && (subject.Object == nil || r.Object != nil) {
		return ""
	}
	article := "a"
	if r.Kind.Kind == "Eviction" {
		article = "an"
	}
	return fmt.Sprintf("a request to %s carries %s %s: objectSelectors and matchConditions meet what that has, not what its parent has. A Scale has no labels, nor have the Bindings of kube-scheduler and the Evictions of kubectl drain", r.Resource, article, r.Kind.Kind)
}

func (m *Matcher) request(v apiVersion, op Operation, subject Subject) Request {
	x := m.index
	sent := subject
	if v.Presumed() && subject.Object != nil {
		v.Kind.Kind = nested(subject.Object, "kind")
	}
	if kind := nested(subject.Object, "kind"); kind != "" && kind != v.Kind.Kind {
		sent.Object = nil // it is the parent of what is sent, of which nothing is known
	}
	r := Request{
		Operation: op,
		Resource:  v.Resource,
		Version:   v.Version,
		Kind:      v.Kind,
		Namespace: subject.Namespace,
		Name:      cmp.Or(subject.Name, nested(subject.Object, "metadata", "name")),
		Object:    asDecoded(sent.Object),
		requestContext: &requestContext{
			user:         subject.User,
			namespaced:   v.Namespaced,
			exempt:       x.target(v.Resource).exempt,
			unjudged:     slices.Contains(neverJudged, v.Resource.Parent()),
			objectLabels: objectLabels(v, op, sent),
			foreign:      x.isForeign(v),
			patched:      subject.Patch,
			partial:      subject.Partial,
			equivalents:  x.equivalents(v),
			programs:     x.programs,
			index:        x,
			activations:  newMemo[stage, cel.PartialActivation](),
		},
	}
	if r.Resource.IsNamespaces() {
		r.Namespace = r.Name // Source: k8s.io/apiserver/pkg/endpoints/handlers
		r.objectLabels = withNameLabel(r.objectLabels, r.Name)
	}
	if !r.foreign {
		r.stored = subject.Stored
	}
	r.oldLabels = r.objectLabels
	if isScale(v) {
		r.oldLabels = labelSet{complete: true}
	}
	r.namespaceUnknown = r.Namespace == "" && (v.Namespaced || r.Resource.IsNamespaces())
	r.namespaceLabels = m.selectedLabels(r)
	return r
}

// isForeign reports whether a request to the subresource carries another kind than
// its parent.
func (x *index) isForeign(v apiVersion) bool {
	parents := x.servedVersions(v.Resource.Parent())
	return v.Subresource != "" && (len(parents) == 0 || parents[0].Kind.Kind != v.Kind.Kind)
}

// selectedLabels are the labels that a namespaceSelector meets: those of the
// namespace, but of a Namespace that is written its own. Source:
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace.
func (m *Matcher) selectedLabels(r Request) labelSet {
	switch {
	case r.Resource.Name == "namespaces" && r.Resource.Subresource == "" && (r.Operation == Create || r.Operation == Update):
		return r.objectLabels
	case r.namespaceUnknown:
		return anyNamespaceLabels
	}
	return m.namespaceLabels(r.Namespace)
}

// namespaceLabels are those of a namespace. Of one that the input lacks only
// the name is known, unless the input holds all namespaces: then it does not
// exist, and starts with its name alone.
func (m *Matcher) namespaceLabels(name string) labelSet {
	if n, ok := m.Snapshot.Namespaces[name]; ok {
		return withNameLabel(labelSet{values: n.Labels, complete: true}, name)
	}
	return withNameLabel(labelSet{complete: m.Snapshot.NamespacesKnown}, name)
}

func withNameLabel(l labelSet, name string) labelSet {
	return labelSet{values: inventory.WithNameLabel(l.values, name), complete: l.complete}
}

// objectLabels are those of the object that is written or deleted. The API
// server makes a Scale without labels. Source: scaleFromDeployment and its like
// in k8s.io/kubernetes/pkg/registry, and the scale of custom resources.
func objectLabels(v apiVersion, op Operation, subject Subject) labelSet {
	switch {
	case isScale(v) && subject.Object == nil:
		return labelSet{complete: true}
	case op == Delete && subject.Stored != nil:
		return storedLabels(subject)
	case subject.Labels == nil && subject.Object != nil && !subject.Partial:
		subject.Labels = labelsOf(subject.Object)
	}
	isJob := v.Kind.Kind == "Job"
	switch {
	case subject.Labels == nil:
		return anyLabels
	case len(subject.Labels) == 0 && (isJob || v.Kind.Kind == "ReplicationController"):
		// It takes those of its template, to which the strategy of Jobs adds. Source: SetDefaults_Job
		// and SetDefaults_ReplicationController in k8s.io/kubernetes/pkg/apis.
		spec, _ := subject.Object["spec"].(map[string]any)
		template, _ := spec["template"].(map[string]any)
		return labelSet{values: labelsOf(template), complete: !isJob && subject.Object != nil}
	}
	return labelSet{values: subject.Labels, complete: true}
}

const scaleKind = "Scale"

func isScale(v apiVersion) bool { return v.Subresource == "scale" && v.Kind.Kind == scaleKind }

// namespaceName is the name of the Namespace that the request is about, "" of
// another object.
func namespaceName(r Request) string {
	if r.Resource.IsNamespaces() {
		return r.Name
	}
	return ""
}

func labelsOf(object map[string]any) map[string]string {
	out := map[string]string{}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	for key, value := range labels {
		if s, ok := value.(string); ok {
			out[key] = s
		}
	}
	return out
}

// nested returns the string at the path, "" where there is none.
func nested(object map[string]any, path ...string) string {
	for _, key := range path[:len(path)-1] {
		object, _ = object[key].(map[string]any)
	}
	s, _ := object[path[len(path)-1]].(string)
	return s
}

// Intercepts says whether the webhook is called for the requests to a resource
// of an existing namespace: no if for none, yes if for all, else maybe. A
// Namespace is its own namespace.
func (m *Matcher) Intercepts(w *inventory.Webhook, r inventory.Resource, op Operation, namespace string) Verdict {
	return m.InterceptsSubject(w, r, op, Subject{Namespace: namespace})
}

// InterceptsSubject is Intercepts for one object. Writing a Namespace is taken
// to leave its labels as they are.
func (m *Matcher) InterceptsSubject(w *inventory.Webhook, r inventory.Resource, op Operation, subject Subject) Verdict {
	var all Verdict
	for _, v := range m.index.servedVersions(r) {
		verdict := m.cachedRequest(v, op, subject).Match(w)
		switch all.Match {
		case "":
			all = verdict
		case verdict.Match:
		default:
			all.Match = Maybe
		}
	}
	if all.Match == "" {
		return Verdict{Match: No, Reason: ReasonRules}
	}
	return all
}

// cachedRequest makes the request once for all webhooks, where nothing but its
// namespace and name is given.
func (m *Matcher) cachedRequest(v apiVersion, op Operation, subject Subject) Request {
	if subject.Object != nil || subject.Labels != nil || subject.User != nil {
		return m.request(v, op, m.withScope(v, subject))
	}
	key := requestKey{v.Resource, v.Version, op, subject.Namespace, subject.Name}
	return m.requests.getOrCompute(key, func() Request { return m.request(v, op, m.withScope(v, subject)) })
}

// withScope fills in the namespace or the name, as the scope of the resource has it.
func (m *Matcher) withScope(v apiVersion, subject Subject) Subject {
	if v.Resource.IsNamespaces() {
		subject.Name = cmp.Or(subject.Name, subject.Namespace)
		if l := m.namespaceLabels(subject.Name); subject.Labels == nil && l.complete {
			subject.Labels = l.values
		}
	}
	if !v.Namespaced {
		subject.Namespace = ""
	}
	return subject
}

type requestKey struct {
	inventory.Resource
	version         string
	op              Operation
	namespace, name string
}

func verbs(ops Operations) string {
	words := lists.Map(ops.List(), func(op Operation) string { return strings.ToLower(string(op)) })
	return cmp.Or(strings.Join(words, ", "), "none that webhooks are called for")
}

func (m *Matcher) version(r inventory.Resource, typed string) (apiVersion, error) {
	served := m.index.servedVersions(r)
	names := lists.Map(served, func(v apiVersion) string { return v.Version })
	want := strings.TrimPrefix(typed, r.Group+"/")
	if typed == "" {
		want = m.preferredOf(r, names)
	}
	if i := slices.Index(names, want); i >= 0 {
		return served[i], nil
	}
	return apiVersion{}, fmt.Errorf("reading API version %q: %s is served in %s", typed, r, strings.Join(names, ", "))
}

func (m *Matcher) preferredOf(r inventory.Resource, versions []string) string {
	if crd := m.Snapshot.CRDs[r.Name+"."+r.Group]; crd != nil {
		if best := m.preferredVersion(crd); slices.Contains(versions, best) {
			return best
		}
	}
	return preferred(versions)
}
