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
	found, err := r.objects(s)
	switch {
	case err != nil:
	case len(found) != 1:
		err = fmt.Errorf("must be one object, not %d", len(found))
	case stringOf(found[0], "kind") == "" || stringOf(found[0], "apiVersion") == "":
		err = errors.New("must have apiVersion and kind")
	case found[0]["items"] != nil:
		err = errors.New("must be one object, not a list")
	}
	if err != nil {
		return nil, usageError{fmt.Errorf("reading the object %s: %w", inputName(r.file), err)}
	}
	return found[0], nil
}

// objects are those of the file that are not empty. Whole numbers stay whole, as for the
// API server.
func (r *requestFlags) objects(s streams) ([]map[string]any, error) {
	file, err := opened(r.file, s)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxObject+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxObject {
		return nil, fmt.Errorf("it has more than %d MiB, which no API server takes: name a file with one object", maxObject>>20)
	}
	var out []map[string]any
	for decoder := yamlv3.NewDecoder(bytes.NewReader(b)); ; {
		var document yamlv3.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil && len(out) > 0:
			return nil, errors.New("something follows the object: must be one object and nothing else")
		case err != nil:
			return nil, err
		}
		object, err := decode(&document)
		if err != nil {
			return nil, err
		}
		if len(object) > 0 {
			out = append(out, object)
		}
	}
}

func decode(document *yamlv3.Node) (object map[string]any, err error) {
	b, err := yamlv3.Marshal(document)
	if err != nil {
		return nil, err
	}
	if b, err = yaml.YAMLToJSON(b); err != nil {
		return nil, err
	}
	return object, utiljson.Unmarshal(b, &object)
}

// opened is a file to read, or standard input.
func opened(path string, s streams) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(s.in), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err) // the path is named before
	}
	return f, nil
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
