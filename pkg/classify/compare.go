package classify

// Compare returns the findings that are new or worse after a change, and those that are
// gone. The same is what has the same key, of which the worst counts; the weight of what is
// acknowledged is 0: it is accepted, not resolved.
func Compare[F any, K comparable](before, after []F, key func(F) K, weight func(F) Severity) (added, resolved []F) {
	was, now := worst(before, key, weight), worst(after, key, weight)
	for _, f := range after {
		if weight(was[key(f)]) < weight(f) {
			added = append(added, f)
		}
	}
	for _, f := range before {
		if _, still := now[key(f)]; !still && weight(f) > 0 {
			resolved = append(resolved, f)
		}
	}
	return added, resolved
}

func worst[F any, K comparable](findings []F, key func(F) K, weight func(F) Severity) map[K]F {
	out := make(map[K]F, len(findings))
	for _, f := range findings {
		if other, ok := out[key(f)]; !ok || weight(other) < weight(f) {
			out[key(f)] = f
		}
	}
	return out
}
