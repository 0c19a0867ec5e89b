#!/bin/sh
# Lints the alerts and the example of routes with the real promtool and amtool, built from the
# modules in e2e/prom.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
bin=$here/../e2e/bin
"$here/../e2e/prom/build.sh"
"$bin/promtool" check rules --lint=all --lint-fatal "$here/prometheus.yaml"
"$bin/amtool" check-config "$here/alertmanager.yaml"
