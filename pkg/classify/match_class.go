package classify

import (
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// matchClass is what webhooks have in common that are called for the same requests:
// large clusters have many webhooks and few of these. It is no Class, which is of
// resources.
type matchClass struct {
	matched []admission.MatchedResource
	unused  []int
	byClass map[Class][]inventory.Resource
	// runLevelZero are the core resources that they are called for on run level 0.
	runLevelZero RunLevelZero
	// controlPlane are the requests on the control plane's path that they are called
	// for, once a webhook is asked about that could hold them up.
	controlPlane      []ControlPlaneMatch
	controlPlaneKnown bool
}

// deriver derives what is known of webhooks one by one.
type deriver struct {
	work     *work
	policy   *Policy
	matcher  *admission.Matcher
	snapshot *inventory.Snapshot
	// known are the matchClasses by their matchKeys.
	known map[string]*matchClass

	// classes are those of the resources that the Policy lists.
	classes map[inventory.Resource][]Class
	groups  map[string]bool
	// runLevelZero are the namespaces on run level 0, and requests those on the
	// control plane's path.
	runLevelZero []string
	requests     controlPlaneRequests
}

func (p *Policy) deriver(w *work, m *admission.Matcher) *deriver {
	d := &deriver{
		work:         w,
		policy:       p,
		matcher:      m,
		snapshot:     m.Snapshot,
		known:        map[string]*matchClass{},
		classes:      map[inventory.Resource][]Class{},
		groups:       map[string]bool{},
		runLevelZero: p.onRunLevel(m.Snapshot, "0"),
		requests:     p.controlPlaneRequests(w, m),
	}
	for _, class := range ListedClasses {
		for _, r := range p.Classes[class] {
			d.classes[r] = append(d.classes[r], class)
		}
	}
	for _, g := range p.CoreGroups {
		d.groups[g] = true
	}
	return d
}

// classOf returns the matchClass of the webhook.
func (d *deriver) classOf(w *inventory.Webhook, key string) *matchClass {
	if w.Type == inventory.Conversion { // it has no rules: what it matches is its CRD
		matched := d.matcher.MatchedResources(w)
		return &matchClass{matched: matched, byClass: d.byClass(matched)}
	}
	class := d.known[key]
	if class == nil {
		class = &matchClass{matched: d.matcher.MatchedResources(w), unused: d.matcher.UnusedRules(&w.Registration)}
		class.byClass = d.byClass(class.matched)
		class.runLevelZero = d.matchedOnZero(class, w)
		d.known[key] = class
	}
	return class
}

// controlPlane returns the requests on the control plane's path that the class is
// called for. It costs those that it matches.
func (d *deriver) controlPlane(class *matchClass, w *inventory.Webhook) []ControlPlaneMatch {
	if !class.controlPlaneKnown {
		class.controlPlane, class.controlPlaneKnown = d.requests.matchedBy(d.work, w, class.matched), true
	}
	return class.controlPlane
}

// core reports whether the resource is part of a stock cluster: by its group,
// or by the annotation on its CRD.
func (d *deriver) core(r inventory.Resource) bool {
	return d.groups[r.Group] || isApprovedAPI(d.snapshot, r)
}

// byClass returns what a webhook matches of each class of resources.
func (d *deriver) byClass(matched []admission.MatchedResource) map[Class][]inventory.Resource {
	out := map[Class][]inventory.Resource{}
	for _, r := range matched {
		for _, class := range d.classes[r.Resource] {
			out[class] = append(out[class], r.Resource)
		}
		if d.core(r.Resource) {
			out[ClassCore] = append(out[ClassCore], r.Resource)
		}
	}
	return out
}
