package manifest

import (
	"bufio"
	"io"
	"path"
	"strings"
	"time"
)

// timestampName is the file in which oc adm must-gather and oc adm inspect
// write their start and end.
const timestampName = "timestamp"

// maxTimestamp is more than such a file holds.
const maxTimestamp = 4 << 10

// timestampFormat is their format, without the name of the zone and what
// follows: the one in which Go prints a time.
const timestampFormat = "2006-01-02 15:04:05.999999999 -0700"

// isTimestamp reports whether a file says when its input was collected.
func (in *input) isTimestamp(name string) bool {
	return path.Base(name) == timestampName && in.layout != insights && in.layout != clusterDump
}

// readTimestamp keeps the newest time of such a file.
func (in *input) readTimestamp(r io.Reader) {
	lines := bufio.NewScanner(io.LimitReader(r, maxTimestamp))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 3 {
			continue
		}
		if t, err := time.Parse(timestampFormat, strings.Join(words[:3], " ")); err == nil && t.After(firstCommit) && t.After(in.collected) {
			in.collected = t
		}
	}
}

// firstCommit is the time of Kubernetes' first commit, before which no cluster
// was collected: reproducible archives have files of 1970 or 1980.
var firstCommit = time.Date(2014, time.June, 7, 0, 0, 0, 0, time.UTC)

// written keeps when the newest of the files that are read was written.
func (in *input) written(t time.Time) {
	if t.After(firstCommit) && t.After(in.newest) {
		in.newest = t
	}
}

// taken is when the input was collected; zero for manifests.
func (in *input) taken() time.Time {
	switch {
	case in.layout == plain:
		return time.Time{}
	case !in.collected.IsZero():
		return in.collected
	}
	return in.newest
}
