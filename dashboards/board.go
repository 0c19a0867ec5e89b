// Package dashboards holds the boards on which users find the webhook that
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
	// Alerts and Changes select the alerts and configurations that the charts
	// mark, besides those of the chosen cluster.
	Alerts, Changes string
	// ChangesPage is the address on the status page of what changed a configuration; ""
	// where it has none.
	ChangesPage string
	// GrafanaOnly marks a board without use in the console, which is always that
	// of one cluster.
	GrafanaOnly bool
}

// UID identifies the board in URLs. It outlives titles and files.
func (b Board) UID() string { return "webhook-auditor-" + b.Name }

// Row is a group of panels below a headline. A row without Title has no
// headline: its panels stand at the top of the board.
type Row struct {
	Title string
	// Closed rows open by a click.
	Closed bool
	Panels []Panel
}

// Kind is how a panel draws its numbers.
type Kind int

// The kinds of panels.
const (
	TimeSeries        Kind = iota + 1 // values over time
	StackedTimeSeries                 // values over time that add up
	Stat                              // one value, colored by its thresholds
	Table                             // one row per series
	StateTimeline                     // bands of a state over time
	Matrix                            // a Table of its first Column against its second
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
	// Unknown is the text of a panel without series. What is known to be
	// empty is a row of the query: see orNone.
	Unknown string
}

// Query is one expression of a panel. A Table or Number asks for the
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
	// Field is a label, or "A" for the value of the query.
	Field      string
	Title      string
	Unit       Unit
	Width      int
	Thresholds []Threshold
	Texts      []Text
	Links      []Link
	// Wrap shows a text on several lines, and opens it in full.
	Wrap bool
	// Number marks a label that holds a number.
	Number bool
	// Of is what a value is subtracted from in the console, which has the smallest
	// number first.
	Of float64
	// Hidden columns are there for links alone. ConsoleOnly ones order the rows
	// where the console would sort them by their first column; GrafanaOnly ones have
	// words for values, which the console has not.
	Hidden, ConsoleOnly, GrafanaOnly bool
}

// Link leads away from a board, a series or a cell. URL may hold Grafana's
// variables. One that leads out of Grafana opens a tab of its own.
type Link struct {
	Title, URL string
	Outside    bool
	// OnPage marks a link to the auditor's status page: URL is below its address.
	OnPage bool
}

// Unit is what a number counts, in the words of both dialects.
type Unit struct {
	Grafana, Console string
	// Decimals is negative where the size of the value decides.
	Decimals int
	// Suffix is what the console, which knows no seconds, writes behind a number
	// or into the head of a column; it divides by Per first.
	Suffix string
	Per    float64
}

// The units. The console knows few, and shows an unknown one as a bare number.
var (
	unitCount   = Unit{Grafana: "none", Console: "short"}
	unitSeconds = Unit{Grafana: "s", Console: "s", Decimals: -1, Suffix: "s"}
	unitAge     = Unit{Grafana: "s", Console: "short", Decimals: -1, Suffix: "h", Per: 3600}
	unitPercent = Unit{Grafana: "percentunit", Console: "percentunit", Decimals: 1}
	unitRate    = Unit{Grafana: "reqps", Console: "short", Decimals: -1}
	unitTimes   = Unit{Grafana: "suffix:×", Console: "short", Decimals: 1, Suffix: "×"}
	unitDays    = Unit{Grafana: "suffix: d", Console: "short", Suffix: "d"}
	unitText    = Unit{Grafana: "string", Console: "short"}
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
	// Plugin makes the choices the data sources of a kind, as "loki".
	Plugin string
	// Hidden variables carry what links need; without Metric, Fixed and Plugin
	// they are free text.
	Hidden bool
}

// Choice is one fixed choice of a Variable.
type Choice struct{ Text, Value string }

// Boards are all boards, in the order in which a user meets them.
func Boards() []Board { return []Board{webhooks(), webhook(), fleet(), auditor()} }
