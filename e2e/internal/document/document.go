// Package document writes what commands derive into documents that are otherwise
// written by hand.
package document

import (
	"fmt"
	"os"
	"strings"
)

// Section is a part of a document that a command writes, between the comments that
// begin and end it. What is around it is written by hand.
type Section struct{ Name, Text string }

// Write replaces the sections of the file.
func Write(path string, sections []Section) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	text := string(document)
	for _, s := range sections {
		if text, err = s.ReplaceIn(text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// ReplaceIn returns the document with the section in its place.
func (s Section) ReplaceIn(document string) (string, error) {
	begin, end := "<!-- begin "+s.Name+" -->\n", "<!-- end "+s.Name+" -->\n"
	before, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", fmt.Errorf("there is no line %s", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("there is no line %s", strings.TrimSpace(end))
	}
	return before + begin + s.Text + end + after, nil
}
