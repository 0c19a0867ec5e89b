package main

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/admission"
)

// knowledge is what requests are explained by: the Snapshot, who makes them, and the
// objects that they change.
type knowledge struct {
	*admission.Matcher
	user *admission.User
	// stored reads the metadata of the object of a request, or says that there is
	// none, or why it cannot be read; nil without a cluster.
	stored func(admission.Request) (metadata map[string]any, absent bool, note string)
}

func (e *explain) knowledge(ctx context.Context, m *admission.Matcher) knowledge {
	k := knowledge{Matcher: m, user: admission.NewUser(e.access.overrides.AuthInfo.Impersonate, e.access.overrides.AuthInfo.ImpersonateGroups)}
	if len(e.from) > 0 || e.offline {
		return k
	}
	connect := sync.OnceValues(e.access.connect)
	k.stored = func(r admission.Request) (map[string]any, bool, string) {
		parent := r.Resource.Parent()
		namespace := r.Namespace
		if parent.IsNamespaces() {
			namespace = ""
		}
		c, err := connect()
		if err == nil {
			var metadata map[string]any
			at := schema.GroupVersionResource{Group: parent.Group, Version: r.Version, Resource: parent.Name}
			if metadata, err = c.clients.Metadata(ctx, at, namespace, r.Name); err == nil {
				return metadata, false, ""
			}
		}
		if apierrors.IsNotFound(err) {
			return nil, true, ""
		}
		return nil, false, fmt.Sprintf("the object is not known: reading %s %s: %v", parent, r.Name, err)
	}
	return k
}
