package page

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/auditor"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// pictures are those in documents: what is asked, if anything, and what of the page they must
// show as it is.
var pictures = []struct{ name, theme, path, ask, shows string }{
	{"page-incident", "light", "/", "", `.top nav a, .headline .lead, .headline summary b, .headline .step code, section[aria-label="Also broken"] summary b`},
	{"page-webhooks-light", "light", "/webhooks", "", `.top nav a, thead th, tbody th a, tbody .state`},
	{"page-ask-dark", "dark", "/ask", "create secrets -n default", `.top nav a, main h2, svg text, thead th`},
}

// TestPictures: the pictures in documents show the pages as they are. PICTURES=write takes them
// anew.
func TestPictures(t *testing.T) {
	a := testenv.Get(auditor.Start(t.Context(), auditor.Options{
		Binary: testenv.Binary(t), Flags: []string{"--from=../../../cmd/webhook-auditor/demo.tar.gz", "--server-version=v1.37.1"},
	}))(t)
	t.Cleanup(func() { testenv.Must(t, a.Stop()) })
	b := open(t)
	for _, p := range pictures {
		b.look(p.theme, 1440, 900)
		b.get(a.URL + p.path)
		if p.ask != "" {
			b.fill("textarea", p.ask)
			b.click(".ask button", `document.querySelector('main h2') !== null`)
		}
		now := strings.Join(evaluate[[]string](b, `[...document.querySelectorAll(`+quoted(p.shows)+`)].map((e) => e.textContent.trim())`), "\n") + "\n"
		file, shown := "../../../dashboards/screenshots/"+p.name+".png", "testdata/"+p.name+".txt"
		if os.Getenv("PICTURES") == "write" {
			testenv.Must(t, os.WriteFile(file, b.capture(), 0o644))
			testenv.Must(t, os.WriteFile(shown, []byte(now), 0o644))
		}
		if before := string(testenv.Get(os.ReadFile(shown))(t)); before != now {
			t.Errorf("%s is stale: take it anew with PICTURES=write\nit shows:\n%s\nthe page has:\n%s", file, before, now)
		}
	}
}

func (b *tab) capture() []byte {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	taken, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	testenv.Must(b.T, err)
	return taken
}
