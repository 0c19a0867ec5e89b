package dashboards

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/internal/text"
)

// Form is a way to deliver the boards.
type Form string

// The forms.
const (
	// JSON is for Grafana's import and its file provisioning.
	JSON Form = "json"
	// ConfigMap is for the sidecar of Grafana's charts.
	ConfigMap Form = "configmap"
	// GrafanaOperator is for the grafana-operator.
	GrafanaOperator Form = "grafana-operator"
	// OpenShiftConsole is for the console of OpenShift.
	OpenShiftConsole Form = "openshift-console"
)

// Committed are the forms that are committed: Grafana's dialect and that of the
// console once each.
var Committed = []Form{JSON, OpenShiftConsole}

// Forms are all forms, in the order of the documents.
var Forms = []Form{JSON, ConfigMap, GrafanaOperator, OpenShiftConsole}

// Options adapt the boards to an installation.
type Options struct {
	// PageURL is the address of the auditor's status page, which the boards in
	// Grafana then link to; "" if there is none.
	PageURL string
}

// linked are the forms whose boards can have links.
var linked = []Form{JSON, ConfigMap, GrafanaOperator}

// Render returns the files of the form by name, ready to be written or applied:
// one JSON file per board, or one stream of objects for all.
func Render(form Form, o Options) (map[string][]byte, error) {
	if o.PageURL != "" && !slices.Contains(linked, form) {
		return nil, fmt.Errorf("--page-url: must be given with --form %s: boards of the form %s have no links", strings.Join(lists.Strings(linked), ", "), form)
	}
	draw := func(b Board) (object, error) { return grafana(o.onPage(b)) }
	switch form {
	case JSON:
		return render(form, draw, nil)
	case ConfigMap:
		return render(form, draw, sidecarObject)
	case GrafanaOperator:
		return render(form, draw, operatorObject)
	case OpenShiftConsole:
		return render(form, console, consoleObject)
	}
	return nil, fmt.Errorf("unknown form %q: must be one of %v", form, Forms)
}

// Print returns all files of the form as one stream.
func Print(form Form, o Options) ([]byte, error) {
	files, err := Render(form, o)
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, b := range Boards() {
		out = append(out, files[b.Name+".json"]...)
	}
	return append(out, files[streamName(form)]...), nil
}

func streamName(form Form) string { return string(form) + ".yaml" }

// boardsIn are the boards that the form has a use for.
func boardsIn(form Form) []Board {
	return slices.DeleteFunc(Boards(), func(b Board) bool { return form == OpenShiftConsole && b.GrafanaOnly })
}

// render makes a file of each board, as draw draws it, or one stream of the objects that
// wrap makes of them.
func render(form Form, draw func(Board) (object, error),
	wrap func(Board, string) object,
) (map[string][]byte, error) {
	out, docs := map[string][]byte{}, [][]byte(nil)
	for _, b := range boardsIn(form) {
		board, err := draw(b)
		if err != nil {
			return nil, err
		}
		content, err := encode(board)
		if err != nil {
			return nil, fmt.Errorf("encoding board %s: %w", b.Name, err)
		}
		if wrap == nil {
			out[b.Name+".json"] = content
			continue
		}
		doc, err := yaml.Marshal(wrap(b, string(content)))
		if err != nil {
			return nil, fmt.Errorf("encoding the object of board %s: %w", b.Name, err)
		}
		docs = append(docs, doc)
	}
	if wrap != nil {
		out[streamName(form)] = bytes.Join(docs, []byte("---\n"))
	}
	return out, nil
}

// encode writes JSON for readers: PromQL is full of < and >, and what is small stands in
// one line. One blank indents it, as kubectl apply keeps the object of a board once more in
// an annotation of limited size.
func encode(v any) ([]byte, error) {
	content, err := text.JSON(v, " ")
	folded := small.ReplaceAllFunc(content, fold)
	return small.ReplaceAllFunc(folded, fold), err
}

// small matches an object or a list without strings that could hold brackets or line breaks,
// as deep as two passes.
var small = regexp.MustCompile(`[\[{]\n[^\[\]{}]*\n *[\]}]`)

// foldedWidth is how wide a line may be that several become.
const foldedWidth = 120

func fold(lines []byte) []byte {
	words := bytes.Split(lines, []byte("\n"))
	for i := range words {
		words[i] = bytes.TrimLeft(words[i], " ")
	}
	if one := bytes.Join(words, []byte(" ")); len(one) <= foldedWidth {
		return one
	}
	return lines
}

// labels are on every object that carries a board.
func labels(more ...string) object {
	out := object{"app.kubernetes.io/name": tag, "app.kubernetes.io/part-of": tag}
	for pair := range slices.Chunk(more, 2) {
		out[pair[0]] = pair[1]
	}
	return out
}

func configMap(b Board, board string, metadata object) object {
	return object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": object{b.UID() + ".json": board}}
}

func sidecarObject(b Board, board string) object {
	return configMap(b, board, object{
		"name":        "grafana-" + b.UID(),
		"labels":      labels("grafana_dashboard", "1"),
		"annotations": object{"grafana_folder": "Kubernetes / Webhooks"},
	})
}

func operatorObject(b Board, board string) object {
	return object{
		"apiVersion": "grafana.integreatly.org/v1beta1",
		"kind":       "GrafanaDashboard",
		"metadata":   object{"name": b.UID(), "labels": labels()},
		"spec": object{
			"allowCrossNamespaceImport": true,
			"folder":                    "Kubernetes / Webhooks",
			"instanceSelector":          object{"matchLabels": object{"dashboards": "grafana"}},
			"resyncPeriod":              "10m",
			"json":                      board,
		},
	}
}

func consoleObject(b Board, board string) object {
	return configMap(b, board, object{
		"name":      "grafana-dashboard-" + b.UID(),
		"namespace": "openshift-config-managed",
		"labels":    labels("console.openshift.io/dashboard", "true"),
	})
}
