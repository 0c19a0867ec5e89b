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
	return c.inStore("put", key, map[string]any{"key": []byte(key), "value": value}, &struct{}{})
}

// Keys are those in etcd that begin with the prefix.
func (c *ControlPlane) Keys(prefix string) ([]string, error) {
	var answer struct{ Kvs []struct{ Key []byte } }
	err := c.inStore("range", prefix, map[string]any{"key": []byte(prefix), "range_end": after(prefix), "keys_only": true}, &answer)
	var out []string
	for _, kv := range answer.Kvs {
		out = append(out, string(kv.Key))
	}
	return out, err
}

// DeletePrefix deletes all objects in etcd whose keys begin with the prefix, behind the
// back of the API server.
func (c *ControlPlane) DeletePrefix(prefix string) error {
	return c.inStore("deleterange", prefix, map[string]any{"key": []byte(prefix), "range_end": after(prefix)}, &struct{}{})
}

// after is the first key behind those that begin with the prefix.
func after(prefix string) []byte {
	end := []byte(prefix)
	end[len(end)-1]++
	return end
}

// inStore sends a request to etcd and decodes its answer.
func (c *ControlPlane) inStore(method, key string, request map[string]any, answer any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("%s of %s: %w", method, key, err)
	}
	client := http.Client{Transport: &http.Transport{DialContext: c.dialStore, DisableKeepAlives: true}}
	response, err := client.Post("http://localhost/v3/kv/"+method, "application/json", bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s of %s: %w", method, key, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body) // only decorates the error
		return fmt.Errorf("%s of %s: %s: %s", method, key, response.Status, text)
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return fmt.Errorf("%s of %s: %w", method, key, err)
	}
	return nil
}
