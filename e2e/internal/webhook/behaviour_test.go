package webhook

import (
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for path, want := range map[string]Behaviour{
		"/":                           {},
		"/allow/pods":                 {},
		"/deny/pods.example.com":      {Deny: "denied by the test webhook"},
		"/delay/700ms/deny":           {Delay: 700 * time.Millisecond, Deny: "denied by the test webhook"},
		"/fail-every/10":              {FailEvery: 10},
		"/patch":                      {Patch: labelPatch},
		"/garbage":                    {Garbage: true},
		"/fail-every/3/delay/1s/name": {FailEvery: 3, Delay: time.Second},
	} {
		if got, err := Parse(path); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", path, got, err, want)
		}
	}
	for _, path := range []string{"/delay", "/delay/fast", "/fail-every/x"} {
		if _, err := Parse(path); err == nil {
			t.Errorf("Parse(%q) gives no error", path)
		}
	}
}
