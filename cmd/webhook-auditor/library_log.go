package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// summaryInterval is how often a kind of message of a library is logged, with
// how many more there were.
const summaryInterval = time.Minute

// maxKinds bounds the kinds of messages that are kept apart; what is beyond is
// counted only.
const maxKinds = 100

// libraryLog is the log of a library that logs each event, as net/http does for
// each failed TLS handshake. All messages are counted, the first of a kind is
// logged at once, and once an interval how many more there were.
type libraryLog struct {
	slog.Handler
	counter prometheus.Counter
	kinds   *kinds
}

func newLibraryLog(to slog.Handler, library string, messages *prometheus.CounterVec) libraryLog {
	return newCountedLog(to.WithAttrs([]slog.Attr{slog.String("library", library)}), messages.WithLabelValues(library))
}

// newCountedLog is the log of anything that may log each event.
func newCountedLog(to slog.Handler, counter prometheus.Counter) libraryLog {
	return libraryLog{Handler: to, counter: counter, kinds: &kinds{later: map[string]*repetition{}}}
}

// Handle logs or counts a message. One of a call that was ended, as SIGTERM ends all, is
// neither: that it ended is no error.
func (l libraryLog) Handle(ctx context.Context, r slog.Record) error {
	if ofEnd(r) {
		return nil
	}
	l.counter.Inc()
	kind := kindOfMessage(r.Message)
	if !l.kinds.first(kind, r) {
		return nil
	}
	time.AfterFunc(summaryInterval, func() { l.summarize(kind) })
	return l.Handler.Handle(ctx, r)
}

// ofEnd reports whether the message is of an error that only the end of a context causes.
func ofEnd(r slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		found = found || ok && errors.Is(err, context.Canceled)
		return !found
	})
	return found
}

// summarize logs the last message of a kind, with how many came since the first.
func (l libraryLog) summarize(kind string) {
	last := l.kinds.end(kind)
	if last == nil || last.more == 0 {
		return
	}
	last.record.AddAttrs(slog.Int("more", last.more))
	// An error is of writing the log, and has no log to go to.
	_ = l.Handler.Handle(context.Background(), last.record)
}

// WithAttrs is part of slog.Handler.
func (l libraryLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.Handler = l.Handler.WithAttrs(attrs)
	return l
}

// WithGroup is part of slog.Handler.
func (l libraryLog) WithGroup(name string) slog.Handler {
	l.Handler = l.Handler.WithGroup(name)
	return l
}

// kindOfMessage is a message up to what differs from one to the next: an
// address, a number.
func kindOfMessage(message string) string {
	if i := strings.IndexAny(message, "0123456789"); i >= 0 {
		return message[:i]
	}
	return message
}

// kinds are the kinds of messages of the last interval.
type kinds struct {
	mu    sync.Mutex
	later map[string]*repetition
}

// repetition is how often a kind came after its first message, and the last one.
type repetition struct {
	more   int
	record slog.Record
}

// first reports whether a message is the first of its kind in the interval.
func (k *kinds) first(kind string, r slog.Record) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := k.later[kind]; last != nil {
		last.more++
		last.record = r.Clone()
		return false
	}
	if len(k.later) >= maxKinds {
		return false
	}
	k.later[kind] = &repetition{}
	return true
}

// end ends the interval of a kind.
func (k *kinds) end(kind string) *repetition {
	k.mu.Lock()
	defer k.mu.Unlock()
	last := k.later[kind]
	delete(k.later, kind)
	return last
}
