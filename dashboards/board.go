// Package dashboards holds the boards on which people find the webhook that
// breaks their cluster: one table of panels, drawn in two dialects (Grafana's
// and the OpenShift console's) and delivered in several forms.
package dashboards

// Board is one dashboard.
type Board struct {
	// Name is the stem of the board's file and part of its uid.
	Name        string
	Title       string
	Description string
	Variables   []Variable
	Links       []Link
	Rows        []Row
}

// UID identifies the board in URLs. It outlives titles and files.
func (b Board) UID() string { return "webhook-auditor-" + b.Name }

// Row is a group of panels below a headline. A row without Title has no
// headline: its panels stand at the top of the board.
type Row struct {
	Title  string
	Panels []Panel
}

// Kind is how a panel draws its numbers.
type Kind int

// The kinds of panels.
const (
	Lines  Kind = iota + 1 // values over time
	Stack                  // values over time that add up
	Number                 // one value, colored by its thresholds
	Table                  // one row per series
	Bars                   // one bar per series
	States                 // bands of a state over time
)

// Panel is one picture.
type Panel struct {
	Title       string
	Description string
	Kind        Kind
	Unit        Unit
	// Width is in twenty-fourths of the board, Height in Grafana's grid rows.
	Width, Height int
	Queries       []Query
	Thresholds    []Threshold
	Texts         []Text
	// Columns are those of a Table, from left to right; no other is shown.
	Columns []Column
	Links   []Link
	// Empty is what a panel without data says, where that is good news.
	Empty string
}

// Query is one expression of a panel. A Table, Bars or Number asks for the
// end of the chosen time range, all others for the whole of it.
type Query struct {
	Expr   string
	Legend string
	// Total marks the line that stands for all webhooks beside the top ones.
	Total bool
	// Color is fixed where the line means good or bad; else the palette's.
	Color string
}

// Threshold is the color that values have from From on.
type Threshold struct {
	Color string
	From  float64
}

// Text is what stands for a value.
type Text struct {
	Value, Text, Color string
}

// Column is one column of a Table.
type Column struct {
	// Field is a label, or the letter of a query for its value.
	Field      string
	Title      string
	Unit       Unit
	Width      int
	Thresholds []Threshold
	Texts      []Text
	Links      []Link
}

// Link leads away from a board, a series or a cell. URL may hold Grafana's
// variables.
type Link struct {
	Title, URL string
}

// Unit is what a number counts, in the words of both dialects.
type Unit struct {
	Grafana, Console string
	// Decimals is negative where the size of the value decides.
	Decimals int
}

// The units. The console knows few, and shows an unknown one as a bare number.
var (
	count      = Unit{"none", "short", 0}
	seconds    = Unit{"s", "s", -1}
	share      = Unit{"percentunit", "percentunit", 1}
	rate       = Unit{"reqps", "short", -1}
	times      = Unit{"suffix:×", "short", 1}
	days       = Unit{"suffix: d", "short", 0}
	processors = Unit{"short", "short", 3}
	memory     = Unit{"bytes", "Bytes", -1}
	text       = Unit{"string", "short", 0}
)

// Variable is a choice at the top of a board.
type Variable struct {
	Name, Label, Description string
	// Metric and Value are the series and label whose values are the choices.
	Metric, Value string
	// Fixed are the choices where no series gives them.
	Fixed []Choice
	// All is the regular expression of the choice "All"; "" if there is none.
	All string
	// GrafanaOnly marks a variable without use in the console, which is always that
	// of one cluster.
	GrafanaOnly bool
}

// Choice is one fixed choice of a Variable.
type Choice struct{ Text, Value string }

// Boards are all boards, in the order in which a person meets them.
func Boards() []Board { return []Board{webhooks(), webhook(), auditor()} }
