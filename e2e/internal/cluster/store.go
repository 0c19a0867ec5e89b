package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Put writes an object to etcd: one that the API server serves, but would not take.
func (c *ControlPlane) Put(ctx context.Context, key string, value []byte) error {
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v3/kv/put", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	transport := &http.Transport{DialContext: c.dialStore}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(response.Body) // only decorates the error
		return fmt.Errorf("writing %s: %s: %s", key, response.Status, answer)
	}
	return nil
}
