package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// bannedWords are words that make a reader guess what is meant, each with what to
// write instead.
var bannedWords = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{wordsOf("tell", "tells", "told", "telling"), "reports, shows, returns, distinguishes"},
	{wordsOf("heard"), "received, observed"},
	{wordsOf("said"), "reported, printed, logged, answered"},
	{wordsOf("nobody", "somebody", "anybody", "everybody", "whoever"), "the subject: a user, no client, the caller, the API server"},
	{wordsOf("the door", "at the door", "doors"), "the function that converts it"},
	{wordsOf("mend", "mends", "mended"), "resolve, fix, recover"},
	{wordsOf("at work"), "running, in use"},
	{wordsOf("moment", "moments"), "time"},
	{wordsOf("lives"), "is in, is defined in"},
	{wordsOf("shake", "farewell", "astray", "bury", "buried", "fate", "heed", "pretend", "pretends", "happening", "stranger", "strangers"), "what is done, in the words of Kubernetes"},
	{wordsOf("judge", "judges", "judged", "judging", "judgement", "judgment"), "evaluate, check, rate"},
}

var anyBanned = func() *regexp.Regexp {
	var all []string
	for _, banned := range bannedWords {
		all = append(all, banned.pattern.String())
	}
	return regexp.MustCompile(strings.Join(all, "|"))
}()

// wordsAllowed are files that must contain a banned word, with the reason.
var wordsAllowed = map[string]string{
	"cmd/webhook-auditor/words_test.go": "lists them",
}

func wordsOf(all ...string) *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(` + strings.Join(all, "|") + `)\b`)
}

// testWords are what a failing test says, and no message to a user.
var testWords = regexp.MustCompile(`[:;,] want \S|, got %`)

// TestWords holds comments, messages and documents to the words of Kubernetes and
// Prometheus.
func TestWords(t *testing.T) {
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "node_modules"}, entry.Name()):
			return filepath.SkipDir
		case !entry.Type().IsRegular() || !isProse(path):
			return nil
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if wordsAllowed[name] == "" {
			for _, complaint := range bannedIn(t, path, name) {
				t.Error(complaint)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isProse reports whether people read the file.
func isProse(path string) bool {
	return slices.Contains([]string{".go", ".md", ".sh", ".yaml", ".mjs", ".tpl", ".tmpl"}, filepath.Ext(path)) || filepath.Base(path) == "Makefile"
}

// codeSpan is a name in Markdown, which may be any word.
var codeSpan = regexp.MustCompile("`[^`\n]*`")

// bannedIn are the lines of a file with banned words, and what to write instead.
func bannedIn(t *testing.T, path, name string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	prose := string(text)
	switch filepath.Ext(path) {
	case ".go":
		prose = proseOf(text)
	case ".md":
		prose = codeSpan.ReplaceAllString(prose, "")
	}
	var out []string
	inTest := strings.HasSuffix(name, "test.go") || strings.HasPrefix(name, "e2e/")
	for i, line := range strings.Split(prose, "\n") {
		if phrase := testWords.FindString(line); phrase != "" && filepath.Ext(path) == ".go" && !inTest {
			out = append(out, fmt.Sprintf("%s:%d: %q: say what it must be", name, i+1, phrase))
		}
		if !anyBanned.MatchString(line) {
			continue
		}
		for _, banned := range bannedWords {
			if word := banned.pattern.FindString(line); word != "" {
				out = append(out, fmt.Sprintf("%s:%d: %q: write instead %s", name, i+1, word, banned.instead))
			}
		}
	}
	return out
}

// proseOf blanks all but the comments and string literals of Go source, so that
// lines keep their numbers.
func proseOf(source []byte) string {
	out := []byte(strings.Map(func(r rune) rune {
		if r == '\n' {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(string(toASCII(source)), " ")))
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			return string(out)
		}
		if kind == token.COMMENT || kind == token.STRING {
			copy(out[file.Offset(pos):], literal)
		}
	}
}

// toASCII replaces each byte beyond ASCII by one space, so that offsets stay.
func toASCII(source []byte) []byte {
	out := slices.Clone(source)
	for i, b := range out {
		if b >= 0x80 {
			out[i] = ' '
		}
	}
	return out
}
