package manifest

import (
	"cmp"
	"io"
	"path"
	"regexp"
	"time"
)

// timestampName is the file in which oc adm must-gather and oc adm inspect
// write their start and end.
const timestampName = "timestamp"

const maxTimestamp = 4 << 10

// timestamp matches a time as Go prints it, without the name of the zone and what
// follows.
var timestamp = regexp.MustCompile(`(?m)^\S+ \S+ \S+`)

const timestampFormat = "2006-01-02 15:04:05.999999999 -0700"

func (in *input) isTimestamp(name string) bool {
	return path.Base(name) == timestampName && in.layout != insights && in.layout != clusterDump
}

func (in *input) readTimestamp(r io.Reader) {
	text, _ := io.ReadAll(io.LimitReader(r, maxTimestamp)) // what cannot be read says no time
	for _, match := range timestamp.FindAllString(string(text), -1) {
		if t, err := time.Parse(timestampFormat, match); err == nil {
			in.collected = later(in.collected, t)
		}
	}
}

// firstCommit is the time of Kubernetes' first commit, before which no cluster
// was collected: reproducible archives have files of 1970 or 1980.
var firstCommit = time.Date(2014, time.June, 7, 0, 0, 0, 0, time.UTC)

// later returns the later of the times; none is from before the first commit.
func later(earliest, t time.Time) time.Time {
	if t.After(firstCommit) && t.After(earliest) {
		return t
	}
	return earliest
}

// takenTime is when the input was collected; zero for manifests.
func (in *input) takenTime() time.Time {
	if in.layout == plain {
		return time.Time{}
	}
	return cmp.Or(in.collected, in.newest)
}
