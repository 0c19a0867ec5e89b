package operator

import "regexp"

// blocked matches the API server's error when a webhook caused a refusal.
// Source: k8s.io/apiserver/pkg/admission/plugin/webhook/errors and
// mutating/validating dispatchers.
var blocked = regexp.MustCompile(`failed calling webhook "([^"]+)"|admission webhook "([^"]+)" denied the request`)

// Blocker returns the name of the webhook that refused a request, "" if it was
// something else.
func Blocker(err error) string {
	if err == nil {
		return ""
	}
	m := blocked.FindStringSubmatch(err.Error())
	if m == nil {
		return ""
	}
	return m[1] + m[2]
}
