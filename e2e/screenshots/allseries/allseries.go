// Package allseries makes a control plane export all its series about
// webhooks.
package allseries

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/apply"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/cluster"
	"github.com/webhook-auditor/webhook-auditor/e2e/internal/webhook"
)

//go:embed webhooks.yaml
var webhooks string

//go:embed objects.yaml
var objects string

// Export registers webhooks that allow, deny, fail closed and fail open, and
// writes objects until each was called. The writes that they refuse are the
// point, so their errors are none of ours.
func Export(ctx context.Context, plane *cluster.ControlPlane, server *webhook.Server) error {
	client, err := apply.New(plane.Config())
	if err != nil {
		return err
	}
	values := strings.NewReplacer("PORT", strconv.Itoa(int(server.Port())), "BUNDLE", base64.StdEncoding.EncodeToString(server.CABundle()))
	registered, err := apply.Objects([]byte(values.Replace(webhooks)))
	if err != nil {
		return fmt.Errorf("reading webhooks.yaml: %w", err)
	}
	if err := client.Apply(ctx, registered...); err != nil {
		return fmt.Errorf("registering webhooks: %w", err)
	}
	written, err := apply.Objects([]byte(objects))
	if err != nil {
		return fmt.Errorf("reading objects.yaml: %w", err)
	}
	for range 5 {
		for _, object := range written {
			_ = client.Apply(ctx, object)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
	return nil
}
