package inventory

import (
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"github.com/go-openapi/jsonpointer"
)

const hiddenValue = "(hidden)"

// secretFields hold values that may be secret, whatever the kind.
var secretFields = []string{"env", "stringData", "kubectl.kubernetes.io/last-applied-configuration"}

// leastSecret is the least length of a secret that is looked for in texts: a shorter one is
// a part of words.
const leastSecret = 4

// Secrets are values that may be secret. Webhooks write them into messages, and patches
// copy them to other fields.
type Secrets map[string]bool

// Redact hides in the patches, of an object of the resource, all that may be secret: the
// values of Secrets and of env, and what the objects have of these. It returns the values.
func Redact(r Resource, objects []map[string]any, patches [][]Change) Secrets {
	out := Secrets{}
	for _, object := range objects {
		out.Add(object)
	}
	isSecret := func(c Change) bool {
		path := strings.Split(c.Path+c.From, "/")
		return r.Parent() == Resource{Name: "secrets"} || slices.ContainsFunc(path, func(key string) bool {
			return slices.Contains(secretFields, jsonpointer.Unescape(key))
		})
	}
	for _, c := range slices.Concat(patches...) {
		for _, v := range []any{c.Value, c.Old} {
			if isSecret(c) {
				out.note(c.Path, v)
			} else {
				out.Add(v)
			}
		}
	}
	for _, patch := range patches {
		for i := range patch {
			for _, v := range []*any{&patch[i].Value, &patch[i].Old} {
				switch {
				case *v == nil:
				case isSecret(patch[i]):
					*v = hiddenValue
				default:
					*v = out.Hide(*v)
				}
			}
		}
	}
	return out
}

// Hide is a value without them.
func (s Secrets) Hide(v any) any {
	return replaced(v, func(string, any) any { return hiddenValue }, s.Text)
}

// Add adds those within a value.
func (s Secrets) Add(v any) {
	note := func(key string, part any) any {
		s.note(key, part)
		return nil
	}
	replaced(v, note, func(text string) string { return text })
}

// replaced is a value with other values for its secret parts, and for its other texts.
func replaced(v any, part func(key string, v any) any, text func(string) string) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaced(v[i], part, text)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, value := range v {
			if slices.Contains(secretFields, key) || v["kind"] == "Secret" && key == "data" {
				out[key] = part(key, value)
			} else {
				out[key] = replaced(value, part, text)
			}
		}
		return out
	}
	return v
}

// note adds all of a secret field at the path; of env, the values.
func (s Secrets) note(path string, v any) {
	switch v := v.(type) {
	case string:
		decoded, _ := base64.StdEncoding.DecodeString(v) // empty of what is not encoded
		for _, value := range []string{v, string(decoded)} {
			if len(value) >= leastSecret && value != "true" && value != "false" {
				s[value] = true
			}
		}
	case []any:
		for _, element := range v {
			s.note(path, element)
		}
	case map[string]any:
		for key, value := range v {
			if key == "value" || !slices.Contains(strings.Split(path, "/"), "env") {
				s.note(path, value)
			}
		}
	}
}

// Text is a text without them.
func (s Secrets) Text(text string) string {
	for _, value := range slices.SortedFunc(maps.Keys(s), func(a, b string) int { return len(b) - len(a) }) {
		text = strings.ReplaceAll(text, value, hiddenValue)
	}
	return text
}
