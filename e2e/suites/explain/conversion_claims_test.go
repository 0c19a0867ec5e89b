package explain

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// claimedCRD is the CRD of a subject. An object is stored in its first version before it
// has its last one, and a webhook that converts.
type claimedCRD struct {
	served      []string
	first, last string
	dead        bool // the Service is missing
}

// conversionSubject is compared by which requests need the webhook. All of a round have one
// group, whose versions decide which one controllers read.
func (e explainer) conversionSubject(r *rand.Rand, s *subject) {
	group := s.name[:strings.LastIndex(s.name, "-")] + ".example.com"
	s.name = strings.ReplaceAll(s.name, "-", "")
	s.kind = explained{resource: s.name + "." + group, manifest: `{kind: ` + s.name + `, metadata: {name: NAME}}`}
	versions := []string{"v1", "v2", "v3"}
	crd := &claimedCRD{first: pick(r, versions...), dead: r.IntN(2) == 0}
	crd.last = pick(r, crd.first, crd.first, pick(r, versions...))
	for _, i := range r.Perm(3)[:1+r.IntN(3)] {
		crd.served = append(crd.served, versions[i])
	}
	if r.IntN(2) == 0 { // one alone
		crd.served = []string{pick(r, crd.last, pick(r, versions...))}
	}
	if s.check = "conversion-unneeded"; crd.dead {
		s.check = "service-missing"
	}
	if r.IntN(3) == 0 {
		h := s.hook("main", r)
		h.ObjectSelector, h.Rules[0].APIVersions = nil, []string{pick(r, "v1", "v2", "v3", "v9", "*")}
		s.hooks = []claimedHook{h}
	}
	s.crd, s.compare = crd, e.compareConversion
}

func (e explainer) createCRD(t *testing.T, c *configurations, s *subject) {
	t.Helper()
	api, name := e.CRDs.ApiextensionsV1().CustomResourceDefinitions(), s.kind.resource
	plural, group, _ := strings.Cut(name, ".")
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: plural, ListKind: plural + "list"}}
	for _, v := range []string{"v1", "v2", "v3"} {
		crd.Spec.Versions = append(crd.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{
			Name: v, Served: slices.Contains(s.crd.served, v), Storage: v == s.crd.first,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
		})
	}
	testenv.Get(api.Create(t.Context(), crd, metav1.CreateOptions{}))(t)
	change := func(ctx context.Context, change func(*apiextensionsv1.CustomResourceDefinition)) error {
		now, err := api.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(now)
		_, err = api.Update(ctx, now, metav1.UpdateOptions{})
		return err
	}
	c.removes(t, func() error { // its objects must be read to be deleted
		err := change(context.Background(), func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Conversion = nil })
		if err != nil {
			return err
		}
		return api.Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	testenv.Eventually(t, func() error {
		k := s.version(s.crd.served[0])
		_, err := e.client(k, "explain-a").Create(t.Context(), k.object("exp", "explain-a"), metav1.CreateOptions{})
		return testenv.IgnoreExisting(err)
	})
	testenv.Eventually(t, func() error {
		return change(t.Context(), func(crd *apiextensionsv1.CustomResourceDefinition) {
			crd.Spec.Conversion = e.backend.Conversion("/" + s.name)
			if s.crd.dead {
				crd.Spec.Conversion.Webhook.ClientConfig.Service.Name = "gone"
			}
			for i := range crd.Spec.Versions {
				crd.Spec.Versions[i].Storage = crd.Spec.Versions[i].Name == s.crd.last
				crd.Spec.Versions[i].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "claimed", Type: "string", JSONPath: ".kind"}}
			}
		})
	})
	testenv.Eventually(t, func() error { // until the API server serves by it
		table, err := e.Kube.CoreV1().RESTClient().Get().AbsPath("/apis", group, s.crd.served[0], plural).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
		if text := fmt.Sprint(string(table), err); !strings.Contains(text, "claimed") && !strings.Contains(text, "conversion webhook") {
			return fmt.Errorf("%s has no column: %s", name, text)
		}
		return nil
	})
}

func (s *subject) version(version string) explained {
	out := s.kind
	out.version = version
	out.manifest = `{apiVersion: ` + strings.SplitN(s.kind.resource, ".", 2)[1] + `/` + version + `, ` + s.kind.manifest[1:]
	return out
}

// convertedProbes create, get and list objects in each version, in each namespace.
func (e explainer) convertedProbes(ctx context.Context, s *subject) []probe {
	var out []probe
	for _, v := range s.crd.served {
		k := s.version(v)
		for _, namespace := range slices.Sorted(maps.Keys(explainedNamespaces)) {
			_, err := e.client(k, namespace).Create(ctx, k.object("exp-long", namespace), metav1.CreateOptions{DryRun: dryRun})
			out = append(out, probe{namespace: "create " + v, err: err})
		}
		_, err := e.client(k, "explain-a").Get(ctx, "exp", metav1.GetOptions{})
		out = append(out, probe{namespace: "get " + v, err: err})
		out = append(out, probe{namespace: "list " + v, err: e.listed(ctx, k, s.crd.dead)})
	}
	for path := range e.called(s) {
		out[0].paths = append(out[0].paths, path)
	}
	return out
}

// listed lists the objects. Where none can be converted the API server answers that its
// storage is not ready yet, without an end, and clients ask again for minutes.
func (e explainer) listed(ctx context.Context, k explained, dead bool) error {
	plural, group, _ := strings.Cut(k.resource, ".")
	tries, err := 120, error(nil)
	if dead {
		tries = 5
	}
	for range tries {
		_, err = e.Kube.CoreV1().RESTClient().Get().AbsPath("/apis", group, k.version, plural).MaxRetries(0).DoRaw(ctx)
		if !apierrors.IsTooManyRequests(err) {
			break
		}
		time.Sleep(time.Second)
	}
	return err
}

// compareConversion compares whether the webhook is called, and what fails without it.
func (e explainer) compareConversion(s *subject, findings []testenv.ReportedFinding, probes []probe) verdict {
	var out verdict
	failing := map[string]bool{}
	for _, p := range probes {
		if failing[p.namespace] = failing[p.namespace] || p.refused("conversion webhook") || apierrors.IsTooManyRequests(p.err); p.err != nil && !failing[p.namespace] {
			out.wrong = append(out.wrong, "not read: "+p.err.Error())
		}
	}
	verb := func(word string, but ...string) bool {
		for v := range failing {
			if failing[v] && strings.HasPrefix(v, word) && !slices.Contains(but, v) {
				return true
			}
		}
		return false
	}
	called := slices.Contains(probes[0].paths, "/"+s.name)
	read := e.preferred(s) // the object is stored in the first version: "in another one" is not of it where that is read
	for _, f := range findings {
		claims := map[string]bool{ // what is claimed, and whether it holds
			"is never called":         !called,
			"so nothing calls it":     !verb(""),
			"clients of versions":     verb("", "create "+s.crd.last, "get "+s.crd.last, "list "+s.crd.last) && !failing["list "+s.crd.last] && !failing["create "+s.crd.last],
			"cannot be read:":         read == s.crd.first || failing["list "+read] || failing["get "+read],
			"gets in another version": verb("create"),
		}
		recognized := false
		for words, holds := range claims {
			if strings.Contains(f.Message, words) {
				if recognized = true; !holds {
					out.wrong = append(out.wrong, fmt.Sprintf("%q is not so: %v, called %t", words, failing, called))
				}
			}
		}
		if !recognized {
			out.wrong = append(out.wrong, "not read: "+f.Message)
		}
	}
	if s.crd.dead && verb("") || !s.crd.dead && !called {
		out.silent = fmt.Sprintf("%v, called %t", failing, called)
	}
	return out
}

// preferred is the version that discovery prefers, which controllers read.
func (e explainer) preferred(s *subject) string {
	group := strings.SplitN(s.kind.resource, ".", 2)[1]
	groups, err := e.Kube.Discovery().ServerGroups()
	if err != nil {
		return err.Error()
	}
	for _, g := range groups.Groups {
		if g.Name == group && slices.Contains(s.crd.served, g.PreferredVersion.Version) {
			return g.PreferredVersion.Version
		}
	}
	return slices.Max(s.crd.served)
}
