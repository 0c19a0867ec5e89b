package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// statement is an in-toto statement with a predicate of SLSA. Source:
// in-toto.io/Statement/v1, slsa.dev/provenance/v1.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

// provenance writes who built the files, of which commit: what cosign attests.
func (r release) provenance(files []string) (string, error) {
	commit, err := exec.Command("git", "-C", r.root, "rev-parse", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("reading the commit of the release: %w", err)
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for _, file := range files {
		sum, err := digest(file)
		if err != nil {
			return "", err
		}
		s.Subject = append(s.Subject, subject{filepath.Base(file), map[string]string{"sha256": sum}})
	}
	build := &s.Predicate.BuildDefinition
	build.BuildType = home + "/blob/main/manifests/packaging/release"
	build.ExternalParameters = map[string]string{"version": r.version, "image": r.image}
	build.ResolvedDependencies = []dependency{{
		"git+" + home + "@refs/tags/" + r.version, map[string]string{"gitCommit": strings.TrimSpace(string(commit))},
	}}
	s.Predicate.RunDetails.Builder.ID = r.builder
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the provenance: %w", err)
	}
	path := filepath.Join(r.out, "provenance.json")
	return path, os.WriteFile(path, append(text, '\n'), 0o644)
}
