package manifest

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Most of the bytes of a webhook are its CA bundle, and none of them has a
// meaning in YAML. The parser reads a short mark in place of each bundle.

const (
	bundleKey = "caBundle: "
	base64Set = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
	digits    = "0123456789"
	// minBundle is the shortest text that gets a mark.
	minBundle = 64
)

// bundles are the texts that a document has marks for.
type bundles struct {
	// mark is how each mark starts. It is random: no document contains it.
	mark  string
	texts [][]byte
}

// cutBundles replaces the base64 that follows the key of a CA bundle up to the
// end of the line. In any context of YAML, the mark is read as the base64 is.
func cutBundles(data []byte) ([]byte, bundles) {
	parts := bytes.Split(data, []byte(bundleKey))
	if len(parts) == 1 {
		return data, bundles{}
	}
	b := bundles{mark: "mark" + rand.Text() + "x"}
	out := bytes.Clone(parts[0])
	for _, part := range parts[1:] {
		out = append(out, bundleKey...)
		rest := bytes.TrimLeft(part, base64Set)
		length := len(part) - len(rest)
		if length >= minBundle && (bytes.HasPrefix(rest, []byte("\n")) || bytes.HasPrefix(rest, []byte("\r\n"))) {
			out = strconv.AppendInt(append(out, b.mark...), int64(len(b.texts)), 10)
			b.texts, part = append(b.texts, part[:length]), rest
		}
		out = append(out, part...)
	}
	return out, b
}

// restore puts the texts back in place of their marks.
func (b bundles) restore(n *yaml.Node) {
	if len(b.texts) == 0 {
		return
	}
	if strings.Contains(n.Value, b.mark) {
		n.Value = b.restored(n.Value)
	}
	for _, child := range n.Content {
		b.restore(child)
	}
}

func (b bundles) restored(value string) string {
	var out strings.Builder
	for i, part := range strings.Split(value, b.mark) {
		if i > 0 {
			rest := strings.TrimLeft(part, digits)
			text, _ := strconv.Atoi(part[:len(part)-len(rest)]) // cutBundles wrote a number
			out.Write(b.texts[text])
			part = rest
		}
		out.WriteString(part)
	}
	return out.String()
}
