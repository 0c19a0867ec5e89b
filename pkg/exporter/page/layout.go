package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// layout places the nodes of a directed graph in columns, so that edges lead from
// left to right but for those that close a cycle: columns by the longest path,
// rows by the mean of the neighbors, and a bend in each column that an edge
// passes.
type layout struct {
	positions     []position
	columns, rows int
	bends         map[[2]int][]position
	backward      map[[2]int]bool
}

// position is the upper left corner of a node, or a bend.
type position struct{ x, y int }

// sweeps is how often the rows are ordered by their neighbors.
const sweeps = 6

// slot is a node, or the bend of an edge in a column.
type slot struct {
	node int
	edge [2]int
	bend bool
	// left and right are the neighbors.
	left, right []*slot
	row         float64
}

func newLayout(n int, edges [][2]int) layout {
	l := layout{positions: make([]position, n), bends: map[[2]int][]position{}, backward: backEdges(n, edges)}
	column := columnsOf(n, edges, l.backward)
	l.columns = slices.Max(column) + 1
	columns := l.slots(n, edges, column)
	for i := range sweeps {
		arrange(columns, i%2 == 0)
	}
	for _, c := range columns {
		l.rows = max(l.rows, len(c))
	}
	for x, c := range columns {
		top := (l.rows - len(c)) * (nodeHeight + rowGap) / 2
		for y, s := range c {
			p := position{drawMargin + x*(nodeWidth+columnGap), drawMargin + top + y*(nodeHeight+rowGap)}
			if s.bend {
				l.bends[s.edge] = append(l.bends[s.edge], p)
			} else {
				l.positions[s.node] = p
			}
		}
	}
	return l
}

// backEdges are the edges that close a cycle in a depth-first search.
func backEdges(n int, edges [][2]int) map[[2]int]bool {
	next := make([][]int, n)
	for _, e := range edges {
		next[e[0]] = append(next[e[0]], e[1])
	}
	const unseen, open, done = 0, 1, 2
	state, back := make([]int, n), map[[2]int]bool{}
	var visit func(int)
	visit = func(node int) {
		state[node] = open
		for _, to := range next[node] {
			switch state[to] {
			case open:
				back[[2]int{node, to}] = true
			case unseen:
				visit(to)
			}
		}
		state[node] = done
	}
	for node := range n {
		if state[node] == unseen {
			visit(node)
		}
	}
	return back
}

// columnsOf are the lengths of the longest paths to each node.
func columnsOf(n int, edges [][2]int, back map[[2]int]bool) []int {
	out := make([]int, n)
	for changed := true; changed; {
		changed = false
		for _, e := range edges {
			if !back[e] && e[0] != e[1] && out[e[1]] < out[e[0]]+1 {
				out[e[1]], changed = out[e[0]]+1, true
			}
		}
	}
	return out
}

// slots are the columns, with a bend in each that an edge passes.
func (l layout) slots(n int, edges [][2]int, column []int) [][]*slot {
	out := make([][]*slot, l.columns)
	ofNode := make([]*slot, n)
	for node := range n {
		ofNode[node] = &slot{node: node, row: float64(len(out[column[node]]))}
		out[column[node]] = append(out[column[node]], ofNode[node])
	}
	for _, e := range edges {
		if l.backward[e] || e[0] == e[1] {
			continue
		}
		before := ofNode[e[0]]
		for c := column[e[0]] + 1; c < column[e[1]]; c++ {
			bend := &slot{edge: e, bend: true, row: float64(len(out[c]))}
			out[c] = append(out[c], bend)
			connect(before, bend)
			before = bend
		}
		connect(before, ofNode[e[1]])
	}
	return out
}

func connect(left, right *slot) {
	left.right = append(left.right, right)
	right.left = append(right.left, left)
}

// arrange orders each column by the mean row of its neighbors on one side.
func arrange(columns [][]*slot, rightwards bool) {
	for i := range columns {
		c := columns[len(columns)-1-i]
		if rightwards {
			c = columns[i]
		}
		mean := map[*slot]float64{}
		for _, s := range c {
			neighbors := s.right
			if rightwards {
				neighbors = s.left
			}
			mean[s] = s.row
			if len(neighbors) > 0 {
				sum := 0.0
				for _, other := range neighbors {
					sum += other.row
				}
				mean[s] = sum / float64(len(neighbors))
			}
		}
		slices.SortStableFunc(c, func(a, b *slot) int { return cmp.Compare(mean[a], mean[b]) })
		for row, s := range c {
			s.row = float64(row)
		}
	}
}

// path is the curve of an edge, for the attribute d of an SVG path.
func (l layout) path(e [2]int) string {
	from, to := l.positions[e[0]], l.positions[e[1]]
	switch {
	case e[0] == e[1]:
		return loop(from)
	case l.backward[e]:
		return backwards(from, to)
	}
	var b strings.Builder
	x, y := from.x+nodeWidth, from.y+nodeHeight/2
	fmt.Fprintf(&b, "M%d %d", x, y)
	for _, bend := range l.bends[e] {
		curve(&b, x, y, bend.x, bend.y+nodeHeight/2)
		x, y = bend.x+nodeWidth, bend.y+nodeHeight/2
		fmt.Fprintf(&b, " H%d", x)
	}
	curve(&b, x, y, to.x-arrowLength, to.y+nodeHeight/2)
	return b.String()
}

// arrowLength is what an arrow's head adds to its line.
const arrowLength = 7

func curve(b *strings.Builder, x, y, toX, toY int) {
	half := (toX - x) / 2
	fmt.Fprintf(b, " C%d %d %d %d %d %d", x+half, y, toX-half, toY, toX, toY)
}

// loop leads from the right side of a node back to its upper side.
func loop(p position) string {
	x, y := p.x+nodeWidth, p.y+nodeHeight/2
	return fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x, y, x+34, y, x+14, p.y-26, x-26, p.y-arrowLength)
}

// backwards leads below the nodes from a later column to an earlier one.
func backwards(from, to position) string {
	x, y := from.x+nodeWidth/2, from.y+nodeHeight
	toX, toY := to.x+nodeWidth/2, to.y+nodeHeight+arrowLength
	drop := max(y, toY) + rowGap + 14
	return fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x, y, x, drop, toX, drop, toX, toY)
}
