package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
)

// The limit of messages of a library in the log: so many at once, and then one in an
// interval. A metric counts all.
const (
	libraryBurst    = 10
	libraryInterval = time.Minute
)

// libraryLog is the log of a library that logs each event, as net/http does for
// each failed TLS handshake. All messages are counted, and few are logged.
type libraryLog struct {
	slog.Handler
	counter prometheus.Counter
	limiter *rate.Limiter
}

func newLibraryLog(handler slog.Handler, library string, messages *prometheus.CounterVec) libraryLog {
	return newCountedLog(handler.WithAttrs([]slog.Attr{slog.String("library", library)}), messages.WithLabelValues(library))
}

// newCountedLog is the log of anything that may log each event.
func newCountedLog(handler slog.Handler, counter prometheus.Counter) libraryLog {
	return libraryLog{
		Handler: handler, counter: counter, limiter: rate.NewLimiter(rate.Every(libraryInterval), libraryBurst),
	}
}

// Handle logs or counts a message. One of a call that was ended, as SIGTERM ends all, is
// neither: that it ended is no error.
func (l libraryLog) Handle(ctx context.Context, r slog.Record) error {
	if ofEnd(r) {
		return nil
	}
	l.counter.Inc()
	if !l.limiter.AllowN(r.Time, 1) {
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

func (l libraryLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	l.Handler = l.Handler.WithAttrs(attrs)
	return l
}

func (l libraryLog) WithGroup(name string) slog.Handler {
	l.Handler = l.Handler.WithGroup(name)
	return l
}
