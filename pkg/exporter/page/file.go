package page

import (
	"fmt"
	"html/template"
	"io"

	"github.com/webhook-auditor/webhook-auditor/pkg/exporter/report"
)

// WriteFile writes Blocks, of which the first has the title, as one file that needs no
// other. It runs no script; the policy allows its style by a digest.
func WriteFile(w io.Writer, blocks report.Blocks, version string) error {
	body, err := blocks[1:].HTML()
	if err != nil {
		return err
	}
	policy := fmt.Sprintf("default-src 'none'; img-src data:; style-src 'sha256-%s'; form-action 'none'; base-uri 'none'", digest(styleSheet))
	d := document{Title: blocks[0].Heading, File: &fileAssets{policy, template.CSS(styleSheet)}, Version: version, Project: report.Project}
	text, err := d.write(answer{title: d.Title, template: "file", data: body})
	if err != nil {
		return err
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("writing page: %w", err)
	}
	return nil
}
