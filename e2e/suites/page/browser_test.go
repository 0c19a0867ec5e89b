package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/testenv"
)

// timeout bounds the start of the browser, and each wait for a page.
const timeout = 2 * time.Minute

// installed installs what the tests need, and returns the browser's path.
var installed = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("./install.sh").Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			return "", fmt.Errorf("installing the browser: %w\n%s", err, exit.Stderr)
		}
		return "", fmt.Errorf("installing the browser: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1], nil
})

// tab is a tab of a browser of its own.
type tab struct {
	*testing.T
	ctx context.Context

	mu sync.Mutex
	// errors are what the console shows, requests what was asked for, dialogs what
	// scripts opened.
	errors, requests, dialogs []string
}

func open(t *testing.T) *tab {
	t.Helper()
	path := testenv.Get(installed())(t)
	// Neither root nor the machines of GitHub can have a sandbox.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.DisableGPU, chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(timeout))
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("ending the browser: %v", err)
		}
		cancel()
		stop()
	})
	b := &tab{T: t, ctx: ctx}
	testenv.Must(t, chromedp.Listen(ctx, b.listen))
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			b.errors = append(b.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.errors = append(b.errors, fmt.Sprint(e.Type))
	case *network.EventRequestWillBeSent:
		b.requests = append(b.requests, e.Request.URL)
	case *page.EventJavascriptDialogOpening:
		b.dialogs = append(b.dialogs, e.Message)
	}
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	testenv.Must(b.T, chromedp.Do(ctx, actions...))
}

func (b *tab) get(url string) {
	b.Helper()
	b.do(chromedp.Navigate(url), chromedp.WaitReady(chromedp.CSS("main")))
}

func evaluate[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	out, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	testenv.Must(b.T, err)
	return out
}

func (b *tab) until(expression string) {
	b.Helper()
	testenv.EventuallyWithin(b.T, timeout, func() error { return b.is(expression) })
}

func (b *tab) is(expression string) error {
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
	if err == nil && !ok {
		err = fmt.Errorf("not true: %s", expression)
	}
	return err
}

// click clicks what the selector finds, and waits for what then is true. A page
// that is being replaced may lose the element, so that it is looked for again.
func (b *tab) click(selector, expression string) {
	b.Helper()
	testenv.EventuallyWithin(b.T, timeout, func() error {
		ctx, cancel := context.WithTimeout(b.ctx, timeout)
		defer cancel()
		return chromedp.Do(ctx, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
	})
	b.until(expression)
}

func (b *tab) fill(selector, text string) {
	b.Helper()
	b.click(selector, `document.activeElement === document.querySelector(`+quoted(selector)+`)`)
	evaluate[bool](b, `document.activeElement.select(), true`)
	b.do(chromedp.KeyEvent(text))
	b.until(`document.querySelector(` + quoted(selector) + `).value === ` + quoted(text))
}

// quiet wants no errors, no dialog, and no request that leads elsewhere.
func (b *tab) quiet(origin string) {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.errors {
		b.Errorf("the console shows: %s", e)
	}
	for _, d := range b.dialogs {
		b.Errorf("a script of a name ran: %s", d)
	}
	for _, r := range b.requests {
		if !strings.HasPrefix(r, origin) && !strings.HasPrefix(r, "data:") {
			b.Errorf("a request leads elsewhere: %s", r)
		}
	}
	if len(b.requests) == 0 {
		b.Error("no request was seen")
	}
}

// looks are the ways in which pages are looked at.
var looks = []struct {
	name, scheme  string
	width, height int64
}{
	{"light", "light", 1280, 900},
	{"dark", "dark", 1280, 900},
	{"phone", "dark", 390, 844},
}

// accessible wants no violation of the rules of axe-core in any look, and no page
// that is wider than its window.
func (b *tab) accessible(name string) {
	b.Helper()
	axe, err := os.ReadFile(filepath.FromSlash("node_modules/axe-core/axe.min.js"))
	testenv.Must(b.T, err)
	evaluate[bool](b, string(axe)+"\n;true")
	for _, look := range looks {
		b.look(look.scheme, look.width, look.height)
		for _, v := range evaluate[[]violation](b, violations) {
			b.Errorf("%s, %s: %s: %s", name, look.name, v.ID, v.Nodes)
		}
		if excess := evaluate[int](b, "document.documentElement.scrollWidth - window.innerWidth"); excess > 0 {
			b.Errorf("%s, %s: %d pixels wider than the window", name, look.name, excess)
		}
		b.shoot(name + "-" + look.name)
	}
	b.look("light", looks[0].width, looks[0].height)
}

type violation struct{ ID, Nodes string }

const violations = `axe.run(document, {resultTypes: ['violations']}).then((found) => found.violations.map((v) => ({
	ID: v.id + ': ' + v.help, Nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 300) + ' ' + (n.any[0]?.message || '')).join('; '),
})))`

func (b *tab) look(scheme string, width, height int64) {
	b.Helper()
	b.media(emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.do(chromedp.EmulateViewport(width, height))
}

// onPaper sets the media to a sheet of A4 with margins of a centimeter.
func (b *tab) onPaper() {
	b.Helper()
	b.media(emulation.SetEmulatedMediaParams{Media: "print"})
	b.do(chromedp.EmulateViewport(718, 1047))
}

func (b *tab) media(media emulation.SetEmulatedMediaParams) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, media)
	testenv.Must(b.T, err)
}

// shoot writes a picture into the folder of the environment's PAGE_SCREENSHOTS,
// for those who change how pages look.
func (b *tab) shoot(name string) {
	b.Helper()
	folder := os.Getenv("PAGE_SCREENSHOTS")
	if folder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	testenv.Must(b.T, err)
	testenv.Must(b.T, os.MkdirAll(folder, 0o755))
	testenv.Must(b.T, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644))
}

// quoted is a text as a literal of JavaScript.
func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err) // unreachable: every string can be written as JSON
	}
	return string(out)
}
