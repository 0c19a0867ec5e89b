package classify

import (
	"reflect"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// behind compares what is behind webhooks in two Snapshots: their Services and
// endpoints.
type behind struct {
	last, now *inventory.Snapshot
	// all is set where nothing changed behind any webhook.
	all bool
	// services are the results so far.
	services map[servicePort]bool
}

type servicePort struct {
	inventory.Key
	port int32
}

func newBehind(last *Report, now *inventory.Snapshot) *behind {
	if last == nil {
		return nil
	}
	return &behind{last.Snapshot, now, !now.ChangesSince(last.Snapshot).Backends, map[servicePort]bool{}}
}

// same reports whether nothing changed behind the webhook of the facts, which are
// of the last Snapshot.
func (b *behind) same(f *Facts) bool {
	if b.all {
		return true
	}
	switch f.Backend.Kind {
	case inventory.BackendURL:
		return true
	case inventory.BackendAPIServer:
		return b.now.State(f.Backend) == f.State && b.sameService(f.State.Service.Key)
	}
	port := servicePort{f.Backend.Service.Key, f.Backend.Service.Port}
	same, known := b.services[port]
	if !known {
		same = b.now.State(f.Backend) == f.State && b.sameService(port.Key)
		b.services[port] = same
	}
	return same
}

// sameService compares all that checks read of a Service.
func (b *behind) sameService(key inventory.Key) bool {
	return b.now.HasServiceIn(key.Namespace) == b.last.HasServiceIn(key.Namespace) &&
		reflect.DeepEqual(b.now.Services[key], b.last.Services[key])
}
