package main

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// progress is one line on a terminal that shows how far a long read is. It is
// silent without a terminal, and at first: most reads are short.
type progress struct {
	w io.Writer
	// width is how long the line may be: one that wraps cannot be drawn over.
	width int
	mu    sync.Mutex
	next  time.Time
	shown int
}

// showAfter is how long a read lasts before the line appears, and redraw how
// often it changes.
const (
	showAfter = 2 * time.Second
	redraw    = 100 * time.Millisecond
)

func newProgress(w io.Writer) *progress {
	p := &progress{next: time.Now().Add(showAfter)}
	if width, ok := terminal(w); ok {
		p.w, p.width = unfiltered(w), width
	}
	return p
}

func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(redraw)
	line := []rune(text.Clean(fmt.Sprintf(format, args...)))
	line = line[:min(len(line), p.width-1)]
	fmt.Fprintf(p.w, "\r%-*s", p.shown, string(line))
	p.shown = len(line)
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.shown, "")
	}
}
