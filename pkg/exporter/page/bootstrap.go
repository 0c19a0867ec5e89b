package page

import (
	"context"
	"fmt"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify/start"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// bootstrapPage shows which webhooks' Pods need which webhooks to be created.
type bootstrapPage struct {
	Cycles      []cycleRow
	MoreCycles  int
	Edges       []edgeRow
	MoreEdges   int
	Drawing     *drawing
	Independent int
	Truncated   bool
	// Known is false where there is no webhook.
	Known bool
	// NotDrawn and ArrowsNotDrawn count the nodes that the drawing has no space
	// for, and the edges between those that it has.
	NotDrawn, ArrowsNotDrawn int
}

// cycleRow is a webhook in a deadlock, and how.
type cycleRow struct {
	Webhook link
	Steps   []string
	Certain bool
}

type edgeRow struct {
	From, To string
	Webhooks []link
	More     int
	Need     string
	Cycle    bool
}

// The bounds of the page.
const (
	maxCycles       = 100
	maxEdges        = 300
	maxNodes        = 40
	maxWholeNodes   = 12
	maxArrows       = 200
	maxEdgeWebhooks = 5
)

func (v *view) bootstrap(ctx context.Context) *bootstrapPage {
	g := v.Report.BootstrapGraph(ctx)
	b := &bootstrapPage{Known: len(v.profiles) > 0, Independent: g.Independent, Truncated: g.Truncated}
	for _, p := range v.profiles {
		if p.Deadlock == nil {
			continue
		}
		if len(b.Cycles) == maxCycles {
			b.MoreCycles++
			continue
		}
		b.Cycles = append(b.Cycles, cycleRow{v.webhook(p.Ref), p.Deadlock.Steps, p.Deadlock.Certain})
	}
	all := edgesAmong(g, len(g.Nodes))
	b.MoreEdges = max(len(all)-maxEdges, 0)
	for _, e := range all[:min(len(all), maxEdges)] {
		b.Edges = append(b.Edges, v.edgeRow(g, e))
	}
	if len(g.Nodes) > maxWholeNodes {
		g = collapsed(g)
	}
	b.NotDrawn = max(len(g.Nodes)-maxNodes, 0)
	edges := edgesAmong(g, maxNodes)
	b.ArrowsNotDrawn = max(len(edges)-maxArrows, 0)
	b.Drawing = drawGraph(g, edges[:min(len(edges), maxArrows)])
	return b
}

func (v *view) edgeRow(g start.Drawing, e start.Edge) edgeRow {
	row := edgeRow{From: nodeTitle(g.Nodes[e.From]), To: nodeTitle(g.Nodes[e.To]), Cycle: e.Cycle, More: max(len(e.Webhooks)-maxEdgeWebhooks, 0)}
	for _, ref := range e.Webhooks[:min(len(e.Webhooks), maxEdgeWebhooks)] {
		row.Webhooks = append(row.Webhooks, v.webhook(ref))
	}
	switch {
	case len(e.Webhooks) == 0:
		row.Need = "every Pod needs it " + g.Nodes[e.To].Use
	case e.Certain:
		row.Need = "refuses " + e.What + " it"
	default:
		row.Need = "refuses " + e.What + " it, unless a label exempts it that is not known"
	}
	return row
}

// collapsed makes one node of the nodes that are in a cycle with each other: a drawing
// of many of them shows nothing but arrows.
func collapsed(g start.Drawing) start.Drawing {
	group := make([]int, len(g.Nodes))
	for i := range group {
		group[i] = i
	}
	root := func(i int) int {
		for group[i] != i {
			i = group[i]
		}
		return i
	}
	for _, e := range g.Edges {
		if a, b := root(e.From), root(e.To); e.Cycle {
			group[max(a, b)] = min(a, b)
		}
	}
	out := start.Drawing{Independent: g.Independent, Truncated: g.Truncated}
	at := map[int]int{}
	for i, n := range g.Nodes {
		r := root(i)
		if _, known := at[r]; !known {
			at[r] = len(out.Nodes)
			out.Nodes = append(out.Nodes, start.Node{Use: n.Use, Cycle: n.Cycle})
		}
		one := &out.Nodes[at[r]]
		one.Names, one.Webhooks = append(one.Names, n.Names...), append(one.Webhooks, n.Webhooks...)
	}
	seen := map[[2]int]bool{}
	for _, e := range g.Edges {
		e.From, e.To = at[root(e.From)], at[root(e.To)]
		if pair := [2]int{e.From, e.To}; !seen[pair] {
			seen[pair] = true
			out.Edges = append(out.Edges, e)
		}
	}
	return out
}

// nodeTitle names a group of workloads by its first.
func nodeTitle(n start.Node) string {
	if len(n.Names) > 1 {
		return fmt.Sprintf("%s and %d more", n.Names[0], len(n.Names)-1)
	}
	return strings.Join(n.Names, "")
}

// drawing is a graph in columns: what others need is to the right.
type drawing struct {
	Width, Height int
	Nodes         []drawnNode
	Edges         []drawnEdge
	Description   string
}

type drawnNode struct {
	X, Y, W, H   int
	Title, Lower string
	Full         string
	Style        string
}

// TextX and the others are where the texts of a node begin.
func (n drawnNode) TextX() int  { return n.X + 10 }
func (n drawnNode) TitleY() int { return n.Y + 18 }
func (n drawnNode) LowerY() int { return n.Y + 35 }

type drawnEdge struct{ Path, Style, Marker string }

// The measures of a graph.
const (
	nodeWidth  = 250
	nodeHeight = 44
	columnGap  = 90
	rowGap     = 18
	drawMargin = 24
)

// edgesAmong are the edges between the first n nodes, those of cycles first.
func edgesAmong(g start.Drawing, n int) []start.Edge {
	var out []start.Edge
	for _, cyclic := range []bool{true, false} {
		for _, e := range g.Edges {
			if e.Cycle == cyclic && e.From < n && e.To < n {
				out = append(out, e)
			}
		}
	}
	return out
}

// drawGraph draws the first nodes of a graph, of which those of cycles come
// first, and edges between them.
func drawGraph(g start.Drawing, edges []start.Edge) *drawing {
	n := min(len(g.Nodes), maxNodes)
	if n == 0 {
		return nil
	}
	pairs := make([][2]int, len(edges))
	for i, e := range edges {
		pairs[i] = [2]int{e.From, e.To}
	}
	l := newLayout(n, pairs)
	d := &drawing{
		Width:  2*drawMargin + l.columns*nodeWidth + max(l.columns-1, 0)*columnGap + columnGap/2,
		Height: 2*drawMargin + l.rows*(nodeHeight+rowGap),
	}
	cyclic := 0
	for i, node := range g.Nodes[:n] {
		d.Nodes = append(d.Nodes, drawNode(node, l, i))
		if node.Cycle {
			cyclic++
		}
	}
	for i, e := range edges {
		d.Edges = append(d.Edges, drawnEdge{l.path(pairs[i]), edgeStyle(e), "arrow" + cycleSuffix(e.Cycle)})
	}
	d.Description = fmt.Sprintf("%s of workloads, %d of them in a cycle; an arrow leads from Pods to those that they need. The tables below say the same.", inventory.Counted(n, "group"), cyclic)
	return d
}

func cycleSuffix(cycle bool) string {
	if cycle {
		return "-cycle"
	}
	return ""
}

func edgeStyle(e start.Edge) string {
	style := "edge" + strings.Replace(cycleSuffix(e.Cycle), "-", " edge-", 1)
	if !e.Certain {
		style += " edge-maybe"
	}
	return style
}

func drawNode(node start.Node, l layout, i int) drawnNode {
	p := l.positions[i]
	out := drawnNode{X: p.x, Y: p.y, W: nodeWidth, H: nodeHeight, Full: strings.Join(node.Names[:min(len(node.Names), maxWords)], "\n"), Style: "node" + strings.Replace(cycleSuffix(node.Cycle), "-", " node-", 1)}
	out.Title = shorten(strings.TrimPrefix(nodeTitle(node), "Service "), 32)
	switch {
	case node.Use != "":
		out.Lower = "every Pod needs it " + node.Use
	case len(node.Webhooks) == 1:
		out.Lower = shorten(node.Webhooks[0].Name, 34)
	default:
		out.Lower = inventory.Counted(len(node.Webhooks), "webhook")
	}
	return out
}
