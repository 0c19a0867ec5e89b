package rules

import (
	"fmt"
	"slices"
	"strings"

	"github.com/webhook-auditor/webhook-auditor/internal/promql"
)

// inputsOfAll are the series that inputs look for, as a cluster has them that lacks none.
func inputsOfAll() []trace {
	const ofLeases = `{instance="a",resource="leases"}`
	out := []trace{
		seesAll, grows(scraped+`{instance="a"}`, 1), stays(gcErrors+`{instance="k"}`, 0), stays(longestRun+`{instance="k",name="namespace"}`, 0), stays(queued+`{instance="k",name="namespace"}`, 0),
		grows(promql.Requests+`{`+calledHook+`,code="200",rejected="false"}`, 1), grows(promql.Requests+`{`+calledHook+`,code="403",rejected="true"}`, 1), grows(promql.Requests+`{`+calledHook+`,code="503",rejected="false"}`, 1),
		grows(rejected("no_error"), 1), grows(promql.FailedOpen+`{instance="a",name="w",type="validating"}`, 1),
		grows(conversions("true"), 1), grows(promql.ConversionSeconds+`_bucket{`+calledForCRD+`,le="1.024"}`, 1), grows(promql.ConversionRequests+`{instance="a",result="success"}`, 1),
		grows(`apiserver_request_total`+ofLeases, 1), grows(sliDuration+`_sum`+ofLeases, 1), grows(sliDuration+`_count`+ofLeases, 1), grows(fullDuration+`_sum`+ofLeases, 1),
		grows(promql.WebhookSeconds+`_count{`+calledHook+`}`, 1),
	}
	for _, edge := range []string{"0.1", "0.5", "1.0", "2.5", "10"} {
		out = append(out, grows(promql.WebhookSeconds+`_bucket{`+calledHook+`,le="`+edge+`"}`, 1))
	}
	return out
}

// lacking are these but for those whose names and labels have one of the texts.
func lacking(parts ...string) []trace {
	return slices.DeleteFunc(inputsOfAll(), func(t trace) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(t.series, part) })
	})
}

// nothingMissing are clusters in which something has not happened, so that its series are not
// there.
func nothingMissing() map[string][]trace {
	twice := counts(scraped+`{instance="a"}`, func(m int) int { return 1000 + m%12 })
	return map[string][]trace{
		"all is there": inputsOfAll(), "an API server restarts twice in half an hour": append(lacking(scraped), twice),
		"nothing is refused": lacking(promql.Rejections, `rejected="true"`), "nothing passes unchecked": lacking(promql.FailedOpen, `code="503"`),
		"nothing is converted": append(lacking("conversion"), gauge("webhook_info", knownHook, 1)), "no requests for leases": lacking("leases"),
	}
}

// inputWorld has each input be missing in a cluster of its own: the alert names it and nothing
// else.
func inputWorld() *world {
	w := &world{name: "inputs", scrape: minute, step: minute, last: minutes(42)}
	add := func(missing string, traces []trace) {
		of := scenario{name: "missing: " + missing, cluster: missing, alerts: []string{"WebhookInputMetricsMissing"}}
		of.series = expectation{scrape: 1, last: 42, traces: traces}.lines()
		of.wrong = func(fires firings) string {
			for m := range 43 {
				got := []string{}
				for _, a := range fires(minutes(m)) {
					got = append(got, a.Labels.Get("series"))
				}
				if early := m < 15 && len(got) > 0; early || m > 34 && !slices.Equal(got, slices.DeleteFunc([]string{missing}, func(s string) bool { return s == "" })) {
					return fmt.Sprintf("%q are missing after %d minutes, want %q", got, m, missing)
				}
			}
			return ""
		}
		w.scenarios = append(w.scenarios, of)
	}
	for name, traces := range nothingMissing() {
		add("", traces)
		w.scenarios[len(w.scenarios)-1].cluster = name
	}
	for _, i := range inputs() {
		kind, labelled := strings.CutPrefix(i.series, "label ")
		switch {
		case labelled:
			names, series, _ := strings.Cut(kind, " of ")
			for name := range strings.SplitSeq(names, " or ") {
				t := inputsOfAll()[slices.IndexFunc(inputsOfAll(), func(t trace) bool { return strings.HasPrefix(t.series, series+"{") })]
				add(i.series, append(inputsOfAll(), grows(strings.Replace(t.series, "{", `{more="x",`, 1), 1).withoutLabel(name)))
				w.scenarios[len(w.scenarios)-1].cluster += " without " + name
			}
		case i.series == severalServers:
			add(i.series, append(lacking(scraped), behindOneAddress()[0]))
		case strings.Contains(i.series, "le=~"):
			add(i.series, lacking(`le="2.5"`))
		default:
			for part := range strings.SplitSeq(i.series, " or ") {
				add(i.series, lacking(part+"{"))
				w.scenarios[len(w.scenarios)-1].cluster += " without " + part
			}
		}
	}
	return w
}

// withoutLabel is the series without a label.
func (t trace) withoutLabel(label string) trace {
	name, labels, _ := strings.Cut(strings.TrimSuffix(t.series, "}"), "{")
	kept := slices.DeleteFunc(strings.Split(labels, ","), func(l string) bool { return strings.HasPrefix(l, label+"=") })
	return trace{name + "{" + strings.Join(kept, ",") + "}", t.value}
}
