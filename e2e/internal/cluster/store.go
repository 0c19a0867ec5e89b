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
	return c.inStore("put", key, map[string][]byte{"key": []byte(key), "value": value})
}

// DeletePrefix deletes all objects in etcd whose keys begin with the prefix, behind the
// back of the API server.
func (c *ControlPlane) DeletePrefix(prefix string) error {
	end := []byte(prefix)
	end[len(end)-1]++
	return c.inStore("deleterange", prefix, map[string][]byte{"key": []byte(prefix), "range_end": end})
}

func (c *ControlPlane) inStore(method, key string, request map[string][]byte) error {
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
		answer, _ := io.ReadAll(response.Body) // only decorates the error
		return fmt.Errorf("%s of %s: %s: %s", method, key, response.Status, answer)
	}
	return nil
}
