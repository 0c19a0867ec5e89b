package text

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
)

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		input string
		most  int
		want  string
	}{
		{"", 5, ""},
		{"short", 5, "short"},
		{"longer", 5, "lo…"},
		{"ééé", 5, "é…"},
		{"éa\xffb", 4, "…"},
	} {
		got := Shorten(test.input, test.most)
		if got != test.want || len(got) > test.most || !utf8.ValidString(got) {
			t.Errorf("Shorten(%q, %d) = %q, want %q", test.input, test.most, got, test.want)
		}
	}
}

func TestClean(t *testing.T) {
	if got, want := Clean("a\n\tb\x1b[31m é"), "a  b\uFFFD[31m é"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSimilar(t *testing.T) {
	names := []string{"WebhookSlow", "configmaps", "pods", "podtemplates", "secrets"}
	expect.Results(t, func(typed string) []string { return Similar(typed, names, 5) }, map[string][]string{
		"pod":         {"pods", "podtemplates"},
		"secert":      {"secrets"},
		"secret":      {"secrets"},
		"configmap":   {"configmaps"},
		"webhookslow": {"WebhookSlow"},
		"":            {},
		"nothing":     {},
	})
	if got := Similar("pod", names, 1); len(got) != 1 {
		t.Errorf("more than one: %q", got)
	}
}

// TestEdits: the distance is 0 for equal texts alone, the same both ways, and no more
// than the longer text.
func TestCapital(t *testing.T) {
	for in, want := range map[string]string{"": "", "a b": "A b", "élan": "Élan", "日": "日", "\xff": "\xff", "config/a.yaml:3: b": "config/a.yaml:3: b", "a.yaml: b": "a.yaml: b", "call: b": "Call: b"} {
		if got := Capital(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestEdits(t *testing.T) {
	words := []string{"", "a", "pods", "pod", "podtemplates", strings.Repeat("x", 50)}
	for _, a := range words {
		for _, b := range words {
			d := Edits(a, b)
			if d != Edits(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) || d < max(len(a), len(b))-min(len(a), len(b)) {
				t.Errorf("Edits(%q, %q) = %d", a, b, d)
			}
		}
	}
	expect.Equal(t, 1, Edits("secret", "secert")) // two letters in another order
}
