package page

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// cutColumns are the headings of the table that the frame cuts off before anyone
// scrolls.
const cutColumns = `[...document.querySelectorAll('table.webhooks thead th')].filter((e) => e.getBoundingClientRect().right > e.closest('.scroll').getBoundingClientRect().right).map((e) => e.innerText)`

// brokenNames are the words of names that are broken themselves: a line ends after a
// dot, a slash or a hyphen.
const brokenNames = `(() => { const broken = [], range = document.createRange(); for (const cell of document.querySelectorAll('table.webhooks tbody th, table.webhooks tbody td')) {
	const nodes = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
	while (nodes.nextNode()) for (const word of nodes.currentNode.data.matchAll(/[^\s-]+/g)) {
		range.setStart(nodes.currentNode, word.index); range.setEnd(nodes.currentNode, word.index + word[0].length);
		if (new Set([...range.getClientRects()].filter((r) => r.width > 0).map((r) => r.top)).size > 1) broken.push(word[0]);
	}
} return broken })()`

// rowOf is true where the row of the webhook is one of which want is true.
func rowOf(name, want string) string {
	return `[...document.querySelectorAll('table.webhooks tbody tr')].some((e) => e.cells[0].innerText.includes(` + quoted(name) + `) && ` + want + `)`
}

// withTraffic is a cluster in which a ConfigMap is refused again and again until the
// test ends.
func withTraffic(t *testing.T) *testenv.Env {
	t.Helper()
	env := testenv.New(t, cluster.Options{WithoutControllers: true})
	for _, file := range []string{"testdata/cluster.yaml", "testdata/observed.yaml"} {
		manifest := testenv.Get(os.ReadFile(file))(t)
		env.Install(t, manifest)
	}
	go func() {
		for t.Context().Err() == nil {
			_, _ = env.CreateConfigMap(t, "mesh")
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return env
}

// TestObserved: what is observed comes before the rest, colored, and no column is cut
// off on a laptop; what was never called has no share.
func TestObserved(t *testing.T) {
	address := withTraffic(t).Run(t, "--observe=apiserver", "--observe-for=2s").URL
	b := open(t)
	b.get(address + "/webhooks")
	testenv.EventuallyWithin(t, timeout, func() error {
		b.get(address + "/webhooks")
		return b.is(rowOf("names.policy", `e.cells[1].querySelector('.state-bad')?.innerText.includes('100')`))
	})
	b.until(rowOf("never-called", `e.cells[1].innerText.trim() === '-' && !e.cells[1].querySelector('.state')`))
	b.until(`document.querySelector('table.webhooks thead').innerText.replace(/\s+/g, ' ').startsWith('Webhook Failing p99 Type')`)
	for _, width := range []int64{1440, 1920} {
		b.look("light", width, 900)
		if cut := evaluate[[]string](b, cutColumns); len(cut) > 0 {
			t.Errorf("at %d pixels the columns %s are cut off", width, strings.Join(cut, ", "))
		}
		if broken := evaluate[[]string](b, brokenNames); len(broken) > 0 {
			t.Errorf("at %d pixels names are broken: %q", width, broken)
		}
	}
	for _, width := range []int64{820, 390} {
		b.look("light", width, 900)
		if cut := evaluate[[]string](b, cutColumns); slices.Contains(cut, "Failing") || slices.Contains(cut, "p99") {
			t.Errorf("at %d pixels the columns %s are cut off", width, strings.Join(cut, ", "))
		}
	}
	b.accessible("observed")
	b.look("light", 1440, 900)
	b.shoot("observed-laptop")
	b.get(address + "/")
	b.until(`/Calls fail, as observed: .*names.policy.example.com .100 %/.test(document.querySelector('main').innerText)`)
	b.shoot("observed-overview")
	b.get(address + "/webhooks/validating/policy/names.policy.example.com")
	b.until(`[...document.querySelectorAll('.lines li')].some((e) => e.innerText.startsWith('Failing') && e.querySelector('.state-bad'))`)
	b.accessible("observed-webhook")
	b.quiet(address)
}
