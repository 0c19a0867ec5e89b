package screenshots

import (
	"bufio"
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestStates draws the boards with Grafana's own transforms, variables and links
// in the states that matter, with each query of each panel empty in turn. No
// panel may change or vanish because another query is empty.
func TestStates(t *testing.T) {
	for _, command := range []*exec.Cmd{exec.Command("../prom/build.sh"), exec.Command("./install.sh")} {
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
	}
	draw := exec.CommandContext(t.Context(), "node", "states.mjs", "../bin/prometheus", "../bin/promtool", "../../dashboards")
	var stderr strings.Builder
	draw.Stderr = &stderr
	complaints, err := draw.Output()
	for lines := bufio.NewScanner(bytes.NewReader(complaints)); lines.Scan(); {
		t.Error(lines.Text())
	}
	if err != nil && !t.Failed() {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
}
