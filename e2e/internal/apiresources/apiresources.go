// Package apiresources writes down what an API server serves, one resource a line,
// sorted, so that two versions can be compared with diff.
package apiresources

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
)

// Lines asks the server for all groups, versions and resources, subresources
// included. A line reads "GROUP/VERSION RESOURCE[/SUB] KIND SCOPE VERBS", with
// the core group written as its version alone.
func Lines(client discovery.DiscoveryInterface) ([]string, error) {
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		return nil, fmt.Errorf("discovering resources: %w", err)
	}
	var lines []string
	for _, list := range lists {
		for _, resource := range list.APIResources {
			lines = append(lines, line(list.GroupVersion, resource))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

// legacyBetas are the group versions that are served unasked though they are
// no stable ones: they were before Kubernetes 1.24 ended that, and had no
// stable version then.
var legacyBetas = map[string]bool{"flowcontrol.apiserver.k8s.io/v1beta3": true}

var stable = regexp.MustCompile(`^(.*/)?v[0-9]+$`)

// Recorded reads the same lines off the folder api/discovery in the sources of
// Kubernetes. The server that wrote it had all alpha and beta resources turned
// on: what is not on by default is left out, by its version, or because it is
// among gated ("v1 pods/resize").
func Recorded(folder string, gated ...string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "api*__v*.json"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("reading %s: no discovery documents in it (%v)", folder, err)
	}
	var lines []string
	for _, file := range files {
		list, err := listOf(file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if !stable.MatchString(list.GroupVersion) && !legacyBetas[list.GroupVersion] {
			continue
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(gated, list.GroupVersion+" "+resource.Name) {
				lines = append(lines, line(list.GroupVersion, resource))
			}
		}
	}
	slices.Sort(lines)
	return lines, nil
}

func listOf(file string) (metav1.APIResourceList, error) {
	var list metav1.APIResourceList
	text, err := os.ReadFile(file)
	if err != nil {
		return list, err
	}
	return list, json.Unmarshal(text, &list)
}

func line(groupVersion string, resource metav1.APIResource) string {
	verbs := slices.Sorted(slices.Values(resource.Verbs))
	return strings.Join([]string{groupVersion, resource.Name, resource.Kind, scope(resource), strings.Join(verbs, ",")}, " ")
}

func scope(resource metav1.APIResource) string {
	if resource.Namespaced {
		return "namespaced"
	}
	return "cluster"
}
