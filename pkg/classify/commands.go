package classify

import (
	"fmt"
	"hash/crc32"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// Commands are what a user types about one webhook. Names in them are quoted for
// a shell.
type Commands struct {
	// Disable keeps a copy of the object before it changes it, Restore brings it back.
	Disable, Restore string
	// Reverts says who undoes Disable; "" where nothing does.
	Reverts string
	// Inspect shows the backend.
	Inspect []string
	// Restart creates the Pods of the backend at once and waits for them: after an
	// outage their controllers try again late.
	Restart []string
}

// Late says how long controllers take to create Pods again. Source: the rate limiters of
// k8s.io/client-go/util/workqueue, which double the delay up to 1,000 seconds.
const Late = "after an outage, controllers may wait as long again before they create Pods, at most 17 minutes"

// DeleteBinding is the command that ends what a policy does by the binding.
func DeleteBinding(b *inventory.PolicyBinding) string {
	return DeleteCommands(strings.ToLower(b.Object.Kind), b.Object.Name, b.Object.Owner).Disable
}

// PolicyCommands returns the commands about the policy, which has a binding: its bindings
// are what puts it into effect.
func PolicyCommands(p *inventory.AdmissionPolicy) Commands {
	names := lists.Map(p.Bindings,
		func(b *inventory.PolicyBinding) string {
			return quoted(strings.ToLower(b.Object.Kind) + "/" + b.Object.Name)
		})
	return deleteCommands(strings.Join(names, " "), backup(p.Bindings[0].Object.Kind, p.Name),
		p.Bindings[0].Object.Owner)
}

// DeleteCommands are the commands that delete the object and bring it back. kind is as
// kubectl takes it.
func DeleteCommands(kind, name string, owner inventory.Owner) Commands {
	return deleteCommands(TypeAndName(kind, name), backup(kind, name), owner)
}

func deleteCommands(objects, file string, owner inventory.Owner) Commands {
	return Commands{
		Disable: behindCopy(objects, file, "kubectl delete "+objects),
		Restore: "kubectl create -f " + file,
		Reverts: revertedBy(owner),
	}
}

// behindCopy is the command that changes the objects, behind one that keeps a copy: nothing
// is changed where that fails. Pasted again after a deletion, it must not empty the copy: the
// second command writes only what the first one could read.
func behindCopy(objects, file, command string) string {
	return "kubectl get " + objects + " -o yaml > raw.yaml && grep -v '^ *resourceVersion: .' raw.yaml > " + file + " && " + command
}

// edited is the command of kubectl that patches what registers a webhook, or is a policy, with
// who reverts that. Each patch has a copy of its own: the copy of a second one has the first one
// in it.
func edited(r *inventory.Registration, edits ...edit) string {
	patch := document(edits)
	file := backup(kindOf(r), fmt.Sprintf("%s-%08x", r.Configuration, crc32.ChecksumIEEE([]byte(patch))))
	return behindCopy(objectName(r), file, "kubectl patch "+objectName(r)+" --type=json -p "+quoted(patch)) +
		changedBy(r.Object.Owner)
}

// changed is the command of kubectl that deletes or patches an object of a namespace, behind
// its copy.
func changed(verb, kind string, key inventory.Key, flags ...string) string {
	object, namespace := TypeAndName(kind, key.Name), ShellFlag("-n", key.Namespace)
	command := strings.Join(slices.Concat([]string{"kubectl", verb, object}, flags, []string{namespace}), " ")
	return behindCopy(object+" "+namespace, backup(kind, key.String()), command)
}

// backup is the file that keeps the object: each has its own, so that the commands about
// several objects, pasted together, lose none.
func backup(kind, name string) string {
	return strings.ToLower(kind) + "-" + notInFiles.ReplaceAllString(name, "_") + ".yaml"
}

// notInFiles is what a shell or a file system may take for something else than a part of
// a name.
var notInFiles = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

// disabling are the commands that delete what registers the webhook and bring it back. With
// a CRD all its objects would go: of that they take the conversion webhook out.
func disabling(p *Profile) Commands {
	c := DeleteCommands(kindOf(&p.Registration), p.Configuration, p.Object.Owner)
	if p.Type == inventory.Conversion {
		c.Disable = withoutConversion(p)
		c.Restore = strings.Replace(c.Restore, "create", "replace", 1)
	}
	return c
}

// DisableCommand lets requests through without the webhook, and says who reverts that.
func DisableCommand(p *Profile) string { return disabling(p).Disable + byOwner(p) }

func (p *Profile) Commands() Commands {
	c := disabling(p)
	if service := p.State.Service; service.Name != "" {
		namespace := ShellFlag("-n", service.Namespace)
		c.Inspect = []string{
			p.lookAtBackend(),
			fmt.Sprintf("kubectl get endpointslices %s %s", namespace, ShellFlag("-l", "kubernetes.io/service-name="+service.Name)),
			fmt.Sprintf("kubectl get events %s --sort-by=.lastTimestamp", namespace),
		}
		c.Restart = restart(p)
	}
	return c
}

// restart is about what makes the Pods of the backend. Where that is unknown, the user
// fills it in: no object has a name in capitals, so that the command restarts nothing as
// it stands, and never all that runs in the namespace.
func restart(p *Profile) []string {
	objects := map[string]bool{}
	for _, w := range BehindWebhook(p) {
		switch maker := w.Maker(); maker.Kind {
		case "Deployment", "StatefulSet", "DaemonSet":
			objects[TypeAndName(strings.ToLower(maker.Kind), maker.Name)] = true
		}
	}
	if len(objects) == 0 {
		objects[TypeAndName("deployment", "DEPLOYMENT-BEHIND-"+p.State.Service.Name)] = true
	}
	var out []string
	for _, verb := range []string{"restart", "status"} {
		for _, object := range slices.Sorted(maps.Keys(objects)) {
			out = append(out, fmt.Sprintf("kubectl rollout %s %s %s", verb, object, ShellFlag("-n", p.State.Service.Namespace)))
		}
	}
	return out
}

// LookAtBackend is the first command on a backend, without its namespace: whatever is wrong,
// one of these shows it.
const LookAtBackend = "kubectl get deploy,svc,endpointslices,pods"

func (p *Profile) lookAtBackend() string {
	return LookAtBackend + " " + ShellFlag("-n", p.State.Service.Namespace)
}

// Uncallable completes "its backend …": why no call of the webhook succeeds now, and the command
// that shows it; "" where nothing is known to be wrong.
func Uncallable(w *inventory.Webhook, s *inventory.Snapshot) (why, look string) {
	p, probe := &Profile{Webhook: w, Snapshot: s, State: s.State(w.Backend)}, s.Probes[w.Ref]
	faults := certificateFaults(p, probe.Certificate)
	object := LookAt(w.Ref)
	backend := object // which has the URL
	if p.State.Service.Name != "" {
		backend = p.lookAtBackend()
	}
	switch {
	case p.State.Fault != inventory.Sound && p.State.Certain():
		return p.State.Detail, p.lookAtBackend()
	case p.isUntrusted():
		_, brief := invalidity(w.Backend.Authority, s.Taken)
		return "is not trusted, as the CA bundle " + brief, object
	case len(faults) > 0 && !probe.Outside:
		return "shows a certificate that " + sentence(faults, 0), backend
	case probe.Answer == inventory.AnswerNoTLS && !probe.Outside:
		return "does not answer with TLS", backend
	}
	return "", ""
}

// LookAt is the command that shows what registers a webhook, or a policy.
func LookAt(r inventory.Ref) string {
	kind := "crd"
	if r.Type != inventory.Conversion {
		kind = strings.ToLower(r.Type.RegisteredBy().Kind)
	}
	return fmt.Sprintf("kubectl get %s -o yaml", TypeAndName(kind, r.Configuration))
}

// look is the command that shows the cause of a finding on the webhook or policy; the
// Profile is nil of a policy.
func (f *Finding) look(p *Profile) string {
	kind := strings.ToLower(f.Webhook.Type.RegisteredBy().Kind)
	if f.Check == policyWithoutEffect { // one of the two does not exist
		return fmt.Sprintf("kubectl get %s,%sbinding", kind, kind)
	}
	if p == nil {
		return LookAt(f.Webhook)
	}
	if f.Check.Fails() && (p.State.Fault != inventory.Sound || p.unreachable() && p.State.Service.Name != "") {
		return p.lookAtBackend()
	}
	return LookAt(p.Ref)
}
