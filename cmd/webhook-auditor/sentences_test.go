package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/webhook-auditor/webhook-auditor/internal/must"
	"github.com/webhook-auditor/webhook-auditor/pkg/classify"
	"github.com/webhook-auditor/webhook-auditor/pkg/inventory/manifest"
)

// The words that a sentence may have, one of a message or runbook, and half of them at most.
const (
	longestSentence = 25
	longestMessage  = 30
	medianSentence  = 14
)

// TestSentences measures what people read. A tired reader reads a long sentence twice.
func TestSentences(t *testing.T) {
	for name, texts := range map[string]map[string]string{
		"README":   markdown(t, "README.md"),
		"docs":     markdown(t, "docs/*.md"),
		"others":   markdown(t, "[BMS]*.md", "CO*.md", "ROADMAP.md", "*/README.md", "*/*/README.md", "rules/FLEET.md", "manifests/bundle.md", "pkg/classify/POLICY.md"),
		"runbooks": markdown(t, "pkg/classify/*-*.md", "rules/runbooks/*.md"),
		"help":     helpTexts(newRoot("webhook-auditor", streams{})),
		"findings": findingTexts(t),
		"alerts":   alertTexts(t),
	} {
		t.Run(name, func(t *testing.T) {
			var counts []int
			worst, longest, unclear := sentence{}, longestMessage, opening
			switch name {
			case "README", "docs", "others":
				longest = longestSentence
			case "alerts":
				unclear = pronounClause
			}
			for where, text := range texts {
				for _, s := range sentencesOf(text) {
					n := len(strings.Fields(s))
					counts = append(counts, n)
					if n > worst.words {
						worst = sentence{where, s, n}
					}
					if n > longest {
						t.Errorf("%s: %d words, at most %d: %s", where, n, longest, s)
					}
					if clause := unclear.FindString(s); clause != "" {
						t.Errorf("%s: %q: name the subject: %s", where, clause, s)
					}
				}
			}
			slices.Sort(counts)
			if len(counts) < 20 {
				t.Fatalf("only %d sentences are read", len(counts))
			}
			median := counts[len(counts)/2]
			t.Logf("%d sentences, median %d words, worst %d in %s: %s", len(counts), median, worst.words, worst.where, worst.text)
			if median > medianSentence && name != "others" { // whose readers look things up
				t.Errorf("the median is %d words, at most %d", median, medianSentence)
			}
		})
	}
}

type sentence struct {
	where, text string
	words       int
}

var (
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	// asOne is what a reader takes for one word: code, and a link for its text.
	asOne = regexp.MustCompile("`[^`]*`")
	link  = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	// notProse are headings, tables, HTML and quoted front matter.
	notProse = regexp.MustCompile(`(?m)^ *(?:#|\||<|---).*$`)
	// apart is where a text begins anew: an empty line, an item of a list.
	apart = regexp.MustCompile(`\n\s*\n|\n\s*(?:[-*]|\d+\.) `)
	// stop ends a sentence: not after e.g. or one letter.
	stop = regexp.MustCompile(`[.!?…]\)?(?:["”*_]+)?\s+`)
)

// sentencesOf are the sentences of a text, without a library's grammar.
func sentencesOf(text string) []string {
	text = asOne.ReplaceAllString(text, "CODE")
	text = link.ReplaceAllString(text, "$1")
	var out []string
	for _, paragraph := range apart.Split("\n\n"+text, -1) {
		for _, s := range stop.Split(strings.Join(strings.Fields(paragraph), " ")+" ", -1) {
			if strings.TrimSpace(s) != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

func markdown(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, pattern := range patterns {
		files := must.Get(filepath.Glob("../../" + pattern))(t)
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			out[filepath.Base(file)] = notProse.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "")
		}
	}
	return out
}

// helpTexts are what the commands and their flags say.
func helpTexts(c *cobra.Command) map[string]string {
	out := map[string]string{c.CommandPath(): c.Short + "\n\n" + c.Long}
	c.Flags().VisitAll(func(f *pflag.Flag) { out[c.CommandPath()+" --"+f.Name] = f.Usage })
	for _, child := range c.Commands() {
		maps.Copy(out, helpTexts(child))
	}
	return out
}

var (
	// annotation is a text of an alert, as Prometheus renders it.
	annotation = regexp.MustCompile(`(?m)^- (?:summary|description): (.+)$`)
	// asCode are the commands that it quotes, and the variables at its end.
	asCode = regexp.MustCompile(`"[^"]*"|\b[A-Z]+=\S*`)
	// opening leaves its reader to guess what is meant, and so does pronounClause.
	opening       = regexp.MustCompile(`^(?:\*\*)?(?:What|Those (?:that|who|which))\b`)
	pronounClause = regexp.MustCompile(`(?i)(?:^|[,;:] |\b(?:of|to|or|and|from|for) )(?:what|of which|those (?:that|who|which))\b`)
)

// alertTexts are the summaries and descriptions of all alerts.
func alertTexts(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range annotation.FindAllStringSubmatch(markdown(t, "rules/testdata/annotations.md")["annotations.md"], -1) {
		out[m[1]] = asCode.ReplaceAllString(m[1], "CODE")
	}
	return out
}

// findingTexts are what the report of each fixture says of a finding, clause by clause.
func findingTexts(t *testing.T) map[string]string {
	t.Helper()
	files := must.Get(filepath.Glob("../../pkg/classify/testdata/*.yaml"))(t)
	out := map[string]string{}
	for _, file := range files {
		objects, _ := manifest.Read([]string{file}, manifest.Options{})
		r := must.Get(classify.DefaultPolicy().Evaluate(t.Context(), objects.Snapshot(time.Now())))(t)
		for i, f := range r.Findings {
			out[fmt.Sprintf("%s of %s, %d", f.Check.Name, filepath.Base(file), i)] = strings.ReplaceAll(cmp.Or(f.Brief, f.Message), "; ", ". ")
		}
	}
	return out
}
