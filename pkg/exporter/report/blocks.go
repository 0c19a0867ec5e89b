package report

import (
	"fmt"
	"io"
	"slices"

	"github.com/webhook-auditor/webhook-auditor/internal/lists"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// View is what a command answers. The answers that have other forms have methods Markdown
// and Table; without the first, Markdown has the text.
type View interface{ Text(o TextOptions) Blocks }

func Write(w io.Writer, format string, v View, o TextOptions) error {
	switch format {
	case "json":
		return WriteJSON(w, v)
	case "markdown":
		if m, ok := v.(interface{ Markdown() Blocks }); ok {
			return m.Markdown().WriteMarkdown(w)
		}
		return v.Text(o).WriteMarkdown(w)
	case "table":
		return v.(interface{ Table() Blocks }).Table().WriteText(w, o)
	}
	return v.Text(o).WriteText(w, o)
}

// Blocks are a view for people, in the order in which they read it: the one form between a
// view and its writers. A view returns its Blocks; WriteText, WriteMarkdown and HTML write
// those of any view.
type Blocks []Block

// Block is a heading with what is under it: lines, commands, a table. Each may be missing.
type Block struct {
	// Heading of the first Block that has one is the title of the document.
	Heading string
	// Lines are paragraphs where there is no Heading, and a list below one.
	Lines []Line
	// Commands are for copying: they are never broken.
	Commands []string
	Table    *Table
}

// Add adds a line with a label, where it says anything.
func (b *Block) Add(label string, l Line) {
	if l.Name+l.Text != "" {
		l.Label = label
		b.Lines = append(b.Lines, l)
	}
}

// Line is a sentence, or an entry with lines below it.
type Line struct {
	// Label is what comes first: a mark, a number, "note:". Those of neighbors are
	// aligned.
	Label string
	// Name is the subject of the Text after it.
	Name, Text string
	// URL is where the Name leads on a page; "" for nowhere.
	URL string
	// Aside is what a reader may skip: at the right edge of a terminal, and dim.
	Aside string
	// Command is for copying, after the Text: it is never broken.
	Command string
	// Tone colors the Label, or the Text where there is no Label.
	Tone Tone
	// Under are the lines below an entry.
	Under []Line
}

// Tone is how a terminal colors what a Line begins with.
type Tone string

const (
	Plain    Tone = ""
	Critical Tone = "1;31"
	Warning  Tone = "33"
	Good     Tone = "32"
	Note     Tone = "36"
	Dim      Tone = "2"
)

// Table has a row for each of many things. Cells are text as it is: the writers escape it,
// and align what is a number to the right.
type Table struct {
	Headings []string
	Rows     [][]string
	// Cut is the heading of the column that is cut where a terminal is too narrow.
	Cut string
	// Spare are the headings of columns that are left out first, in their order.
	Spare []string
	// Links are addresses of cells, by their text, in Markdown and HTML.
	Links map[string]string
	// Tones mark cells, by their text, on a page.
	Tones map[string]Tone
}

// Sentences are Lines that have nothing but a Text.
func Sentences(texts ...string) []Line {
	return lists.Map(texts, func(written string) Line { return Line{Text: written} })
}

func noteLines(notes []string) []Line {
	return lists.Map(notes, func(note string) Line { return Line{Label: "note:", Text: note, Tone: Note} })
}

// omitted says how many more there are than a list has; nothing where it has all.
func omitted(all, length int, noun string) []Line {
	if all <= length {
		return nil
	}
	return Sentences(fmt.Sprintf("… and %s more.", inventory.Counted(all-length, noun)))
}

// NonEmpty leaves out the Blocks that have a heading alone.
func (b Blocks) NonEmpty() Blocks {
	return slices.DeleteFunc(slices.Clone(b), func(b Block) bool {
		return len(b.Lines) == 0 && len(b.Commands) == 0 && (b.Table == nil || len(b.Table.Rows) == 0)
	})
}

// Bounded keeps so many lines and rows of each Block, and says how many more there are.
// Commands are never cut, nor lines with them: a user who pastes them needs all.
func (b Blocks) Bounded(most int) Blocks {
	out := slices.Clone(b)
	for i, block := range out {
		if more := len(block.Lines) - most; more > 0 {
			list := append(slices.Clone(block.Lines[:most]), lists.Filter(block.Lines[most:], Line.hasCommand)...)
			if more = len(block.Lines) - len(list); more > 0 {
				list = append(list, Line{Text: fmt.Sprintf("… and %d more", more), Tone: Dim})
			}
			out[i].Lines = list
		}
		if block.Table != nil {
			out[i].Table = block.Table.bounded(most)
		}
	}
	return out
}

func (l Line) hasCommand() bool {
	return l.Command != "" || slices.ContainsFunc(l.Under, Line.hasCommand)
}
