package auditor

import (
	"context"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
)

const (
	// Prefix begins the names of all the auditor's series.
	Prefix = "webhook_auditor_"
	// MaxWait ends each wait for the auditor and its commands: a change shows within
	// seconds, and on a machine with a load of 30 within minutes.
	MaxWait = 5 * time.Minute
)

// Scrape reads /metrics.
func (a *Auditor) Scrape(ctx context.Context) (metrics.Metrics, error) {
	text, err := a.Page(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return metrics.Parse([]byte(text))
}

// Eventually scrapes until the condition holds and returns how long that took.
func (a *Auditor) Eventually(ctx context.Context, holds metrics.Condition) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	begun := time.Now()
	err := a.Await(ctx, func(ctx context.Context) error {
		scrape, err := a.Scrape(ctx)
		if err != nil {
			return err
		}
		return holds(scrape)
	})
	return time.Since(begun), err
}
