package main

import (
	"fmt"
	"os"
	"strings"
)

// section is a part of BENCH.md that is written by this command, between the comments
// that begin and end it. What is around it is written by hand.
type section struct{ name, text string }

// write replaces the sections of the file.
func write(path string, sections []section) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the document: %w", err)
	}
	text := string(document)
	for _, s := range sections {
		if text, err = s.replaceIn(text); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

func (s section) replaceIn(document string) (string, error) {
	begin, end := "<!-- begin "+s.name+" -->\n", "<!-- end "+s.name+" -->\n"
	before, rest, ok := strings.Cut(document, begin)
	if !ok {
		return "", fmt.Errorf("there is no line %s", strings.TrimSpace(begin))
	}
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		return "", fmt.Errorf("there is no line %s", strings.TrimSpace(end))
	}
	return before + begin + s.text + end + after, nil
}
