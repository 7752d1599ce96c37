#!/usr/bin/env bash
# Makes .venv with the newest suitable Python; on Debian, root installs python3-venv where it is missing.
set -euo pipefail
python=""
for candidate in python3 python3.13 python3.12 python3.11; do
  if command -v "$candidate" >/dev/null && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    python=$candidate
    break
  fi
done
[ -n "$python" ] || { echo "doyen needs Python 3.11 or newer: apt-get install python3" >&2; exit 1; }
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq python3-venv >/dev/null
  else
    echo "python3-venv is missing: ask root for 'apt-get install python3-venv'" >&2
    exit 1
  fi
fi
"$python" -m venv .venv
