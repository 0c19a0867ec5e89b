package document

import "testing"

func TestSectionsAreReplaced(t *testing.T) {
	const document = "By hand.\n\n<!-- begin small -->\nold\n<!-- end small -->\n\nBy hand, too.\n"
	got, err := Section{"small", "new\n"}.ReplaceIn(document)
	if want := "By hand.\n\n<!-- begin small -->\nnew\n<!-- end small -->\n\nBy hand, too.\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if got, err := (Section{"large", "new\n"}).ReplaceIn(document); err == nil {
		t.Errorf("a section that does not exist makes %q", got)
	}
}
