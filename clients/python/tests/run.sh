#!/bin/sh
# Builds the package, checks it, installs it as a user would, and runs the tests with the oldest and the newest redis-py
# that are promised. Prints a row for each: language | client version | vectors passed | traps met | audit.
set -eu
cd "$(dirname "$0")/.."
work=$(cd ../.. && pwd)/tmp/clients-python
rm -rf "$work"
mkdir -p "$work"

# The first of these versions of Python that is here.
python() {
    for version in "$@"; do
        for found in "python$version" "$HOME/.pyenv/versions/$version".*/bin/python; do
            if "$found" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$version')" 2>/dev/null; then
                echo "$found"
                return
            fi
        done
    done
    echo "no Python of $*" >&2
    return 1
}

# Runs a command; shows what it printed if it fails.
quietly() {
    "$@" >"$work/$lane.log" 2>&1 || { cat "$work/$lane.log" >&2; return 1; }
}

oldest=$(python 3.9 3.10 3.11 3.12 3.13)
newest=$(python 3.14 3.13 3.12 3.11 3.10)

lane=build
quietly "$newest" -m venv "$work/build"
quietly "$work/build/bin/pip" install -q -r tests/lock-build.txt
quietly "$work/build/bin/python" -m build --outdir "$work/dist"
quietly "$work/build/bin/twine" check --strict "$work"/dist/*

echo "language | client version | vectors passed | traps met | audit"
for lane in oldest newest; do # beside each other, because tests mostly wait
    eval "interpreter=\$$lane"
    (
        quietly "$interpreter" -m venv "$work/$lane"
        quietly "$work/$lane/bin/pip" install -q -r "tests/lock-$lane.txt"
        quietly "$work/$lane/bin/pip" install -q --no-deps "$work"/dist/*.whl
        [ $lane = oldest ] || quietly "$work/$lane/bin/mypy" src
        quietly "$work/$lane/bin/python" -m pytest -q -p no:cacheprovider tests
        grep '^Python |' "$work/$lane.log"
    ) &
    lanes="${lanes-} $!"
done
for process in $lanes; do wait "$process"; done
