package manifest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documents are those of the test data: seeds for the fuzz tests.
func documents(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/read/*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, strings.Split(string(data), "---\n")...)
	}
	return out
}

// FuzzParseBlock holds the parser for what machines write against the one for
// everything.
func FuzzParseBlock(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d))
	}
	for _, d := range []string{
		"a: |\n  b\n\n  c\n\nd: |-\n  e\n   f\n", "a:\n- b\n- c: d\n  e: f\n-\n- - g\n  - h\n", "a: 'b'\nc: \"d\"\ne: {}\nf: []\ng:\nh: -1\n",
		"a: b\n  c\n", "a: b # c\n", "# a\n\nb:\n  # c\n  d: e\n", "a:\n  b: c\n d: e\n", "a: b: c\n", "a: b\na: c\n", "k:{\"name\":\"x\"}:\n  .: {}\n",
		"a: |\n  b", "a:\r\n  b: c\r\n", "- a\n-  b: c\n   d: e\n", "a: |\n\n  b\n", "a: |\n  b\n c: d\n", "a: |\n  b\n      \n  c\n", "a: ---\n", "a: ...\n", "- ---\n", "? a\n", "a: b:\n",
		"a: [b, 'c', \"\"]\nd: {e: f, g: [h]}\n- [i]\n", "a: [b,c]\n", "a: [b]\n  c: d\n", "a: {b: c, b: d}\n", "a: [b c]\n", "a: ['b''c']\n", "a: [*b]\n", "a: {<<: {b: c}}\n",
	} {
		f.Add([]byte(d))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compareParsers(t, data) })
}

// compareParsers reports whether the parser for blocks took the data.
func compareParsers(t *testing.T, data []byte) bool {
	t.Helper()
	fast, ok := parseBlock(data)
	if !ok {
		return false
	}
	slow, p := parseYAML(data)
	if p != nil {
		t.Errorf("%q: not valid after all: %v", data, p)
	} else if !sameNode(slow, fast) {
		t.Errorf("%q: %s", data, cmp.Diff(slow, fast, cmp.AllowUnexported(node{})))
	}
	return true
}

// fragments are what lines are made of.
var fragments = []string{
	"a:", "b: c", "d:", "e: {}", "f: []", "- g", "-", "- h:", "- i: j", "- - k", "|", "l: |", "m: |-", "", "#", "# n", "'o'", "p: 'q'",
	"r: \"s\"", "- 't'", "u: -1", "v:w", "x:y: z", "- {}", "- 'a: b'", "-  c: d", "e : f", "g:  h ", "- - i: j", "k: l # m", "n: #", "~: null",
	"- |", "o: >", "p: &q r", "s: *q", "t: !!str u", "v: 'w", "x: it's", "y: - z", "- -", "-a", "- -a: b", "k:{\"c\"}: d", "e: [f]", "a: b:", ": c", "d:\te",
	"a: [b, 'c', \"\"]", "- [d, {e: f}]", "g: {h: i}", "- {j: [k], l: {}}", "m: [n", "o]", "p: [q] # r", "- [s]: t", "[u]", "v: {w: x, w: y}", "z: [a b]",
}

// shape makes a document of bytes: each of them is a line, its indentation and
// what is on it.
func shape(data []byte) []byte {
	var out []byte
	for i := 0; i+1 < len(data); i += 2 {
		out = append(out, strings.Repeat(" ", int(data[i]%6))...)
		out = append(out, fragments[int(data[i+1])%len(fragments)]...)
		out = append(out, '\n')
	}
	return out
}

// FuzzParseBlockShapes does the same with lines that YAML has many opinions on.
func FuzzParseBlockShapes(f *testing.F) {
	f.Add([]byte{0, 0, 2, 1, 2, 7, 4, 8, 0, 11, 2, 15})
	f.Fuzz(func(t *testing.T, data []byte) { compareParsers(t, shape(data)) })
}

// TestParseBlockShapes tries a number of them always.
func TestParseBlockShapes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 30_000 {
		data := make([]byte, 2+2*random.IntN(6))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if compareParsers(t, shape(data)) {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d documents taken", taken)
	}
}

// tokens are what flow style is made of, and what it stumbles over.
var tokens = []string{
	"[", "]", "{", "}", "[", "]", "{", "}", ",", ", ", ": ", "a: ", "'b': ", ":", "c", "d-e", "f/*", "'g'", "\"h\"", "''", "\"\"", "1", "-1", "true", "~",
	" ", "*", "&i", "-", "- ", "?", "#", " #", "<<", "!", "|", "'", "\"", "\\", "...", "---", "j k", "%", "@", "`",
}

// flowLine makes a line of bytes: each of them is a token.
func flowLine(data []byte) []byte {
	out := []byte("x: [")
	for _, b := range data {
		out = append(out, tokens[int(b)%len(tokens)]...)
	}
	return append(out, "]\n"...)
}

// FuzzParseFlow does the same with one line of flow style.
func FuzzParseFlow(f *testing.F) {
	f.Add([]byte{14, 9, 2, 11, 15, 3, 9, 17})
	f.Fuzz(func(t *testing.T, data []byte) { compareParsers(t, flowLine(data)) })
}

// TestParseFlow tries a number of them always, and one longer than a key.
func TestParseFlow(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 40_000 {
		data := make([]byte, 1+random.IntN(9))
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		if compareParsers(t, flowLine(data)) {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("only %d lines taken", taken)
	}
	if long := strings.Repeat("abc, ", 1000); !compareParsers(t, []byte("x: ["+long+"d]\ny: {z: ["+long+"d]}\n")) {
		t.Error("a long line is not taken")
	}
}

// sameNode compares what is read of nodes. A missing value has no line.
func sameNode(a, b node) bool {
	if a.kind != b.kind || a.plain != b.plain || a.text != b.text || len(a.items) != len(b.items) || a.line != b.line && !a.null() {
		return false
	}
	for i := range a.items {
		if !sameNode(a.items[i], b.items[i]) {
			return false
		}
	}
	return true
}
