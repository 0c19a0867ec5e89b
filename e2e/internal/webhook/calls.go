package webhook

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// Call is one call the server received.
type Call struct {
	Path      string
	UID       types.UID
	Operation string // CREATE, UPDATE, DELETE, CONNECT; "CONVERT" for a conversion
	// Group, Version and Resource ("pods", "pods/exec") as they were sent to
	// this webhook; Version is the wanted apiVersion of a conversion, which
	// names no resource.
	Group, Version, Resource string
	Namespace, Name          string
	DryRun                   bool
	// Annotations are the keys of the object's, sorted and separated by spaces.
	Annotations string
	// Request is what was asked of admission, in JSON and without its UID.
	Request []byte
	// ByAdmission says that an API server called on its own, and did not hand on the call of a client.
	ByAdmission bool
}

// Calls are all calls received since the start, in order, but for those that
// were forgotten.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// CallsOf are the calls received at one path, in order.
func (s *Server) CallsOf(path string) []Call {
	return slices.DeleteFunc(s.Calls(), func(c Call) bool { return c.Path != path })
}

// Forget empties the record.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}
