#!/bin/sh
# Lints and tests the alerts with the real promtool and amtool, built from the
# modules in e2e/prom.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../e2e/bin
"$here/../e2e/prom/build.sh"
"$bin/promtool" check rules --lint=all --lint-fatal "$here/prometheus.yaml"
"$bin/promtool" test rules "$here"/tests/*.yaml
"$bin/amtool" check-config "$here/alertmanager.yaml"
