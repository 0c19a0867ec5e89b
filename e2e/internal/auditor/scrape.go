package auditor

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/metrics"
)

const (
	// Prefix begins the names of all the auditor's series.
	Prefix = "webhook_auditor_"
	// MaxWait is how long a change may take to show on /metrics.
	MaxWait = 30 * time.Second
)

// Scrape reads /metrics.
func (a *Auditor) Scrape(ctx context.Context) (metrics.Metrics, error) {
	response, err := a.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return metrics.Parse(response.Body)
}

// Eventually scrapes until the condition holds and returns how long that took.
func (a *Auditor) Eventually(ctx context.Context, holds metrics.Condition) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	begun := time.Now()
	// Often at first, as the delay is printed.
	pace := wait.Backoff{Duration: 25 * time.Millisecond, Factor: 1.2, Steps: 20, Cap: 250 * time.Millisecond}
	for {
		scrape, err := a.Scrape(ctx)
		if err == nil {
			err = holds(scrape)
		}
		if err == nil {
			return time.Since(begun), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting %s for /metrics: %w", MaxWait, err)
		case <-a.Done():
			return 0, fmt.Errorf("waiting for /metrics: the auditor ended:\n%s", a.Output())
		case <-time.After(pace.Step()):
		}
	}
}
