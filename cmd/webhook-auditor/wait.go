package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// noticeAfter is when a command prints what it waits for.
	noticeAfter = 2 * time.Second
	// credentialsLimit is how long a credential plugin may take: it may have the
	// user log in with a browser.
	credentialsLimit = 3 * time.Minute
	// interruptGrace is how long an interrupted command may take to clean up.
	interruptGrace = 300 * time.Millisecond
)

// waiting is a wait for something outside of the program.
type waiting struct {
	// what is waited for, and what to do if that does not come.
	what, cure string
	limit      time.Duration
	// notices receives a line once the wait is long.
	notices io.Writer
}

// outcomeOf is what a function returned.
type outcomeOf[T any] struct {
	value T
	err   error
}

// await returns what do returns, unless the context ends or the limit passes
// before: what blocks in a system call or a plugin takes no context.
func await[T any](ctx context.Context, w waiting, do func() (T, error)) (T, error) {
	done := make(chan outcomeOf[T], 1)
	go func() {
		value, err := do()
		done <- outcomeOf[T]{value, err}
	}()
	notice, limit := time.After(noticeAfter), time.After(w.limit)
	var none T
	for {
		select {
		case o := <-done:
			return o.value, o.err
		case <-ctx.Done():
			return none, context.Cause(ctx)
		case <-notice:
			complain(w.notices, "waiting for %s", w.what)
		case <-limit:
			return none, fmt.Errorf("%s: timed out after %s: %s", w.what, w.limit, w.cure)
		}
	}
}

// errNoCall ends the call that is made for the credentials alone.
var errNoCall = errors.New("no call is made")

// awaitCredentials runs the credential plugin of the kubeconfig, if there is
// one. client-go runs it without a context and keeps what it returns, so that
// the calls that follow need not wait for it.
func awaitCredentials(ctx context.Context, config *rest.Config, notices io.Writer) error {
	if config.ExecProvider == nil {
		return nil
	}
	command := config.ExecProvider.Command
	probe := rest.CopyConfig(config)
	probe.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, errNoCall }
	transport, err := rest.TransportFor(probe)
	if err != nil {
		return fmt.Errorf("preparing to reach %s: %w", config.Host, err)
	}
	w := waiting{
		what:  fmt.Sprintf("the credential plugin %q of the kubeconfig", command),
		cure:  "run it by hand to see what it waits for",
		limit: credentialsLimit, notices: notices,
	}
	_, err = await(ctx, w, func() (struct{}, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://credentials.invalid/", http.NoBody)
		if err != nil {
			return struct{}{}, err
		}
		response, err := transport.RoundTrip(request)
		if err == nil {
			response.Body.Close()
		}
		if errors.Is(err, errNoCall) {
			err = nil
		}
		return struct{}{}, err
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading the credentials of %s: %w", config.Host, err)
	}
	return err
}

// interrupted runs what ends by itself and, once the context has ended, leaves
// it soon: it may be in a system call, a plugin or a long computation.
func interrupted(ctx context.Context, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return err
	case <-time.After(interruptGrace):
		return context.Cause(ctx)
	}
}
