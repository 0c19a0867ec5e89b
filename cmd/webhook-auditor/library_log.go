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

// quietInterval is how long a kind of message of a library is not logged again: a metric
// counts all.
const quietInterval = time.Minute

// maxKinds bounds the kinds of messages that are kept apart; what is beyond is
// counted only.
const maxKinds = 100

// libraryLog is the log of a library that logs each event, as net/http does for
// each failed TLS handshake. All messages are counted, and the first of a kind is logged
// once an interval.
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
	return libraryLog{Handler: to, counter: counter, kinds: &kinds{next: map[string]time.Time{}}}
}

// Handle logs or counts a message. One of a call that was ended, as SIGTERM ends all, is
// neither: that it ended is no error.
func (l libraryLog) Handle(ctx context.Context, r slog.Record) error {
	if ofEnd(r) {
		return nil
	}
	l.counter.Inc()
	if !l.kinds.first(kindOfMessage(r.Message), r.Time) {
		return nil
	}
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

// kinds are when each kind of message may be logged again.
type kinds struct {
	mu   sync.Mutex
	next map[string]time.Time
}

// first reports whether a message is the first of its kind in the interval.
func (k *kinds) first(kind string, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Before(k.next[kind]) || k.next[kind].IsZero() && len(k.next) >= maxKinds {
		return false
	}
	k.next[kind] = now.Add(quietInterval)
	return true
}
