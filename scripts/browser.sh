#!/usr/bin/env bash
# What tests and pictures of the page need besides Python: Chromium by apt (root), axe-core by npm, into .venv/npm, and
# the parts of the playground, into .venv/playground.
set -euo pipefail
if ! command -v chromium >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
  else
    echo "missing: chromium (as root: apt-get install chromium): tests of the page in a browser will be skipped" >&2
  fi
fi
if [ ! -f .venv/npm/node_modules/axe-core/axe.min.js ]; then
  if command -v npm >/dev/null; then
    npm install --silent --no-audit --no-fund --prefix .venv/npm axe-core@4 >/dev/null
  else
    echo "missing: npm: tests of the page's accessibility will be skipped" >&2
  fi
fi
.venv/bin/python scripts/playground.py --fetch || echo "tests of the playground will be skipped" >&2
