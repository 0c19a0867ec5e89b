#!/bin/sh
# run.sh [RELEASE…]: the end-to-end tests of each column of the table "What was run in which
# release" of docs/releases.md, in real releases of Kubernetes, and its rows. ONLY="install
# alerts" runs some columns.
set -u
cd "$(dirname "$0")/.."
columns='install   install   ^(TestInstall|TestPrintedRules)$
findings   findings  .
explain    explain   ^(TestExplainSaysWhatTheAPIServerDoes|TestExplainError.*)$
conditions operator  ^(TestConditions|TestVersions)$
metrics    alerts    ^TestSeries$
alerts     alerts    ^TestAlerts$'
[ $# -gt 0 ] || set -- $(awk '$1 != "#" { print $1 }' matrix/releases.tsv)
log=$(mktemp)
rows=$(mktemp)
failed=0
for release; do
	matrix/build.sh "$release" || exit
	row="| $(awk -v release="$release" '$1 == release { sub("v", "", $2); print $2 }' matrix/releases.tsv) |"
	while read -r name suite tests; do
		cell=–
		case " ${ONLY:-$name} " in *" $name "*)
			if WEBHOOK_AUDITOR_E2E_RELEASE=$release go test -count=1 -tags=matrix -timeout=30m -run="$tests" "./suites/$suite" >"$log" 2>&1 </dev/null && ! grep -q 'no tests to run' "$log"; then
				cell=passed
			else
				failed=1
				cat "$log"
			fi
			echo "$release: $name: $cell"
			;;
		esac
		row="$row $cell |"
	done <<END
$columns
END
	echo "$row" >>"$rows"
done
cat "$rows"
rm -f "$log" "$rows"
exit $failed
