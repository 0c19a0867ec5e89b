package operator

import "regexp"

// blocked is how the API server says that a webhook is why it refused.
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
