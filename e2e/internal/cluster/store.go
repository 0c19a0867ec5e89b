package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Put writes an object to etcd: one that the API server serves, but would not take.
func (c *ControlPlane) Put(key string, value []byte) error {
	body, err := json.Marshal(map[string][]byte{"key": []byte(key), "value": value})
	if err != nil {
		return fmt.Errorf("writing %s: %w", key, err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: c.dialStore, DisableKeepAlives: true}}
	response, err := client.Post("http://localhost/v3/kv/put", "application/json", bytes.NewReader(body))
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
