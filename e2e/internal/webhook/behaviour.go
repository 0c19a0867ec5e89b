package webhook

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Behaviour is how calls are answered; the zero value allows at once. A
// conversion that is denied fails with the message.
type Behaviour struct {
	Deny      string        // message of the denial; empty: allow
	Patch     string        // JSON patch of a mutating webhook
	Delay     time.Duration // before answering
	FailEvery int           // every Nth call gets an HTTP 500; 1: all of them, 0: none
	Garbage   bool          // answer with something that is no review
	Warn      string        // a warning beside the answer
	Redirect  string        // answer with a redirect to this address
	Padding   int           // so many bytes before the answer
	Answer    string        // the whole answer, with UID for that of the request
	Again     bool          // ask to be called again in a second, each first time

	ContentType string // of the answer; empty: application/json
}

// labelPatch is what "/patch" does: add an annotation that shows the webhook
// was there.
const labelPatch = `[{"op":"add","path":"/metadata/annotations","value":{"e2e.example.com/patched":"true"}}]`

// Parse reads a behaviour off a URL path, for webhooks that are registered in
// files: "/deny", "/patch", "/garbage", "/delay/700ms", "/fail-every/10" and
// any series of them. Other words are names that distinguish webhooks:
// "/deny/pods.example.com".
func Parse(path string) (Behaviour, error) {
	var b Behaviour
	words := strings.Split(strings.Trim(path, "/"), "/")
	for i := 0; i < len(words); i++ {
		argument := ""
		if i+1 < len(words) {
			argument = words[i+1]
		}
		used, err := b.set(words[i], argument)
		if err != nil {
			return Behaviour{}, fmt.Errorf("reading path %q: %w", path, err)
		}
		i += used
	}
	return b, nil
}

// set takes one word of a path and says how many arguments it used.
func (b *Behaviour) set(word, argument string) (int, error) {
	var err error
	switch word {
	case "deny":
		b.Deny = "denied by the test webhook"
	case "patch":
		b.Patch = labelPatch
	case "garbage":
		b.Garbage = true
	case "delay":
		b.Delay, err = time.ParseDuration(argument)
		return 1, err
	case "fail-every":
		b.FailEvery, err = strconv.Atoi(argument)
		return 1, err
	}
	return 0, nil
}

// fails reports whether the nth call, counted from 1, fails.
func (b Behaviour) fails(nth int) bool {
	return b.FailEvery > 0 && nth%b.FailEvery == 0
}
