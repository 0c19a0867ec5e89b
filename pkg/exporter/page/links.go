package page

import (
	"net/url"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory"
)

// link is a text that leads to a page; without a URL it leads nowhere.
type link struct{ Text, URL string }

// links makes the addresses of pages. A page has the same name as a path where it
// is served and as an anchor in a file.
type links struct {
	// root leads from the page to "/", relative so that a proxy may add a prefix.
	root string
	// file has the webhooks with a page in a file; nil where pages are served.
	file map[inventory.Ref]bool
}

// to is the address of the page with the name.
func (l links) to(name string) string {
	if l.file == nil {
		return l.root + name
	}
	if name == "" {
		name = "overview"
	}
	return "#" + name
}

// join escapes the parts of a name.
func join(parts ...string) string {
	escaped := make([]string, len(parts))
	for i, p := range parts {
		escaped[i] = url.PathEscape(p)
	}
	return strings.Join(escaped, "/")
}

func webhookName(ref inventory.Ref) string {
	return join("webhooks", string(ref.Type), ref.Configuration, ref.Name)
}

func (l links) webhook(ref inventory.Ref) link {
	if l.file != nil && !l.file[ref] || ref.Type.IsPolicy() { // of which there is no page
		return link{Text: ref.Name}
	}
	return link{ref.Name, l.to(webhookName(ref))}
}

func checkName(name string) string { return join("checks", name) }

func (l links) check(c *classify.Check) link { return link{c.Name, l.to(checkName(c.Name))} }

// search is the table of webhooks with the text; in a file, the whole table.
func (l links) search(label, text string) link {
	if l.file != nil || text == "" {
		return link{label, l.to("webhooks")}
	}
	return link{label, l.to("webhooks") + "?" + url.Values{"q": {text}}.Encode()}
}
