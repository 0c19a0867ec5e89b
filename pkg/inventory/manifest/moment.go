package manifest

import (
	"bufio"
	"io"
	"path"
	"strings"
	"time"
)

// timestampName is the file in which oc adm must-gather and oc adm inspect
// write when they began and when they ended.
const timestampName = "timestamp"

// maxTimestamp is more than such a file holds.
const maxTimestamp = 4 << 10

// stamp is how they write it, but for the name of the zone and what follows:
// as Go prints a time.
const stamp = "2006-01-02 15:04:05.999999999 -0700"

// stamps reports whether a file says when its input was collected.
func (s *source) stamps(name string) bool {
	return path.Base(name) == timestampName && s.layout != insights && s.layout != clusterDump
}

// readStamp remembers the newest time of such a file. What is no time is left
// to the times of the files.
func (s *source) readStamp(r io.Reader) {
	lines := bufio.NewScanner(io.LimitReader(r, maxTimestamp))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 3 {
			continue
		}
		if t, err := time.Parse(stamp, strings.Join(words[:3], " ")); err == nil && t.After(began) && t.After(s.stamped) {
			s.stamped = t
		}
	}
}

// began is before anything that could have been collected: archives that were
// made to be the same each time have files of 1970 or 1980.
var began = time.Date(2014, time.June, 7, 0, 0, 0, 0, time.UTC) // the first commit of Kubernetes

// written remembers when the newest of the files that are read was written.
func (s *source) written(t time.Time) {
	if t.After(began) && t.After(s.newest) {
		s.newest = t
	}
}

// taken is when what the input shows was so; zero for manifests, which are not
// of a moment.
func (s *source) taken() time.Time {
	switch {
	case s.layout == plain:
		return time.Time{}
	case !s.stamped.IsZero():
		return s.stamped
	}
	return s.newest
}
