package metrics

import (
	"regexp"
	"testing"
)

const scrape = `# TYPE calls counter
calls{name="a",code="200"} 3
calls{name="a",code="500"} 1
calls{name="b",code="200"} 2
# TYPE up gauge
up 1
# TYPE seconds histogram
seconds_bucket{le="1"} 2
seconds_bucket{le="+Inf"} 5
seconds_sum 12
seconds_count 5
`

func TestParseOf(t *testing.T) {
	for names, sum := range map[string]float64{"^calls": 6, "^seconds_count$": 5, "^up": 1, "": 31, "nothing": 0} {
		m, err := ParseOf(regexp.MustCompile(names), []byte(scrape))
		if got := m.Sum(); err != nil || got != sum {
			t.Errorf("%q: the sum is %v, want %v: %v", names, got, sum, err)
		}
		for _, s := range m {
			if s.Counts != (s.Name != "up") {
				t.Errorf("%s counts: %t", s, s.Counts)
			}
		}
	}
}

func TestConditions(t *testing.T) {
	m, err := Parse([]byte(scrape))
	if err != nil {
		t.Fatal(err)
	}
	for name, condition := range map[string]Condition{
		"present": Present("calls", Labels{"name": "a"}),
		"absent":  Absent("calls", Labels{"name": "c"}),
		"equals":  Equals("calls", Labels{"name": "b"}, 2),
	} {
		if err := condition(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, condition := range map[string]Condition{
		"present":   Present("calls", Labels{"name": "c"}),
		"absent":    Absent("calls", Labels{"name": "a"}),
		"ambiguous": Equals("calls", Labels{"name": "a"}, 3),
		"other":     Equals("up", nil, 0),
	} {
		if condition(m) == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
