package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/cmd/webhook-auditor/arguments"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// asWritten is what a file leaves open.
const asWritten = "the object is taken as it is written: a field that the API server may fill in is not known, and mutating webhooks may change it before the others see it"

// requestFlags describe a request, together with OPERATION RESOURCE [NAME].
type requestFlags struct {
	subject admission.Subject
	labels  string
	labeled func() bool
	file    string
}

func registerRequest(flags *pflag.FlagSet) *requestFlags {
	r := &requestFlags{}
	flags.StringVarP(&r.subject.Namespace, "namespace", "n", "", "namespace of the object (default: default)")
	flags.StringVarP(&r.labels, "labels", "l", "", "object labels (k=v,…); use '' for no labels; unset means unknown")
	flags.StringVar(&r.subject.Version, "api-version", "", "API version of the request, for example v1 or apps/v1 (default: the preferred one)")
	flags.StringVarP(&r.file, "filename", "f", "", "file with the object (- for stdin); OPERATION defaults to create, RESOURCE to the kind of the object")
	r.labeled = func() bool { return flags.Changed("labels") }
	return r
}

func (r *requestFlags) isGiven() bool {
	return r.labeled() || r.subject.Namespace+r.subject.Version+r.file != ""
}

// requestArguments are a request to explain, as the user names it.
type requestArguments struct {
	operation, resource string
	subject             admission.Subject
	notes               []string
}

// read reads OPERATION RESOURCE [NAME], and with --filename the object, which
// says what it is itself; without an operation, it is created.
func (r *requestFlags) read(args []string, s streams) (requestArguments, error) {
	a := requestArguments{subject: r.subject}
	switch {
	case len(args) > 3:
		return a, usageError{fmt.Errorf("explain: unexpected argument %q", args[3])}
	case r.file == "" && len(args) < 2:
		return a, usageError{errors.New("explain: must be given OPERATION RESOURCE[/SUB] [NAME], for example: webhook-auditor explain create pods -n default; or a CHECK, -f FILE, or --error TEXT")}
	case r.file != "":
		object, err := r.object(s)
		if err != nil {
			return a, err
		}
		a.operation, a.resource, a.notes, a.subject.Object = "create", qualified(object), []string{asWritten}, object
	}
	fields := []*string{&a.operation, &a.resource, &a.subject.Name}
	for i, word := range args {
		*fields[i] = word
	}
	err := arguments.CheckOperation(a.operation)
	if err == nil && r.labeled() {
		if a.subject.Labels, err = parseLabels(r.labels); err != nil {
			err = fmt.Errorf("labels %q: %w", r.labels, err)
		}
	}
	if err = errors.Join(err, a.subject.Contradiction()); err != nil {
		return a, usageError{fmt.Errorf("explain: %w", err)}
	}
	return a, nil
}

func parseLabels(typed string) (labels.Set, error) {
	set, err := labels.ConvertSelectorToLabelsMap(typed)
	if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "<nil>: "))
	}
	for part := range strings.SplitSeq(typed, ",") {
		if key, value, found := strings.Cut(part, "="); found &&
			set[strings.TrimSpace(key)] != strings.TrimSpace(value) {
			return nil, fmt.Errorf("%s must have one value", strings.TrimSpace(key))
		}
	}
	return set, nil
}

// chain is what becomes of the request where the Snapshot was taken.
func (a requestArguments) chain(knowledge knowledge) (admission.Chain, error) {
	a.subject.User, a.subject.Lookup = knowledge.user, storedIn(knowledge.Snapshot)
	if knowledge.stored != nil {
		a.subject.Lookup = knowledge.stored
	}
	request, err := arguments.Request(knowledge.Matcher, a.operation, a.resource, a.subject)
	if notServed := (arguments.NotServedError{}); errors.As(err, &notServed) {
		return admission.Chain{}, fmt.Errorf("explain: %w", err)
	}
	if err != nil {
		return admission.Chain{}, usageError{fmt.Errorf("explain: %w", err)}
	}
	request.Notes = slices.Concat(request.Notes, a.notes, unread(knowledge.Snapshot, request.Resource))
	return knowledge.withParams(request), nil
}

// unread is a note on the registrations that an answer about the resource leaves open, as they
// cannot be read.
func unread(s *inventory.Snapshot, r inventory.Resource) []string {
	var what []string
	for _, t := range []inventory.Type{inventory.Mutating, inventory.Validating, inventory.Conversion} {
		isBuiltin := func(served inventory.Served) bool { return served.Resource == r.Parent() }
		if s.Unread(inventory.Ref{Type: t}) &&
			(t != inventory.Conversion || !slices.ContainsFunc(inventory.Builtins(s.Server, s.OpenShift), isBuiltin)) {
			what = append(what, t.Resource().Resource)
		}
	}
	if len(s.Inputs) == 0 && !s.PoliciesKnown {
		what = append(what, "admission policies")
	}
	if len(what) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("not all %s were read: they may refuse or change the request as well", classify.JoinBounded(what))}
}

// maxObject is more than an API server takes.
const maxObject = 16 << 20

func (r *requestFlags) object(s streams) (map[string]any, error) {
	found, err := r.objects(s)
	switch {
	case err != nil:
	case len(found) != 1:
		err = fmt.Errorf("must be one object, not %d", len(found))
	case stringOf(found[0], "kind") == "" || stringOf(found[0], "apiVersion") == "":
		err = errors.New("must have apiVersion and kind")
	case found[0]["items"] != nil:
		err = errors.New("must be one object, not a list")
	}
	if err != nil {
		name := inventory.Input{Path: r.file}.Name()
		if r.file == "-" {
			name = cmp.Or(s.readerName, name)
		}
		return nil, usageError{fmt.Errorf("reading the object %s: %w", name, err)}
	}
	return found[0], nil
}

func (r *requestFlags) objects(s streams) ([]map[string]any, error) {
	file, err := opened(r.file, s)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxObject+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxObject {
		return nil, fmt.Errorf("it has more than %d MiB, which no API server takes: name a file with one object", maxObject>>20)
	}
	out, err := manifest.Values(bytes.NewReader(b))
	if err != nil && len(out) > 0 {
		return nil, errors.New("something follows the object: must be one object and nothing else")
	}
	return out, err
}

func opened(path string, s streams) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.reader), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the path is named before
	}
	return f, nil
}

// ofSubresources are the kinds that one subresource alone takes, and that.
var ofSubresources = map[string]string{"eviction.policy": "pods/eviction", "tokenrequest.authentication.k8s.io": "serviceaccounts/token"}

// qualified names the object's kind as kubectl takes it: "deployment.apps".
func qualified(object map[string]any) string {
	kind := schema.FromAPIVersionAndKind(stringOf(object, "apiVersion"), stringOf(object, "kind"))
	name := strings.ToLower(kind.GroupKind().String())
	return cmp.Or(ofSubresources[name], name)
}

func stringOf(object map[string]any, key string) string {
	s, _ := object[key].(string)
	return s
}

// knowledge is what requests are explained by: the Snapshot, who makes them, and the
// objects that they change.
type knowledge struct {
	*admission.Matcher
	user *admission.User
	// stored reads the metadata of the object of a request, or says that there is
	// none, or why it cannot be read; nil without a cluster.
	stored func(admission.Request) (metadata map[string]any, absent bool, note string)
	// exists says whether there are such params, by the rights of who asks; nil without a
	// cluster.
	exists func(admission.ParamQuery) (bool, error)
}

// storedIn has of stored objects what was read with the registrations: the namespaces.
func storedIn(s *inventory.Snapshot) func(admission.Request) (map[string]any, bool, string) {
	return func(r admission.Request) (map[string]any, bool, string) {
		if !r.Resource.Parent().IsNamespaces() {
			return nil, false, ""
		}
		namespace, exists := s.Namespaces[r.Name]
		if !exists {
			return nil, s.NamespacesKnown, ""
		}
		set := map[string]any{}
		for key, value := range namespace.Labels {
			set[key] = value
		}
		return map[string]any{"name": r.Name, "labels": set}, false, ""
	}
}

// withParams is the chain of the request by what the cluster has of the params that
// policies ask for.
func (k knowledge) withParams(r admission.Request) admission.Chain {
	c := k.Chain(r)
	if k.exists == nil {
		return c
	}
	var notes []string
	exist := map[*inventory.PolicyBinding]admission.Match{}
	for b, q := range k.ParamQueries(c) {
		exist[b] = admission.No
		if found, err := k.exists(q); err != nil {
			exist[b] = admission.Maybe
			notes = append(notes, fmt.Sprintf("whether the params of binding %s exist is not known: %v", b.Object.Name, err))
		} else if found {
			exist[b] = admission.Yes
		}
	}
	slices.Sort(notes)
	r.Notes = slices.Concat(r.Notes, notes)
	return k.WithParams(exist).Chain(r)
}

func (e *explain) knowledge(ctx context.Context, m *admission.Matcher) knowledge {
	k := knowledge{
		Matcher: m, user: admission.NewUser(e.access.overrides.AuthInfo.Impersonate,
			e.access.overrides.AuthInfo.ImpersonateGroups),
	}
	if len(e.paths) > 0 || e.offline {
		return k
	}
	connect := sync.OnceValues(e.access.connect)
	k.stored = func(r admission.Request) (map[string]any, bool, string) {
		parent := r.Resource.Parent()
		namespace := r.Namespace
		if parent.IsNamespaces() {
			namespace = ""
		}
		c, err := connect()
		if err == nil {
			var metadata map[string]any
			resource := schema.GroupVersionResource{Group: parent.Group, Version: r.Version, Resource: parent.Name}
			if metadata, err = c.clients.Metadata(ctx, resource, namespace, r.Name); err == nil {
				return metadata, false, ""
			}
		}
		if apierrors.IsNotFound(err) {
			return nil, true, ""
		}
		return nil, false, fmt.Sprintf("the object is not known: reading %s %s: %v", parent, r.Name, err)
	}
	k.exists = func(q admission.ParamQuery) (bool, error) {
		c, err := connect()
		if err != nil {
			return false, err
		}
		resource := schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource.Name}
		if q.Name == "" {
			return c.clients.Selects(ctx, resource, q.Namespace, q.Selector)
		}
		if _, err = c.clients.Metadata(ctx, resource, q.Namespace, q.Name); apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	}
	return k
}
