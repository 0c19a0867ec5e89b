#!/usr/bin/env bash
# Installs npm from Debian where it is missing, and Grafana's packages.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v npm >/dev/null; then
  { apt-get update -q && apt-get install -qy --no-install-recommends npm; } || { echo "Grafana's packages need npm: install it" >&2; exit 1; }
fi
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --no-progress
  cp package-lock.json node_modules/.installed
fi
