// Package served writes down what an API server serves, one resource a line,
// sorted, so that two versions can be compared with diff.
package served

import (
	"fmt"
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
