package cluster

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// listAttempts is how often a list is begun anew because its continue token
// expired. A token lives for five minutes, so a second time is an API server
// in trouble.
const listAttempts = 3

// listAll lists all objects of the source page by page, stripped: a list that
// comes in one piece would take several times the memory of its bytes. After
// each page it reports how many objects there are so far.
func (s source) listAll(ctx context.Context, progress func(int)) (*internalversion.List, error) {
	var err error
	for range listAttempts {
		var out *internalversion.List
		if out, err = s.listPages(ctx, progress); err == nil {
			return out, nil
		}
		if !expired(err) {
			return nil, err
		}
	}
	return nil, err
}

func (s source) listPages(ctx context.Context, progress func(int)) (*internalversion.List, error) {
	out := &internalversion.List{}
	options := metav1.ListOptions{Limit: s.page}
	for {
		page, err := s.list(ctx, options)
		if err != nil {
			return nil, err
		}
		if err := s.add(out, page); err != nil {
			return nil, err
		}
		progress(len(out.Items))
		if out.Continue == "" {
			return out, nil
		}
		options.Continue = out.Continue
	}
}

// add appends the stripped objects of the page. Each is copied out of the
// page's array, which would otherwise stay in memory as a whole.
func (s source) add(out *internalversion.List, page runtime.Object) error {
	list, err := meta.ListAccessor(page)
	if err != nil {
		return err
	}
	items, err := meta.ExtractListWithAlloc(page)
	if err != nil {
		return err
	}
	for _, item := range items {
		if obj, ok := item.(metav1.Object); ok {
			s.strip(obj)
			out.Items = append(out.Items, item)
		}
	}
	out.ResourceVersion, out.Continue = list.GetResourceVersion(), list.GetContinue()
	return nil
}

// expired reports whether the API server no longer knows the state that a
// continue token or a resource version stands for. That is part of the
// protocol, not a failure: the list begins anew.
func expired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}
