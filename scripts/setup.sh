#!/usr/bin/env bash
# Everything that tests, papers and benchmarks need: Python packages in .venv, system packages by apt where root.
set -euo pipefail
# uv does in seconds what takes pip most of a minute.  It reads no configuration of pip's: what is there is handed on.
# Where uv is not to be had, or fails, pip does the work.
configured=$(.venv/bin/pip config list 2>/dev/null || true)  # What the environment says comes first.
of_pip() { sed -n "s/^[^=]*\.$1='\(.*\)'$/\1/p" <<<"$configured" | sed '1!d; s/\\n/ /g'; }
if .venv/bin/pip install --quiet --disable-pip-version-check --no-compile uv; then
  [ -n "${UV_DEFAULT_INDEX-}" ] || UV_DEFAULT_INDEX=$(of_pip index-url)
  [ -n "${UV_INDEX-}" ] || UV_INDEX=$(of_pip extra-index-url)
  [ -n "${UV_FIND_LINKS-}" ] || UV_FIND_LINKS=$(of_pip find-links)
  [ -n "${SSL_CERT_FILE-}" ] || SSL_CERT_FILE=$(of_pip cert)
  for name in UV_DEFAULT_INDEX UV_INDEX UV_FIND_LINKS SSL_CERT_FILE; do
    if [ -n "${!name}" ]; then export "${name?}"; else unset "$name"; fi
  done
  export UV_INDEX_STRATEGY=unsafe-best-match  # As pip: the best of all indices, not of the first that has any.
fi
install_for() {
  .venv/bin/uv pip install --quiet --python "$@" 2>/dev/null ||
    .venv/bin/pip --python "$1" install --quiet --disable-pip-version-check --no-compile "${@:2}"
}

# The suite runs one seed on every Python from 3.11 on that is here: each gets the two packages that a simulation needs.
other_pythons() {
  local own version interpreter candidates candidate
  own=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  for version in 3.11 3.12 3.13; do
    [ "$version" = "$own" ] && continue
    interpreter=""
    candidates=$(command -v "python$version" || true)
    if command -v pyenv >/dev/null; then  # Its shims exist for versions that are not switched on: look behind them.
      candidates+=" $(ls -d "$(pyenv root)/versions/$version".*/bin/python3 2>/dev/null | tail -n 1 || true)"
    fi
    for candidate in $candidates; do
      if "$candidate" -c 'import sys' >/dev/null 2>&1; then interpreter=$candidate; break; fi
    done
    [ -n "$interpreter" ] || continue
    [ -x ".venvs/$version/bin/python" ] || "$interpreter" -m venv --without-pip ".venvs/$version" ||
      { rm -rf ".venvs/$version"; continue; }
    install_for ".venvs/$version/bin/python" msgspec click
  done
}
other_pythons &
others=$!
bash scripts/deploy-tools.sh &
tools=$!
# Python compiles what is used, when it is used.
install_for .venv/bin/python -e '.[dev]' -e packages/doyen-papers -e packages/doyen-lab
wait "$others"
wait "$tools"

# Real network namespaces need iproute2, losing packets there iptables, and both of them root.
missing=()
command -v ip >/dev/null || missing+=(iproute2)
command -v iptables >/dev/null || missing+=(iptables)
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
  else
    echo "missing: ${missing[*]} (as root: apt-get install ${missing[*]}): tests in network namespaces will be skipped" >&2
  fi
fi
[ "$(id -u)" = 0 ] || echo "not root: tests in network namespaces will be skipped" >&2
for peer in zookeeper serf; do
  case $peer in
    zookeeper) [ -e /usr/share/java/zookeeper.jar ] && continue ;;
    *) command -v "$peer" >/dev/null && continue ;;
  esac
  echo "$peer is not installed: the short tests of the benchmark beside it will be skipped (make bench-$peer installs it)" >&2
done
