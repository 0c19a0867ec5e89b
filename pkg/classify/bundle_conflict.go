package classify

import "fmt"

var bundleConflict = &Check{
	Name:     "bundle-conflict",
	Summary:  "A file holds a CA bundle that an injector replaces: the next server-side apply ends in a conflict.",
	Severity: Warning,
	Find: func(p *Profile) []Problem {
		b, injector := p.Webhook.Backend, injectorOf(p.Object.Annotations)
		if b.CABundle == nil || b.Authority != nil && b.Authority.Blanked || p.Platform || !p.isToApply() ||
			injector.name == "" {
			return nil
		}
		again := ""
		if p.isUnserved() {
			again = "; from v1.31 on the API server refuses any second apply of the CRD"
		}
		return []Problem{{
			Message: fmt.Sprintf("has a caBundle in the file, and an annotation by which %s replaces it (%s): the first upgrade with Helm 4 or Fleet ends in a conflict over clientConfig.caBundle; Flux forces the bundle of the file, and calls fail until the injector has written its own%s", injector.name, injector.annotation, again),
			Brief:   fmt.Sprintf("the file has a caBundle that %s replaces: an upgrade with Helm 4 or Fleet ends in a conflict, Flux forces it and calls fail%s", injector.name, again),
			Fix:     fmt.Sprintf("leave caBundle of %s out of the file; where the conflict is there already, take the field over once, with --server-side --force-conflicts", ObjectName(p)),
		}}
	},
}
