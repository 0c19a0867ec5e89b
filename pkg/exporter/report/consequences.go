package report

import (
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify/impact"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// Consequences is what "impact --down", "--down-node" and "--delete" print.
type Consequences struct {
	Version string         `json:"version"`
	Change  impactChange   `json:"change"`
	Effects []impactEffect `json:"effects"`
	// Appearing and Disappearing are findings.
	Appearing    []Finding `json:"appearing"`
	Disappearing []Finding `json:"disappearing"`
	// Recovery says in which order Services come back whose Pods have to be
	// created anew, Stuck which never do without help.
	Recovery []impactWave     `json:"recovery"`
	Stuck    []impactStuck    `json:"stuck"`
	Weakened []impactWeakened `json:"weakened"`
	// Evicted are the Pods of backends that a drain of the nodes evicts.
	Evicted []impactEvicted `json:"evicted"`
	// Unknown are webhooks of which the input does not show whether they can
	// still be called.
	Unknown []inventory.Ref `json:"unknown"`
	Errors  []Error         `json:"errors"`
}

// impactChange is what goes away.
type impactChange struct {
	Down   []string `json:"down,omitempty"`
	Nodes  []string `json:"nodes,omitempty"`
	Delete []string `json:"delete,omitempty"`
}

// impactEffect is what becomes of the requests that one webhook is called for.
type impactEffect struct {
	inventory.Ref
	// Outcome is refused, unchecked or unconverted.
	Outcome impact.Outcome `json:"outcome"`
	Deleted bool           `json:"deleted,omitempty"`
	// Requests are those that the webhook is called for.
	Requests []impactRequest `json:"requests"`
	// Namespaces are those that its namespaceSelector selects; absent where it
	// selects all, or the namespaces are not known.
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector is what it asks for, "" for all.
	NamespaceSelector string   `json:"namespaceSelector,omitempty"`
	Unless            []string `json:"unless,omitempty"`
	Stops             []string `json:"stops,omitempty"`
}

// impactRequest is a resource and what is done to it.
type impactRequest struct {
	Resource   string                `json:"resource"`
	Operations []admission.Operation `json:"operations"`
}

// impactWave are Services whose Pods can be created at the same time.
type impactWave struct {
	Services []string `json:"services"`
}

// impactStuck is a Service whose Pods are refused until a webhook is disabled.
type impactStuck struct {
	Service string          `json:"service"`
	By      []inventory.Ref `json:"by"`
	// More says that more webhooks than are listed refuse it.
	More bool `json:"more,omitempty"`
	// Steps are those of a deadlock of such a webhook, where one is found.
	Steps []string `json:"steps,omitempty"`
	// Commands disable those webhooks.
	Commands []string `json:"commands"`
}

// impactWeakened is a webhook that keeps some of its ready endpoints.
type impactWeakened struct {
	inventory.Ref
	Before int `json:"before"`
	After  int `json:"after"`
}

// impactEvicted are the Pods of a workload that a drain evicts.
type impactEvicted struct {
	// Workload is "KIND NAMESPACE/NAME"; of Pods of one controller it names one.
	Workload string `json:"workload"`
	Pods     int    `json:"pods"`
	OfPods   int    `json:"ofPods"`
	// BlockedBy says what keeps them from being evicted; absent where nothing does.
	BlockedBy string `json:"blockedBy,omitempty"`
	// Risks say what makes the loss of Pods worse than it has to be.
	Risks []string `json:"risks,omitempty"`
}

// NewConsequences returns the consequences as they are handed out.
func NewConsequences(c *impact.Consequences, r *classify.Report) Consequences {
	out := Consequences{
		Version: documentVersion, Effects: []impactEffect{}, Appearing: []Finding{}, Disappearing: []Finding{},
		Recovery: []impactWave{}, Stuck: []impactStuck{}, Weakened: []impactWeakened{}, Unknown: append([]inventory.Ref{}, c.Unknown...), Errors: newErrors(r.Snapshot.Errors),
		Evicted: []impactEvicted{},
		Change:  impactChange{Nodes: c.Change.Nodes},
	}
	for _, key := range c.Change.Services {
		out.Change.Down = append(out.Change.Down, key.String())
	}
	for _, d := range c.Change.Configurations {
		out.Change.Delete = append(out.Change.Delete, d.String())
	}
	for _, e := range c.Effects {
		out.Effects = append(out.Effects, newEffect(e))
	}
	for _, f := range c.Appearing {
		out.Appearing = append(out.Appearing, newFinding(f))
	}
	for _, f := range c.Disappearing {
		out.Disappearing = append(out.Disappearing, newFinding(f))
	}
	for _, w := range c.Recovery {
		out.Recovery = append(out.Recovery, impactWave{keyNames(w.Services)})
	}
	for _, s := range c.Stuck {
		out.Stuck = append(out.Stuck, newStuck(s))
	}
	for _, w := range c.Weakened {
		out.Weakened = append(out.Weakened, impactWeakened{w.Webhook, w.Before, w.After})
	}
	for _, e := range c.Evicted {
		out.Evicted = append(out.Evicted, impactEvicted{e.Workload.String(), e.Pods, e.Workload.Replicas, e.BlockedBy, e.Risks})
	}
	return out
}

func newEffect(e impact.Effect) impactEffect {
	p := e.Profile
	out := impactEffect{
		Ref: p.Ref, Outcome: e.Outcome, Deleted: e.Deleted,
		Requests: []impactRequest{}, Namespaces: e.Namespaces, Unless: e.Unless,
	}
	if p.Type == inventory.Conversion {
		out.Requests = append(out.Requests, impactRequest{Resource: p.CRD.Resource.String(), Operations: []admission.Operation{}})
	} else if !p.NamespaceSelector.Empty() {
		out.NamespaceSelector = p.NamespaceSelector.String()
	}
	for _, r := range e.Resources {
		out.Requests = append(out.Requests, impactRequest{r.Resource.String(), r.Operations.List()})
	}
	for _, s := range e.Stops {
		out.Stops = append(out.Stops, s.Function)
	}
	return out
}

func newStuck(s impact.Blocked) impactStuck {
	out := impactStuck{Service: s.Service.String(), More: s.More, By: []inventory.Ref{}, Commands: []string{}}
	for _, p := range s.By {
		if p.Deadlock != nil && out.Steps == nil {
			out.Steps = p.Deadlock.Steps
		}
		out.By = append(out.By, p.Ref)
		commands := p.Commands()
		out.Commands = append(out.Commands, commands.Save, commands.Disable)
	}
	return out
}

func keyNames(keys []inventory.Key) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key.String()
	}
	return out
}
