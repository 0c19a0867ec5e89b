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

// TestPicture: the picture of the README shows the page as it is: its headline, the causes and
// the first command. PICTURE=write takes it anew.
func TestPicture(t *testing.T) {
	const picture, shown = "../../../dashboards/screenshots/page-incident.png", "testdata/picture.txt"
	a := testenv.Get(auditor.Start(t.Context(), auditor.Options{
		Binary: testenv.Binary(t), Flags: []string{"--from=../../../cmd/webhook-auditor/demo.tar.gz", "--server-version=v1.37.1"},
	}))(t)
	t.Cleanup(func() { testenv.Must(t, a.Stop()) })
	b := open(t)
	b.look("light", 1440, 900)
	b.get(a.URL + "/")
	b.until(`!document.querySelector('.copy').hidden`)
	now := strings.Join(evaluate[[]string](b, `[...document.querySelectorAll('.lead, summary b, .step code, .top nav a')].map((e) => e.textContent)`), "\n") + "\n"
	if os.Getenv("PICTURE") == "write" {
		ctx, cancel := context.WithTimeout(b.ctx, timeout)
		defer cancel()
		taken, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
		testenv.Must(t, err)
		testenv.Must(t, os.WriteFile(picture, taken, 0o644))
		testenv.Must(t, os.WriteFile(shown, []byte(now), 0o644))
	}
	if before := string(testenv.Get(os.ReadFile(shown))(t)); before != now {
		t.Errorf("%s is stale: take it anew with PICTURE=write\nit shows:\n%s\nthe page has:\n%s", picture, before, now)
	}
}
