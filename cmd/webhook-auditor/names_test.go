package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
)

// unclear are names of parameters, fields, functions and, in what is shipped, variables that need a
// comment: prepositions and participles without a noun.
var unclear = wordSet(`of at by in to as on from with into within without over under behind
	known meant stuck standing wanted wants lags taken seen shown kept given asked done`)

// unclearShipped are names that need a comment besides, in what is shipped.
var unclearShipped = wordSet(`again apart aside alike then twice otherwise begun met lost gone lasting lacking unwell`)

// predeclared are the names of Go itself.
var predeclared = wordSet(`append any bool byte cap clear close copy delete error false int len make max min new nil panic print println recover
	rune string true`)

func wordSet(words string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsSeq(words) {
		out[word] = true
	}
	return out
}

// TestNames: a name is clear where it is read, without its comment.
func TestNames(t *testing.T) {
	const root = "../.."
	must.Succeed(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata"):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		files := token.NewFileSet()
		tree := must.Get(parser.ParseFile(files, file, nil, parser.SkipObjectResolution|parser.ParseComments))(t)
		shipped := !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, filepath.Join(root, "e2e"))
		for _, line := range longLines(files, tree, must.Get(os.ReadFile(file))(t)) {
			if !shipped {
				break
			}
			t.Errorf("%s:%d: code of more than %d columns, without its texts", file, line, maxColumns)
		}
		for _, found := range unclearNames(tree, shipped) {
			t.Errorf("%s: %s", files.Position(found.id.Pos()), found.reason+" "+found.id.Name)
		}
		return nil
	}))
}

// maxColumns bounds a line of code; texts, tags, patterns and comments aside.
const maxColumns = 120

// longLines are the numbers of the lines that are longer.
func longLines(files *token.FileSet, tree *ast.File, source []byte) (out []int) {
	code := slices.Clone(source)
	leaveOut := func(n ast.Node) {
		for i := files.Position(n.Pos()).Offset; i < files.Position(n.End()).Offset; i++ {
			if code[i] != '\n' {
				code[i] = 0
			}
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			leaveOut(n)
		}
		return true
	})
	for _, c := range tree.Comments {
		leaveOut(c)
	}
	text := strings.NewReplacer("\x00", "", "\t", "    ").Replace(string(code))
	for i, line := range strings.Split(text, "\n") {
		if utf8.RuneCountInString(line) > maxColumns {
			out = append(out, i+1)
		}
	}
	return out
}

// unclearName is a name that has to be another.
type unclearName struct {
	id     *ast.Ident
	reason string
}

func unclearNames(tree *ast.File, shipped bool) (out []unclearName) {
	imports := map[string]bool{}
	for _, i := range tree.Imports {
		name := strings.Trim(filepath.Base(i.Path.Value), `"`)
		if i.Name != nil {
			name = i.Name.Name
		}
		imports[name] = true
	}
	isUnclear := func(id *ast.Ident) bool { return unclear[id.Name] || shipped && unclearShipped[id.Name] }
	declared := func(id *ast.Ident, needsNoun bool) {
		switch {
		case id.Name == "_":
		case needsNoun && isUnclear(id):
			out = append(out, unclearName{id, "no noun:"})
		case predeclared[id.Name]:
			out = append(out, unclearName{id, "hides what Go declares:"})
		case imports[id.Name]:
			out = append(out, unclearName{id, "hides an import:"})
		}
	}
	ast.Inspect(tree, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Recv == nil {
				declared(n.Name, true)
			} else if isUnclear(n.Name) {
				out = append(out, unclearName{n.Name, "no noun:"})
			}
		case *ast.FuncType:
			for _, list := range []*ast.FieldList{n.Params, n.Results} {
				if list == nil {
					continue
				}
				for _, f := range list.List {
					for _, id := range f.Names {
						declared(id, true)
					}
				}
			}
		case *ast.StructType:
			for _, f := range n.Fields.List {
				for _, id := range f.Names {
					if isUnclear(id) {
						out = append(out, unclearName{id, "no noun:"})
					}
				}
			}
		case *ast.MapType:
			if key, is := n.Key.(*ast.Ident); is && key.Name == "bool" {
				out = append(out, unclearName{key, "an if in disguise: a map of"})
			}
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, left := range n.Lhs {
					if id, ok := left.(*ast.Ident); ok {
						declared(id, shipped)
					}
				}
			}
		case *ast.ValueSpec:
			for _, id := range n.Names {
				declared(id, shipped)
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok == token.DEFINE {
					declared(id, shipped)
				}
			}
		}
		return true
	})
	return out
}
