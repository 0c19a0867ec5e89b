package classify

import "regexp"

// approvalURL is what a valid approval looks like: an http or https URL with a
// host and a path. The guard's policy says the same in CEL.
var approvalURL = regexp.MustCompile(`^https?://[^/ ]+/`)
