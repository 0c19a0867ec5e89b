// Package web asks servers.
package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// Get wants a 200, and returns what comes with it.
func Get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking for %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("asking for %s: %s: %s", url, response.Status, body)
	}
	return body, err
}

// JSON reads what a URL answers into the value.
func JSON(ctx context.Context, url string, target any) error {
	body, err := Get(ctx, http.DefaultClient, url)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, target)
}
