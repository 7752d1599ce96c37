#!/usr/bin/env bash
# Other people's systems, for benchmarks beside them: installed by apt where root; otherwise what is missing is named.
set -euo pipefail
missing=()
for package in "$@"; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' && continue
  case $package in
    default-jre-headless) command -v java >/dev/null && continue ;;
    etcd-server) command -v etcd >/dev/null && continue ;;
    etcd-client) command -v etcdctl >/dev/null && continue ;;
    *) command -v "$package" >/dev/null && continue ;;
  esac
  missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ]; then
  echo "missing: ${missing[*]} (as root: apt-get install ${missing[*]})" >&2
  exit 2
fi
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
