package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

const maxNamespaces = 5

type failure struct {
	verb string
	// resource is the name of a resource in RBAC, or a path of the API server.
	resource  string
	namespace string
	// listOnly is set if the verb watch is granted, or not needed.
	listOnly bool
	err      error
	// asOf is the time of the last known state; zero if there is none.
	asOf time.Time
}

// refused reports whether the API server understood the call and will not
// answer it.
func (f failure) refused() bool {
	return apierrors.IsForbidden(f.err) || apierrors.IsUnauthorized(f.err)
}

func (f failure) notServed() bool { return apierrors.IsNotFound(f.err) }

// same reports whether both failures, if any, have one cause.
func (f *failure) same(o *failure) bool {
	if f == nil || o == nil {
		return f == o
	}
	return f.cause() == o.cause()
}

// cause is what failures have in common that become one Error.
type cause struct {
	object, message, cure string
	unknown, forbidden    bool
}

func (f failure) cause() cause {
	var status apierrors.APIStatus
	c := cause{object: f.resource, unknown: f.asOf.IsZero(), forbidden: apierrors.IsForbidden(f.err)}
	switch {
	case c.forbidden:
		c.message = f.verb + " " + f.resource + " is forbidden"
		c.cure = f.grant()
	case apierrors.IsUnauthorized(f.err):
		c.object = APIServer
		c.message = "it does not accept the credentials (401 Unauthorized)"
		c.cure = "renew the token or the certificate"
	case f.notServed():
		c.message = "it is not served"
	case errors.As(f.err, &status):
		c.message = f.verb + " " + f.resource + ": " + f.err.Error()
	default:
		c.object = APIServer
		c.message = networkReason(f.err)
	}
	return c
}

const APIServer = "API server"

// grant returns which verbs are missing. A watch comes after a list that was
// allowed; a list comes after an attempt to watch with initial events.
func (f failure) grant() string {
	verbs := "the verb " + f.verb
	switch {
	case strings.HasPrefix(f.resource, "/"):
		return "grant the verb get on the non-resource URL " + f.resource + f.user()
	case f.verb == "list" && !f.listOnly:
		verbs = "the verbs list and watch"
	}
	return "grant " + verbs + " on " + f.resource + f.user()
}

// user returns the user that the API server's message names.
func (f failure) user() string {
	_, rest, _ := strings.Cut(f.err.Error(), `User "`)
	if name, _, ok := strings.Cut(rest, `"`); ok {
		return " to " + name
	}
	return ""
}

// networkReason leaves out what differs from one attempt to the next: the URL with
// its parameters, and the local port.
func networkReason(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil {
		return fmt.Sprintf("%s %s %s: %v", op.Op, op.Net, op.Addr, op.Err)
	}
	return err.Error()
}

func errorsByCause(failures []failure) []inventory.Error {
	namespaces, resources := map[cause]map[string]bool{}, map[cause]map[string]bool{}
	oldest := map[cause]time.Time{}
	for _, f := range failures {
		c := f.cause()
		if namespaces[c] == nil {
			namespaces[c], resources[c], oldest[c] = map[string]bool{}, map[string]bool{}, f.asOf
		}
		if f.namespace != "" && c.object != APIServer {
			namespaces[c][f.namespace] = true
		}
		if !strings.HasPrefix(f.resource, "/") {
			resources[c][f.resource] = true
		}
		if f.asOf.Before(oldest[c]) {
			oldest[c] = f.asOf
		}
	}
	var out []inventory.Error
	for c, services := range namespaces {
		message := c.message + namespacesText(slices.Sorted(maps.Keys(services)))
		if c.cure != "" {
			message += ": " + c.cure
		}
		out = append(out, inventory.Error{
			Object:    c.object,
			Message:   message + "; " + lastKnown(oldest[c]),
			Forbidden: c.forbidden,
			Resources: strings.Join(slices.Sorted(maps.Keys(resources[c])), ","),
			Stale:     !c.unknown,
		})
	}
	slices.SortFunc(out, func(a, b inventory.Error) int {
		return cmp.Or(cmp.Compare(a.Object, b.Object), cmp.Compare(a.Message, b.Message))
	})
	return out
}

// lastKnown returns the date of the last known state, not its age, so that the text does
// not change while the state ages.
func lastKnown(asOf time.Time) string {
	if asOf.IsZero() {
		return "nothing is known of it"
	}
	return "its last known state, of " + asOf.UTC().Format(time.RFC3339) + ", is kept"
}

func namespacesText(namespaces []string) string {
	switch n := len(namespaces); {
	case n == 0:
		return ""
	case n == 1:
		return " in namespace " + namespaces[0]
	case n <= maxNamespaces:
		return " in namespaces " + strings.Join(namespaces, ", ")
	default:
		return fmt.Sprintf(" in namespaces %s and %d more", strings.Join(namespaces[:maxNamespaces], ", "), n-maxNamespaces)
	}
}
