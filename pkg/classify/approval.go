package classify

import "regexp"

// ApprovalPattern is what a valid approval looks like: an http or https URL
// with a host and a path. The policy that warns at registration says the same.
const ApprovalPattern = `^https?://[^/ ]+/`

var approvalURL = regexp.MustCompile(ApprovalPattern)
