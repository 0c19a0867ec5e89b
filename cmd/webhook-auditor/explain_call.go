package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/utils/ptr"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/cluster/client"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/dryrun"
)

// callFlags say whether webhooks are called. No other command does that.
type callFlags struct{ call, urls, ignore bool }

func (c *callFlags) register(flags *pflag.FlagSet) {
	flags.BoolVar(&c.call, "call", false, "with -f, call the webhooks as dry runs, and show what each changes; needs create on services/proxy")
	flags.BoolVar(&c.urls, "call-urls", false, "with --call, also call webhooks that are registered by URL, from here")
	flags.BoolVar(&c.ignore, "ignore-differences", false, "with --call, print what webhooks change as the ignore rules of Argo CD and Flux")
}

var callMethods = map[string]string{"create": http.MethodPost, "update": http.MethodPut, "apply": http.MethodPatch, "delete": http.MethodDelete}

// optionsKinds are those of the options that webhooks get: of an apply, what it does.
var optionsKinds = map[admission.Operation]string{
	admission.Create: "CreateOptions", admission.Update: "UpdateOptions", admission.Delete: "DeleteOptions",
}

// check refuses flags that do not go together.
func (e *explain) checkCall(args []string) error {
	c := e.call
	switch {
	case !c.call && (c.urls || c.ignore):
		return usageError{errors.New("--call-urls and --ignore-differences: must be given with --call")}
	case !c.call:
		return nil
	case e.request.file == "" || len(e.paths) > 0 || e.offline:
		return usageError{errors.New("--call: must be given with -f and a cluster, without --from and --offline")}
	case len(args) > 0 && callMethods[args[0]] == "":
		return usageError{fmt.Errorf("--call: must be given for create, update, apply or delete, not %s", args[0])}
	case len(args) > 1 && strings.Contains(args[1], "/"):
		return usageError{errors.New("--call: must be given for an object, not a subresource")}
	}
	return nil
}

// caller sends reviews, and requests to the API server.
type caller struct {
	api  rest.Interface
	urls bool
}

// newCaller makes a client that sends JSON to the server as it is. It follows no redirect,
// which would carry the review, and the credentials, elsewhere.
func newCaller(config *rest.Config) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	config.ContentType, config.AcceptContentTypes, config.QPS = "application/json", "application/json", -1
	config.WarningHandler = rest.NoWarnings{}
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	h.CheckRedirect = func(redirect *http.Request, _ []*http.Request) error {
		return fmt.Errorf("it redirects to %s, which API servers follow: %w", redirect.URL.Redacted(), dryrun.ErrNotCalled)
	}
	return client.Group(config, h, corev1.SchemeGroupVersion)
}

// send calls a webhook by the way that the API server takes.
func (c caller) send(ctx context.Context, w *inventory.Webhook, review []byte) ([]byte, error) {
	b, api := w.Backend, c.api
	address := b.Service.Path
	switch b.Kind {
	case inventory.BackendService:
		address = path.Join("/api/v1/namespaces", b.Service.Namespace, "services", fmt.Sprintf("https:%s:%d", b.Service.Name, cmp.Or(b.Service.Port, 443)), "proxy") +
			"/" + strings.TrimPrefix(address, "/")
	case inventory.BackendURL:
		u, err := url.Parse(b.URL)
		if err != nil {
			return nil, err
		}
		if api, err = newCaller(&rest.Config{
			Host: u.Scheme + "://" + u.Host, TLSClientConfig: rest.TLSClientConfig{CAData: b.CABundle},
		}); err != nil {
			return nil, err
		}
		address = cmp.Or(u.Path, "/")
	}
	request := api.Post().AbsPath(address).Body(review).SetHeader("Content-Type", "application/json")
	result := request.Param("timeout", fmt.Sprintf("%ds", int(w.Timeout.Seconds()))).Do(ctx)
	answer, err := result.Raw()
	if err != nil {
		err = result.Error() // which reads the Status
	}
	if failed := (&url.Error{}); errors.As(err, &failed) && errors.Is(err, dryrun.ErrNotCalled) {
		err = failed.Err
	}
	if isOfProxy(err) && b.Kind == inventory.BackendService {
		err = fmt.Errorf("it needs create on services/proxy: %w: %w", err, dryrun.ErrNotCalled)
	}
	return answer, err
}

// isOfProxy reports whether the API server refuses to hand on a call.
func isOfProxy(err error) bool {
	status := &apierrors.StatusError{}
	return apierrors.IsForbidden(err) && errors.As(err, &status) &&
		ptr.Deref(status.ErrStatus.Details, metav1.StatusDetails{}).Kind == "services"
}

// skip says why a webhook is not called; "" where it is.
func (c caller) skip(w *inventory.Webhook) string {
	if w.Backend.Kind == inventory.BackendURL && !c.urls {
		return "it is registered by URL, which --call-urls calls from here"
	}
	return ""
}

func (c caller) groupVersion(r admission.Request) string {
	if r.Resource.Group == "" {
		return path.Join("/api", r.Version)
	}
	return path.Join("/apis", r.Resource.Group, r.Version)
}

// path is that of the object of the request, or of those of its resource.
func (c caller) path(r admission.Request, name string) string {
	segments := []string{c.groupVersion(r)}
	if r.Namespace != "" && !r.Resource.IsNamespaces() {
		segments = append(segments, "namespaces", r.Namespace)
	}
	return path.Join(append(segments, r.Resource.Name, name)...)
}

// dryRun is what the API server answers to the request as a dry run.
func (c caller) dryRun(ctx context.Context, operation string, r dryrun.Request) (out dryrun.Answer, err error) {
	name := r.Name
	if operation == "create" {
		name = ""
	}
	request := c.api.Verb(callMethods[operation]).AbsPath(c.path(r.Request, name)).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json")
	if operation == "apply" {
		request.SetHeader("Content-Type", string(types.ApplyPatchType)).Param("force", "true")
	}
	if r.Sent != nil {
		body, _ := json.Marshal(r.Sent) // it was read from JSON
		request.Param("fieldManager", program).Body(body)
	}
	result := request.Do(ctx).StatusCode(&out.Code)
	for _, w := range result.Warnings() {
		out.Warnings = append(out.Warnings, w.Text)
	}
	var object map[string]any
	err = decode(result, &object)
	if status := (&apierrors.StatusError{}); errors.As(err, &status) {
		out.Code, out.Message = int(status.ErrStatus.Code), dryrun.StatusText(status.ErrStatus)
		return out, nil
	}
	if operation != "delete" {
		out.Object = object
	}
	return out, err
}

func decode(result rest.Result, target any) error {
	if err := result.Error(); err != nil {
		return err
	}
	raw, _ := result.Raw() // as above
	return utiljson.Unmarshal(raw, target)
}

func (c caller) get(ctx context.Context, location string, target any) error {
	return decode(c.api.Get().AbsPath(location).Do(ctx), target)
}

// user is who makes the requests, as the API server has it.
func (c caller) user(ctx context.Context) (authenticationv1.UserInfo, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := c.api.Post().AbsPath("/apis/authentication.k8s.io/v1/selfsubjectreviews").Body(review).Do(ctx).Into(review)
	if err != nil {
		err = fmt.Errorf("asking the API server who the user is (SelfSubjectReview): %w", err)
	}
	return review.Status.UserInfo, err
}

// schema is that of a custom resource; nil of the kinds of API servers.
func (c caller) schema(ctx context.Context, r admission.Request) (*structuralschema.Structural, error) {
	kind := schema.GroupVersionKind{Group: r.Kind.Group, Version: r.Kind.Version, Kind: r.Kind.Kind}
	if client.Scheme().Recognizes(kind) {
		return nil, nil
	}
	name := r.Resource.Name + "." + r.Resource.Group
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := c.get(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+name, crd)
	if apierrors.IsNotFound(err) {
		return nil, errors.New("no CustomResourceDefinition has it, and its type is not known here")
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", r.Resource, err)
	}
	return dryrun.SchemaOf(crd, r.Version)
}

// merging is how the API server merges what is applied: the lists and maps of its kinds.
func (c caller) merging(ctx context.Context, r admission.Request) (managedfields.TypeConverter, error) {
	document := spec3.OpenAPI{Components: &spec3.Components{}}
	if err := c.get(ctx, path.Join("/openapi/v3", c.groupVersion(r)), &document); err != nil {
		return nil, fmt.Errorf("reading the OpenAPI document of %s: %w", r.Resource, err)
	}
	return managedfields.NewTypeConverter(document.Components.Schemas, false)
}

// gracePeriod is that of a Pod. Source: CheckGracefulDelete in k8s.io/kubernetes pkg/registry/core/pod.
func gracePeriod(pod map[string]any) int64 {
	node, _, _ := unstructured.NestedString(pod, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(pod, "status", "phase")
	seconds, _, _ := unstructured.NestedInt64(pod, "spec", "terminationGracePeriodSeconds")
	if node == "" || phase == string(corev1.PodFailed) || phase == string(corev1.PodSucceeded) {
		return 0
	}
	return seconds
}

func (e *explain) callChain(ctx context.Context, a requestArguments, chain admission.Chain,
	m *admission.Matcher,
) (report.CalledRequest, error) {
	config, err := e.access.config()
	if err != nil {
		return report.CalledRequest{}, err
	}
	c := caller{urls: e.call.urls}
	if c.api, err = newCaller(config); err != nil {
		return report.CalledRequest{}, err
	}
	r := dryrun.Request{Request: chain.Request, Sent: a.subject.Object, IsApplied: a.operation == "apply"}
	if r.User, err = c.user(ctx); err != nil {
		return report.CalledRequest{}, err
	}
	if a.operation != "create" {
		if r.Name == "" {
			return report.CalledRequest{}, usageError{fmt.Errorf("--call: the object must have a name to %s", a.operation)}
		}
		err = c.get(ctx, c.path(r.Request, r.Name), &r.Stored)
		if err != nil && !apierrors.IsNotFound(err) {
			return report.CalledRequest{}, fmt.Errorf("reading the object: %w", err)
		}
	}
	if r.Stored == nil && r.IsApplied {
		r.Operation = admission.Create
	}
	if r.Stored == nil && r.Operation != admission.Create {
		return report.CalledRequest{}, fmt.Errorf("there is no %s %s to %s: the API server answers 404 and calls no webhook; must be create or apply", r.Resource, r.Name, a.operation)
	}
	if a.operation == "delete" {
		r.Sent = nil
	}
	if r.Answer, err = c.dryRun(ctx, a.operation, r); err != nil {
		return report.CalledRequest{}, fmt.Errorf("sending the request to the API server as a dry run: %w", err)
	}
	r.Options = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": optionsKinds[r.Operation], "dryRun": []string{metav1.DryRunAll}}
	switch stored := (&unstructured.Unstructured{Object: r.Stored}); { // as the API server deletes them
	case r.Sent != nil:
		r.Options["fieldManager"] = program
	case r.Resource.IsNamespaces(), r.Resource.Name == "customresourcedefinitions":
		r.Options["preconditions"] = map[string]any{"uid": stored.GetUID()}
	case r.Resource == inventory.Resource{Name: "pods"}:
		r.Options["gracePeriodSeconds"] = gracePeriod(r.Stored)
	}
	chainCaller := dryrun.Caller{
		Send: c.send, Skip: c.skip, Types: client.Scheme(), Apply: managedfields.NewDeducedTypeConverter(),
	}
	notes := unread(m.Snapshot, r.Resource)
	if chainCaller.Schema, err = c.schema(ctx, r.Request); err != nil {
		notes = append(notes, fmt.Sprintf("not checked: the defaults of %s, and the fields that the API server drops: %v", r.Resource, err))
	}
	if r.IsApplied {
		if converter, err := c.merging(ctx, r.Request); err == nil {
			chainCaller.Apply = converter
		} else {
			notes = append(notes, fmt.Sprintf("not checked: how an apply merges lists, and its fields: %v", err))
		}
	}
	answer := report.NewCalledRequest(r.Request, dryrun.Call(ctx, m, r, chainCaller))
	answer.Notes = append(answer.Notes, notes...)
	return answer, nil
}
