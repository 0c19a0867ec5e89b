package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxObject is more than an API server takes.
const maxObject = 16 << 20

// asWritten is what a file leaves open.
const asWritten = "the object is taken as it is written: the API server fills in defaults, and mutating webhooks may change it, before the others see it"

// request reads OPERATION RESOURCE [NAME], and with --filename the object,
// which says what it is itself; nobody has to say that it is created.
func (e *explain) request(args []string, s streams) (operation, resource string, err error) {
	if e.file == "" {
		if len(args) < 2 || len(args) > 3 {
			return "", "", usageError{errors.New("explain: want OPERATION RESOURCE[/SUB] [NAME], as in: webhook-auditor explain create pods -n default; or --filename; or --error")}
		}
		return args[0], args[1], e.describe(args[2:])
	}
	if len(args) > 3 {
		return "", "", usageError{fmt.Errorf("explain: unexpected argument %q", args[3])}
	}
	object, err := e.object(s)
	if err != nil {
		return "", "", err
	}
	e.subject.Object = object
	operation, resource = "create", qualified(object)
	if len(args) > 0 {
		operation = args[0]
	}
	if len(args) > 1 {
		resource = args[1]
	} else {
		e.subject.Version = cmp.Or(e.subject.Version, text(object, "apiVersion"))
	}
	return operation, resource, e.describe(args[min(2, len(args)):])
}

// object reads the one object of --filename.
func (e *explain) object(s streams) (map[string]any, error) {
	b, err := e.bytes(s)
	if err != nil {
		return nil, usageError{fmt.Errorf("reading the object: %w", err)}
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	var found []map[string]any
	for document := range strings.SplitSeq("\n"+strings.ReplaceAll(string(b), "\r\n", "\n"), "\n---") {
		object, err := decode(document)
		if err != nil {
			return nil, usageError{fmt.Errorf("reading the object %s: %w", e.file, err)}
		}
		if len(object) > 0 {
			found = append(found, object)
		}
	}
	switch {
	case len(found) != 1:
		return nil, usageError{fmt.Errorf("reading the object %s: %d objects in it: want one", e.file, len(found))}
	case text(found[0], "kind") == "" || text(found[0], "apiVersion") == "":
		return nil, usageError{fmt.Errorf("reading the object %s: want apiVersion and kind", e.file)}
	case found[0]["items"] != nil:
		return nil, usageError{fmt.Errorf("reading the object %s: it is a list: want one object", e.file)}
	}
	return found[0], nil
}

func (e *explain) bytes(s streams) ([]byte, error) {
	if e.file == "-" {
		return io.ReadAll(io.LimitReader(s.in, maxObject))
	}
	f, err := os.Open(e.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxObject))
}

// decode keeps whole numbers whole, as the API server does.
func decode(document string) (map[string]any, error) {
	b, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		return nil, err
	}
	var object map[string]any
	return object, utiljson.Unmarshal(b, &object)
}

// qualified names the object's kind as kubectl takes it: "deployment.apps".
func qualified(object map[string]any) string {
	group, _, grouped := strings.Cut(text(object, "apiVersion"), "/")
	kind := strings.ToLower(text(object, "kind"))
	if !grouped {
		return kind
	}
	return kind + "." + group
}

func text(object map[string]any, key string) string {
	s, _ := object[key].(string)
	return s
}
