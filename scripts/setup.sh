#!/usr/bin/env bash
# Everything that tests, papers and benchmarks need: Python packages in .venv, system packages by apt where root.
set -euo pipefail
.venv/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'

# The suite runs one seed on every Python from 3.11 on that is here: each gets the two packages that a simulation needs.
own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
for version in 3.11 3.12 3.13; do
  [ "$version" = "$own" ] && continue
  interpreter=$(command -v "python$version" || true)
  if [ -z "$interpreter" ] && command -v pyenv >/dev/null; then
    found=$(ls -d "$(pyenv root)/versions/$version".*/bin/python3 2>/dev/null | tail -n 1 || true)
    [ -x "$found" ] && interpreter=$found
  fi
  { [ -n "$interpreter" ] && "$interpreter" -c 'import sys' 2>/dev/null; } || continue
  [ -x ".venvs/$version/bin/python" ] || "$interpreter" -m venv ".venvs/$version" || { rm -rf ".venvs/$version"; continue; }
  ".venvs/$version/bin/pip" install --quiet --disable-pip-version-check msgspec click
done

# Real network namespaces need iproute2, and root to use them.
if ! command -v ip >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq iproute2 >/dev/null
  else
    echo "iproute2 is missing (ask root for 'apt-get install iproute2'): tests in network namespaces will be skipped" >&2
  fi
fi
[ "$(id -u)" = 0 ] || echo "not root: tests in network namespaces will be skipped" >&2
