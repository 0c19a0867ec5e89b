#!/usr/bin/env bash
# Installs npm from Debian where it is missing, and builds the site.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v npm >/dev/null; then
  { apt-get update -q && apt-get install -qy --no-install-recommends npm; } || { echo "the site needs npm: install it" >&2; exit 1; }
fi
npm ci --no-progress
npx --no-install vitepress build
