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
	width  int
	mu     sync.Mutex
	line   string
	next   time.Time
	length int
	// first draws the line where a read that hangs calls show no more.
	first *time.Timer
}

// showAfter is how long a read lasts before the line appears, and redraw how
// often it changes.
const (
	showAfter = 2 * time.Second
	redraw    = 100 * time.Millisecond
)

func newProgress(w io.Writer) *progress {
	p := &progress{line: "waiting for the first answer…", next: time.Now().Add(showAfter)}
	if width, ok := terminal(w); ok {
		p.w, p.width = unfiltered(w), width
		p.first = time.AfterFunc(showAfter, p.draw)
	}
	return p
}

func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	p.line = fmt.Sprintf(format, args...)
	p.mu.Unlock()
	p.draw()
}

func (p *progress) draw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w == nil || time.Now().Before(p.next) {
		return
	}
	p.next = time.Now().Add(redraw)
	line := []rune(text.Clean(p.line))
	line = line[:min(len(line), p.width-1)]
	fmt.Fprintf(p.w, "\r%-*s", p.length, string(line))
	p.length = len(line)
}

func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.length > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.length, "")
	}
	if p.w != nil {
		p.first.Stop()
	}
	p.w, p.length = nil, 0
}
