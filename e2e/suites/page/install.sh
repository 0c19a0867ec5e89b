#!/usr/bin/env bash
# Installs what the tests of the status page need and prints the browser's path:
# Chromium and npm from Debian where they are missing, axe-core from npm.
set -euo pipefail
cd "$(dirname "$0")"

missing=()
[ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null || missing+=(chromium)
command -v npm >/dev/null || missing+=(npm)
if [ ${#missing[@]} -gt 0 ]; then
  { apt-get update -q && apt-get install -qy --no-install-recommends "${missing[@]}"; } >&2 || {
    echo "the tests of the status page need ${missing[*]}: install them, or set CHROMIUM to a browser's path" >&2
    exit 1
  }
fi
if ! cmp -s package-lock.json node_modules/.installed; then
  npm ci --no-progress --no-audit --no-fund >&2
  cp package-lock.json node_modules/.installed
fi
echo "${CHROMIUM:-$(command -v chromium)}"
