package report

import (
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
)

// WritePolicy writes the documentation of the Policy file: its keys, an example
// of each use, and the defaults.
func WritePolicy(w io.Writer) error {
	defaults, err := yaml.Marshal(classify.DefaultPolicy())
	if err != nil {
		return fmt.Errorf("writing the default Policy: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s## Defaults\n\nThe default Policy as a file; `budgets` and `acknowledgements` are empty.\n\n```yaml\n%s```\n", classify.PolicyDocument(), defaults)
	return err
}
