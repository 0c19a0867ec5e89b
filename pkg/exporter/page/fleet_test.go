package page

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/expect"
	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

func fleetFile(t *testing.T, clusters ...Cluster) string {
	t.Helper()
	var b bytes.Buffer
	must.Succeed(t, WriteFleet(&b, clusters, options))
	return b.String()
}

func clusterOf(name string, r *classify.Report) Cluster {
	return Cluster{report.NewDocument(r).InContext(name), r}
}

// TestFleet: a row and a section for each cluster, what they share, and of a cluster
// that could not be read, why.
func TestFleet(t *testing.T) {
	dead := Cluster{Document: report.Document{Errors: []report.Error{{Message: "timed out after 1m0s"}}}.InContext("dead")}
	page := fleetFile(t, clusterOf("a", demo(t)), dead, clusterOf("b", demo(t)))
	ids := map[string]bool{"main": true}
	for _, id := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[id[1]] && id[1] != "main" {
			t.Errorf("two elements have the id %s", id[1])
		}
		ids[id[1]] = true
	}
	for _, anchor := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !ids[anchor[1]] {
			t.Errorf("a link leads to %s, which the file does not hold", anchor[1])
		}
	}
	expect.Contains(
		t, page,
		`<a href="#clusters/a">a</a>`, `<a href="#clusters/dead">dead</a>`, `<div id="clusters/b">`, "<td>not read</td>",
		"3 clusters, of which 1 could not be read", "context dead: timed out after 1m0s", `<td class="n">2</td></tr>`,
		`href="`+strings.TrimSuffix(report.RunbookURL(""), ".md"),
	)
	if strings.Contains(page, `id="age"`) {
		t.Error("the script takes the file for a served page, which it reads anew")
	}
	if one := fleetFile(t, clusterOf("a", demo(t))); strings.Contains(one, "In several clusters") {
		t.Error("one cluster shares with none")
	}
}

// TestFleetOfMany: the sections are bounded, the rows are not.
func TestFleetOfMany(t *testing.T) {
	var clusters []Cluster
	for i := range maxFileClusters + 3 {
		clusters = append(clusters, Cluster{Document: report.Document{}.InContext(fmt.Sprintf("c-%03d", i))})
	}
	page := fleetFile(t, clusters...)
	if n := strings.Count(page, `<div id="clusters/`); n != maxFileClusters || !strings.Contains(page, "… and 3 more clusters") || !strings.Contains(page, `<th scope="row">c-102</th>`) {
		t.Errorf("%d sections", n)
	}
}

// TestFleetOfHostileNames: a context is text, as all names are.
func TestFleetOfHostileNames(t *testing.T) {
	page := fleetFile(t, clusterOf(attack, hostile(t)), clusterOf("b", hostile(t)))
	if strings.Contains(page, attack) {
		t.Error("a name is markup")
	}
}
