package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

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

var callOperations = map[string]string{"create": "CreateOptions", "update": "UpdateOptions", "apply": "PatchOptions", "delete": "DeleteOptions"}

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
	case len(args) > 0 && callOperations[args[0]] == "":
		return usageError{fmt.Errorf("--call: must be given for create, update, apply or delete, not %s", args[0])}
	case len(args) > 1 && strings.Contains(args[1], "/"):
		return usageError{errors.New("--call: must be given for an object, not a subresource")}
	}
	return nil
}

// caller sends reviews, and requests to the API server, whose warnings it keeps.
type caller struct {
	api      rest.Interface
	dynamic  dynamic.Interface
	warnings *warnings
	urls     bool
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
	request := api.Post().AbsPath(address).MaxRetries(0).Body(review).SetHeader("Content-Type", "application/json")
	result := request.Param("timeout", fmt.Sprintf("%ds", int(w.Timeout.Seconds()))).Do(ctx)
	answer, err := result.Raw()
	if err != nil {
		err = result.Error() // which reads the Status
	}
	if failed := (&url.Error{}); errors.As(err, &failed) && errors.Is(err, dryrun.ErrNotCalled) {
		err = failed.Err
	}
	return answer, err
}

// skip says why a webhook is not called; "" where it is.
func (c caller) skip(w *inventory.Webhook) string {
	if w.Backend.Kind == inventory.BackendURL && !c.urls {
		return "it is registered by URL, which --call-urls calls from here"
	}
	return ""
}

type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

const fieldManager = program

func (c caller) objects(r admission.Request) dynamic.ResourceInterface {
	all := c.dynamic.Resource(schema.GroupVersionResource{
		Group: r.Resource.Group, Version: r.Version, Resource: r.Resource.Name,
	})
	if r.Resource.IsNamespaces() {
		return all
	}
	return all.Namespace(r.Namespace)
}

func (c caller) dryRun(ctx context.Context, verb string, r admission.Request,
	object map[string]any,
) (dryrun.Answer, error) {
	sent, out := &unstructured.Unstructured{Object: object}, dryrun.Answer{Code: http.StatusOK}
	var answered *unstructured.Unstructured
	var err error
	dry := []string{metav1.DryRunAll}
	switch verb {
	case "create":
		out.Code = http.StatusCreated
		answered, err = c.objects(r).Create(ctx, sent, metav1.CreateOptions{DryRun: dry, FieldManager: fieldManager})
	case "update":
		answered, err = c.objects(r).Update(ctx, sent, metav1.UpdateOptions{DryRun: dry, FieldManager: fieldManager})
	case "apply":
		answered, err = c.objects(r).Apply(ctx, r.Name, sent,
			metav1.ApplyOptions{DryRun: dry, FieldManager: fieldManager, Force: true})
	case "delete":
		err = c.objects(r).Delete(ctx, r.Name, metav1.DeleteOptions{DryRun: dry})
	}
	out.Warnings = *c.warnings
	status := (&apierrors.StatusError{})
	switch {
	case errors.As(err, &status):
		out.Code, out.Message = int(status.ErrStatus.Code), dryrun.StatusText(status.ErrStatus)
		return out, nil
	case answered != nil:
		out.Object = answered.Object
	}
	return out, err
}

// stored is the object as the API server has it, nil where there is none.
func (c caller) stored(ctx context.Context, r admission.Request) (map[string]any, error) {
	object, err := c.objects(r).Get(ctx, r.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return object.Object, nil
}

// user is who makes the requests, as the API server has it.
func (c caller) user(ctx context.Context) (out authenticationv1.UserInfo, err error) {
	review := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": authenticationv1.SchemeGroupVersion.String(), "kind": "SelfSubjectReview",
	}}
	reviews := c.dynamic.Resource(authenticationv1.SchemeGroupVersion.WithResource("selfsubjectreviews"))
	if review, err = reviews.Create(ctx, review, metav1.CreateOptions{}); err != nil {
		return out, fmt.Errorf("asking the API server who the user is (SelfSubjectReview): %w", err)
	}
	info, _, _ := unstructured.NestedMap(review.Object, "status", "userInfo")
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(info, &out)
}

func (e *explain) callChain(ctx context.Context, a requestArguments, chain admission.Chain,
	m *admission.Matcher,
) (report.CalledRequest, error) {
	config, err := e.access.config()
	if err != nil {
		return report.CalledRequest{}, err
	}
	c := caller{urls: e.call.urls, warnings: &warnings{}}
	if c.api, err = newCaller(config); err != nil {
		return report.CalledRequest{}, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.WarningHandler = -1, c.warnings
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return report.CalledRequest{}, err
	}
	r := dryrun.Request{Request: chain.Request, Sent: a.subject.Object}
	if r.User, err = c.user(ctx); err != nil {
		return report.CalledRequest{}, err
	}
	if a.operation != "create" {
		if r.Stored, err = c.stored(ctx, chain.Request); err != nil {
			return report.CalledRequest{}, fmt.Errorf("reading the object: %w", err)
		}
	}
	if a.operation == "delete" {
		r.Sent = nil
	}
	if r.Answer, err = c.dryRun(ctx, a.operation, chain.Request, r.Sent); err != nil {
		return report.CalledRequest{}, fmt.Errorf("sending the request to the API server as a dry run: %w", err)
	}
	r.Options = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": callOperations[a.operation], "dryRun": []string{metav1.DryRunAll}}
	if r.Sent != nil {
		r.Options["fieldManager"] = fieldManager
	}
	if name, _ := r.Answer.Object["metadata"].(map[string]any); r.Name == "" && name != nil {
		r.Name, _ = name["name"].(string)
	}
	result := dryrun.Call(ctx, m, r, dryrun.Caller{Send: c.send, Skip: c.skip, Types: client.Scheme()})
	return report.NewCalledRequest(chain.Request, result), nil
}
