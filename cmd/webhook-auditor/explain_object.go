package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// maxObject is more than an API server takes.
const maxObject = 16 << 20

// object reads the one object of --filename.
func (r *requestFlags) object(s streams) (map[string]any, error) {
	b, err := r.bytes(s)
	if err != nil {
		return nil, usageError{fmt.Errorf("reading the object: %w", err)}
	}
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	var found []map[string]any
	for document := range strings.SplitSeq("\n"+strings.ReplaceAll(string(b), "\r\n", "\n"), "\n---") {
		object, err := decode(document)
		if err != nil {
			return nil, usageError{fmt.Errorf("reading the object %s: %w", r.file, err)}
		}
		if len(object) > 0 {
			found = append(found, object)
		}
	}
	switch {
	case len(found) != 1:
		return nil, usageError{fmt.Errorf("reading the object %s: must be one object, not %d", r.file, len(found))}
	case stringOf(found[0], "kind") == "" || stringOf(found[0], "apiVersion") == "":
		return nil, usageError{fmt.Errorf("reading the object %s: must have apiVersion and kind", r.file)}
	case found[0]["items"] != nil:
		return nil, usageError{fmt.Errorf("reading the object %s: must be one object, not a list", r.file)}
	}
	return found[0], nil
}

func (r *requestFlags) bytes(s streams) ([]byte, error) {
	in := s.in
	if r.file != "-" {
		f, err := os.Open(r.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxObject+1))
	if err == nil && len(b) > maxObject {
		err = fmt.Errorf("%s has more than %d MiB, which no API server takes: name a file with one object", r.file, maxObject>>20)
	}
	return b, err
}

// decode keeps whole numbers whole, as the API server does.
func decode(document string) (map[string]any, error) {
	b, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		return nil, err
	}
	if err := onlyObject(document); err != nil {
		return nil, err
	}
	var object map[string]any
	return object, utiljson.Unmarshal(b, &object)
}

// onlyObject refuses what follows an object without a marker: the parser of
// YAMLToJSON stops reading at its end.
func onlyObject(document string) error {
	decoder := yamlv3.NewDecoder(strings.NewReader(document))
	var object, more yamlv3.Node
	if err := decoder.Decode(&object); err != nil {
		return nil // empty, or what YAMLToJSON takes all the same
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return errors.New("something follows the object: must be one object and nothing else")
	}
	return nil
}

// qualified names the object's kind as kubectl takes it: "deployment.apps".
func qualified(object map[string]any) string {
	group, _, grouped := strings.Cut(stringOf(object, "apiVersion"), "/")
	kind := strings.ToLower(stringOf(object, "kind"))
	if !grouped {
		return kind
	}
	return kind + "." + group
}

func stringOf(object map[string]any, key string) string {
	s, _ := object[key].(string)
	return s
}
