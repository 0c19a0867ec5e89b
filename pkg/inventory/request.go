package inventory

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Subject is the object that a request is about, as far as it is known.
type Subject struct {
	Namespace string
	// Name is "" where it is not known.
	Name string
	// Labels are all labels of the object; nil where they are not known.
	Labels map[string]string
	// Version is that of the API in which the request is made, "v1" or
	// "apps/v1"; "" is the one that discovery prefers.
	Version string
	// Object is the object itself; nil where it is not known.
	Object map[string]any
}

// Request is one request as admission sees it. Snapshot.Request makes it: what
// else the API server knows of it comes from there.
type Request struct {
	Operation Operation
	Resource  Resource
	Version   string
	Kind      Kind
	// Namespace is "" for cluster-scoped resources, and a Namespace's own name.
	Namespace string
	Name      string
	// Object is what the request writes, or deletes; nil where not known.
	Object map[string]any
	// Notes say how what was typed was understood, where that is not obvious.
	Notes []string

	*circumstances
}

// circumstances are what the API server knows of a request beyond what it
// carries. All fields are read-only but the memo.
type circumstances struct {
	namespaced bool
	// never says that the API server calls no webhook for it.
	never bool
	// anywhere says that Namespace is not known.
	anywhere bool
	// namespace and object are the labels that the selectors meet, before those
	// that an updated object carried until then.
	namespace, object, before labelSet
	// created is what the request is where its object does not exist yet; nil
	// where that is refused, or not to be asked about.
	created *Request
	// equivalents are the other versions, and resources, that are stored as one
	// with it.
	equivalents []apiVersion
	memo        *memo
}

// apiVersion is a version of a resource with its kind.
type apiVersion struct {
	Resource
	Version    string
	Kind       Kind
	Namespaced bool
	Served     bool
}

// Request reads what a user of kubectl types: an operation (create, update,
// patch, delete, connect) and a resource (pods, deployments.apps, pods/exec, or
// a singular, kind or short name). An update leaves the labels of its object as
// they are, and finds the object.
func (s *Snapshot) Request(operation, resource string, subject Subject) (Request, error) {
	request, _, err := s.typed(operation, resource, subject)
	return request, err
}

// OpenRequest is Request where an update may change the labels, and may find no
// object.
func (s *Snapshot) OpenRequest(operation, resource string, subject Subject) (Request, error) {
	r, v, err := s.typed(operation, resource, subject)
	if err != nil || r.Operation != Update {
		return r, err
	}
	if !isScale(v) {
		r.before = named(anyLabels, namespaceName(r))
	}
	if strings.EqualFold(operation, "update") && createdByUpdate[r.Resource] {
		subject, _ = v.place(subject)
		created := s.request(v, Create, subject)
		r.created = &created
		r.Notes = append(r.Notes, fmt.Sprintf("where the object does not exist, and the client may create it, a PUT of %s is a CREATE", r.Resource))
	}
	return r, nil
}

// typed reads what was typed, and the version of the resource that it is about.
func (s *Snapshot) typed(operation, resource string, subject Subject) (Request, apiVersion, error) {
	r, notes, err := s.resolve(resource)
	if err != nil {
		return Request{}, apiVersion{}, err
	}
	op, note, err := s.operation(operation, r)
	if err != nil {
		return Request{}, apiVersion{}, err
	}
	v, err := s.version(r, subject.Version)
	if err != nil {
		return Request{}, apiVersion{}, err
	}
	subject, more := v.place(subject)
	request := s.request(v, op, subject)
	if err := s.otherKind(request, subject.Object); err != nil {
		return Request{}, apiVersion{}, err
	}
	notes = append(notes, note, more, s.ownLabels(request, subject), parentNote(request, subject.Object))
	request.Notes = slices.DeleteFunc(notes, func(s string) bool { return s == "" })
	return request, v, nil
}

// place puts the object where it lives, as kubectl does.
func (v apiVersion) place(subject Subject) (Subject, string) {
	given := subject.Namespace
	switch {
	case v.Namespaced:
		subject.Namespace = cmp.Or(given, nested(subject.Object, "metadata", "namespace"), corev1.NamespaceDefault)
		return subject, ""
	case given == "":
		return subject, ""
	}
	subject.Namespace = ""
	return subject, fmt.Sprintf("%s is cluster-scoped: namespace %s is left out", v.Resource, given)
}

// createdByUpdate are the resources of which a PUT creates the object that does
// not exist, for a client that may create them: to admission it is a CREATE.
// Source: AllowCreateOnUpdate of the strategies in k8s.io/kubernetes/pkg/registry.
var createdByUpdate = map[Resource]bool{
	{Name: "endpoints"}:                       true,
	{Name: "events"}:                          true,
	{Name: "limitranges"}:                     true,
	{Name: "services"}:                        true,
	{Name: "services", Subresource: "status"}: true,
	{Group: "coordination.k8s.io", Name: "leasecandidates"}:           true,
	{Group: "coordination.k8s.io", Name: "leases"}:                    true,
	{Group: "events.k8s.io", Name: "events"}:                          true,
	{Group: "node.k8s.io", Name: "runtimeclasses"}:                    true,
	{Group: "rbac.authorization.k8s.io", Name: "clusterrolebindings"}: true,
	{Group: "rbac.authorization.k8s.io", Name: "clusterroles"}:        true,
	{Group: "rbac.authorization.k8s.io", Name: "rolebindings"}:        true,
	{Group: "rbac.authorization.k8s.io", Name: "roles"}:               true,
}

// otherKind refuses an object that the request cannot be about: neither of the
// kind that it sends nor of that of the resource.
func (s *Snapshot) otherKind(r Request, object map[string]any) error {
	kind := nested(object, "kind")
	if kind == "" || kind == r.Kind.Kind {
		return nil
	}
	for _, parent := range s.lookup().servedVersions(r.Resource.Parent()) {
		if parent.Kind.Kind == kind {
			return nil
		}
	}
	return fmt.Errorf("reading the object: it is a %s, and %s takes a %s: leave RESOURCE out, or name a file with a %s", kind, r.Resource, r.Kind.Kind, r.Kind.Kind)
}

// parentNote says that the object is not what is sent, "" where it is.
func parentNote(r Request, object map[string]any) string {
	if object == nil || r.Object != nil {
		return ""
	}
	return fmt.Sprintf("the object is a %s, and a request to %s carries a %s, of which no more is known", nested(object, "kind"), r.Resource, r.Kind.Kind)
}

// ownLabels says whose labels were given, where that is easily mistaken: an
// Eviction carries none of its Pod.
func (s *Snapshot) ownLabels(r Request, subject Subject) string {
	if subject.Labels != nil && subject.Object == nil && r.Kind.Kind == scaleKind && r.Resource.Subresource == "scale" {
		return "a Scale carries no labels, whatever those of its parent: the labels given are left out"
	}
	parents := s.lookup().servedVersions(r.Resource.Parent())
	if subject.Labels == nil || r.Operation == Connect || len(parents) == 0 || parents[0].Kind.Kind == r.Kind.Kind {
		return ""
	}
	return fmt.Sprintf("objectSelectors meet the labels of the %s that is sent, not those of the %s", r.Kind.Kind, parents[0].Kind.Kind)
}

// request fills in what the API server knows.
func (s *Snapshot) request(v apiVersion, op Operation, subject Subject) Request {
	x := s.lookup()
	sent := subject
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
		Object:    sent.Object,
		circumstances: &circumstances{
			namespaced:  v.Namespaced,
			never:       x.never(v.Resource),
			object:      objectLabels(v, sent),
			equivalents: x.equivalents(v),
			memo:        newMemo(x.programs),
		},
	}
	if isNamespaces(r.Resource) {
		r.Namespace = r.Name // Source: k8s.io/apiserver/pkg/endpoints/handlers
		r.object = named(r.object, r.Name)
	}
	r.before = r.object
	if isScale(v) {
		r.before = labelSet{complete: true}
	}
	r.anywhere = r.Namespace == "" && (v.Namespaced || isNamespaces(r.Resource))
	r.namespace = s.selectedLabels(r)
	return r
}

// selectedLabels are the labels that a namespaceSelector meets: those of the
// namespace, but of a Namespace that is written its own. Source:
// k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/namespace.
func (s *Snapshot) selectedLabels(r Request) labelSet {
	switch {
	case r.Resource.Name == "namespaces" && r.Resource.Subresource == "" && (r.Operation == Create || r.Operation == Update):
		return r.object
	case r.anywhere:
		return anyNamespaceLabels
	}
	return s.namespaceLabels(r.Namespace)
}

// namespaceLabels are those of a namespace. Of one that the input lacks only
// the name is known, unless the input holds all namespaces: then it does not
// exist, and starts with its name alone.
func (s *Snapshot) namespaceLabels(name string) labelSet {
	if n, ok := s.Namespaces[name]; ok {
		return named(labelSet{known: n.Labels, complete: true}, name)
	}
	return named(labelSet{complete: s.NamespacesKnown}, name)
}

// named adds the label that the API server gives to every namespace.
func named(l labelSet, name string) labelSet {
	if name == "" || l.known[corev1.LabelMetadataName] == name {
		return l
	}
	known := maps.Clone(l.known)
	if known == nil {
		known = map[string]string{}
	}
	known[corev1.LabelMetadataName] = name
	return labelSet{known: known, complete: l.complete}
}

// objectLabels are those of the object that is written or deleted. The API
// server makes a Scale without labels. Source: scaleFromDeployment and its like
// in k8s.io/kubernetes/pkg/registry, and the scale of custom resources.
func objectLabels(v apiVersion, subject Subject) labelSet {
	switch {
	case isScale(v) && subject.Object == nil:
		return labelSet{complete: true}
	case subject.Object != nil && subject.Labels == nil:
		return labelSet{known: labelsOf(subject.Object), complete: true}
	case subject.Labels != nil:
		return labelSet{known: subject.Labels, complete: true}
	}
	return anyLabels
}

const scaleKind = "Scale"

func isScale(v apiVersion) bool { return v.Subresource == "scale" && v.Kind.Kind == scaleKind }

// namespaceName is the name of the Namespace that the request is about, "" of
// another object.
func namespaceName(r Request) string {
	if isNamespaces(r.Resource) {
		return r.Name
	}
	return ""
}

func labelsOf(object map[string]any) map[string]string {
	out := map[string]string{}
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	for key, value := range labels {
		if text, ok := value.(string); ok {
			out[key] = text
		}
	}
	return out
}

// nested returns the string at the path, "" where there is none.
func nested(object map[string]any, path ...string) string {
	for _, key := range path[:len(path)-1] {
		object, _ = object[key].(map[string]any)
	}
	text, _ := object[path[len(path)-1]].(string)
	return text
}

func isNamespaces(r Resource) bool { return r.Group == "" && r.Name == "namespaces" }

// Intercepts says whether the webhook is called for the requests to a resource
// of an existing namespace: no if for none, yes if for all, else maybe. A
// Namespace is its own namespace.
func (s *Snapshot) Intercepts(w *Webhook, r Resource, op Operation, namespace string) Verdict {
	return s.InterceptsSubject(w, r, op, Subject{Namespace: namespace})
}

// InterceptsSubject is Intercepts for one object. Writing a Namespace is taken
// to leave its labels as they are.
func (s *Snapshot) InterceptsSubject(w *Webhook, r Resource, op Operation, subject Subject) Verdict {
	var all Verdict
	for _, v := range s.lookup().servedVersions(r) {
		verdict := w.Reaches(s.ask(v, op, subject))
		switch all.Called {
		case "":
			all = verdict
		case verdict.Called:
		default:
			all.Called = Maybe
		}
	}
	if all.Called == "" {
		return Verdict{Called: No, Why: WhyRules}
	}
	return all
}

// ask makes the request, or finds it: thousands of webhooks are asked the same.
func (s *Snapshot) ask(v apiVersion, op Operation, subject Subject) Request {
	if subject.Object != nil || subject.Labels != nil {
		return s.request(v, op, s.settle(v, subject))
	}
	key := question{v.Resource, v.Version, op, subject.Namespace, subject.Name}
	return s.lookup().asked.of(key, func() Request { return s.request(v, op, s.settle(v, subject)) })
}

// settle puts the object of a program's question where it lives.
func (s *Snapshot) settle(v apiVersion, subject Subject) Subject {
	if isNamespaces(v.Resource) {
		subject.Name = cmp.Or(subject.Name, subject.Namespace)
		if l := s.namespaceLabels(subject.Name); subject.Labels == nil && l.complete {
			subject.Labels = l.known
		}
	}
	if !v.Namespaced {
		subject.Namespace = ""
	}
	return subject
}

// question identifies a Request of which no more is known.
type question struct {
	Resource
	version         string
	op              Operation
	namespace, name string
}

// operation reads the operation, and says what it is where it differs from
// what was typed.
func (s *Snapshot) operation(typed string, r Resource) (Operation, string, error) {
	served := s.lookup().operations(r)
	op, known := typedOperations[strings.ToLower(typed)]
	if connects[r] && (known || slices.Contains(readingVerbs, strings.ToLower(typed))) {
		return Connect, connectNote(op, r), nil
	}
	switch {
	case !known && slices.Contains(readingVerbs, strings.ToLower(typed)):
		return "", "", fmt.Errorf("reading operation %q: no webhook is ever called for reading; want create, update, patch, delete or connect", typed)
	case !known:
		return "", "", fmt.Errorf("reading operation %q: want create, update, patch, delete or connect", typed)
	case !served.Has(op):
		return "", "", fmt.Errorf("reading operation %q: the API server does not %s %s; it takes %s", typed, strings.ToLower(string(op)), r, spoken(served))
	}
	return op, "", nil
}

var typedOperations = map[string]Operation{"create": Create, "update": Update, "patch": Update, "delete": Delete, "connect": Connect}

var readingVerbs = []string{"get", "list", "watch"}

func connectNote(op Operation, r Resource) string {
	if op == Connect {
		return ""
	}
	return fmt.Sprintf("admission sees every request to %s as CONNECT", r)
}

// spoken lists the operations as they are typed.
func spoken(ops Operations) string {
	var words []string
	for _, op := range ops.List() {
		words = append(words, strings.ToLower(string(op)))
	}
	return cmp.Or(strings.Join(words, ", "), "none that webhooks are called for")
}

// version finds the version that is asked for, else the preferred one.
func (s *Snapshot) version(r Resource, typed string) (apiVersion, error) {
	served := s.lookup().servedVersions(r)
	var names []string
	for _, v := range served {
		names = append(names, v.Version)
	}
	want := strings.TrimPrefix(typed, r.Group+"/")
	if typed == "" {
		want = s.preferredOf(r, names)
	}
	if i := slices.Index(names, want); i >= 0 {
		return served[i], nil
	}
	return apiVersion{}, fmt.Errorf("reading API version %q: %s is served in %s", typed, r, strings.Join(names, ", "))
}

func (s *Snapshot) preferredOf(r Resource, versions []string) string {
	if crd := s.CRDs[r.Name+"."+r.Group]; crd != nil {
		if best := s.PreferredVersion(crd); slices.Contains(versions, best) {
			return best
		}
	}
	return preferred(versions)
}

// resolve finds the resource that a user of kubectl means: RESOURCE or
// RESOURCE.GROUP, with /SUBRESOURCE.
func (s *Snapshot) resolve(typed string) (Resource, []string, error) {
	main, sub, _ := strings.Cut(strings.TrimSpace(typed), "/")
	name, group, qualified := strings.Cut(main, ".")
	x := s.lookup()
	found := x.named(strings.ToLower(name))
	if qualified {
		found = slices.DeleteFunc(found, func(r Resource) bool { return r.Group != group })
	}
	if len(found) == 0 {
		return Resource{}, nil, fmt.Errorf("reading resource %q: the API server does not serve it%s", typed, suggested(x.similar(main)))
	}
	r := Resource{Group: found[0].Group, Name: found[0].Name, Subresource: sub}
	if len(x.servedVersions(r)) == 0 {
		return Resource{}, nil, fmt.Errorf("reading resource %q: %s has no subresource %s%s", typed, found[0], sub, suggested(x.subresources(found[0])))
	}
	return r, ambiguous(main, found), nil
}

func suggested(candidates []string) string {
	if len(candidates) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(candidates, ", ") + "?"
}

func ambiguous(typed string, found []Resource) []string {
	if len(found) == 1 {
		return nil
	}
	var others []string
	for _, r := range found[1:] {
		others = append(others, r.String())
	}
	return []string{fmt.Sprintf("%s is taken to be %s; there is also %s", typed, found[0], strings.Join(others, ", "))}
}
