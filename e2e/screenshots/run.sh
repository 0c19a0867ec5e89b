#!/usr/bin/env bash
# Draws the dashboards with Grafana's own components into e2e/bin/screenshots,
# photographs the status page there as the tests open it, and with KEEP=1 takes those that the documentation shows.
# Needs node, npm and what e2e/prom/build.sh builds; installs the rest.
set -euo pipefail
cd "$(dirname "$0")"

chromium="${CHROMIUM:-$(command -v chromium || true)}"
if [ -z "$chromium" ]; then
  apt-get update -q && apt-get install -qy --no-install-recommends chromium
  chromium=$(command -v chromium)
fi
for binary in prometheus promtool; do
  [ -x "../bin/$binary" ] || { echo "no e2e/bin/$binary: run e2e/prom/build.sh" >&2; exit 1; }
done

./install.sh
npm run build
CHROMIUM="$chromium" node shoot.mjs ../bin/prometheus ../bin/promtool ../bin/screenshots
(cd .. && CHROMIUM="$chromium" PAGE_SCREENSHOTS="$PWD/bin/screenshots/page" go test -count=1 -run 'TestServedPage|TestPrinted|TestIncident' ./suites/page)

if [ "${KEEP:-}" = 1 ]; then
  kept=(webhooks-incident-dark webhooks-incident-light webhooks-healthy-dark webhooks-empty-dark webhook-incident-dark fleet-incident-dark auditor-incident-dark)
  mkdir -p ../../dashboards/screenshots
  for picture in "${kept[@]}"; do
    cp "../bin/screenshots/$picture-1440.png" "../../dashboards/screenshots/$picture.png"
  done
  (cd .. && CHROMIUM="$chromium" PICTURES=write go test -count=1 -run TestPictures ./suites/page)
fi
