package monitoring

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/prometheus/common/model"
)

// Alert is an alert that Alertmanager has.
type Alert struct {
	Labels, Annotations map[string]string
	Status              struct{ State string } // active, or suppressed where another alert explains it
}

// Alerts are the alerts that Alertmanager has, resolved ones excepted.
func (s *Stack) Alerts(ctx context.Context) ([]Alert, error) {
	var found []Alert
	err := Get(ctx, s.Alertmanager+"/api/v2/alerts", &found)
	return found, err
}

// Query asks Prometheus for the series that an expression has now.
func (s *Stack) Query(ctx context.Context, expr string) (model.Vector, error) {
	var answer struct {
		Data struct{ Result model.Vector }
	}
	err := Get(ctx, s.Prometheus+"/api/v1/query?query="+url.QueryEscape(expr), &answer)
	return answer.Data.Result, err
}

// Get reads what a URL answers into the value; nil wants an answer alone.
func Get(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: %s: %s", url, response.Status, body)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	return nil
}
