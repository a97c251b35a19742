#!/bin/sh
# The storages for limits: limits' own tests from its source distribution, and ours. Needs Python 3.10.
set -eu
cd "$(dirname "$0")/../.."
work=$(cd ../.. && pwd)/tmp/adapter-python
rm -rf "$work"
mkdir -p "$work"

# Runs a command; shows what it printed if it fails.
quietly() {
    "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
}

quietly python3 -m venv "$work/venv"
quietly "$work/venv/bin/pip" install -q -r tests/adapter/lock.txt
quietly "$work/venv/bin/pip" install -q --no-deps .
quietly "$work/venv/bin/python" -m pytest -q -s -p no:cacheprovider -p no:asyncio tests/adapter/own.py
sed -n 's/^[.]*\(Flask-Limiter:.*\)/\1/p;$p' "$work/log"
limits=$(grep '^limits==' tests/adapter/lock.txt)
quietly "$work/venv/bin/pip" download -q --no-deps --no-binary limits -d "$work" "$limits"
tar -xzf "$work"/limits-*.tar.gz -C "$work"
rm "$work"/limits-*.tar.gz
quietly "$work/venv/bin/python" tests/adapter/theirs.py "$work"/limits-*
sed -n '/does not hold/p;$p' "$work/log"
