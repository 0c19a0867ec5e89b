package monitoring

import (
	"context"
	"net/url"

	"github.com/prometheus/common/model"

	"github.com/webhook-auditor/webhook-auditor/e2e/internal/web"
)

// Alert is an alert that Alertmanager has.
type Alert struct {
	Labels, Annotations map[string]string
	Status              struct{ State string } // active, or suppressed where another alert explains it
}

// Alerts are the alerts that Alertmanager has, resolved ones excepted.
func (s *Stack) Alerts(ctx context.Context) ([]Alert, error) {
	var found []Alert
	err := web.JSON(ctx, s.Alertmanager+"/api/v2/alerts", &found)
	return found, err
}

// Query asks Prometheus for the series that an expression has now.
func (s *Stack) Query(ctx context.Context, expr string) (model.Vector, error) {
	var answer struct {
		Data struct{ Result model.Vector }
	}
	err := web.JSON(ctx, s.Prometheus+"/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}
