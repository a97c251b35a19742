#!/bin/sh
# Compares the Go API of every module, and the list of released scripts, with the last release. An incompatible change
# is refused until CHANGELOG.md has a line "- Breaking: .." for it, above that release.
set -eu
cd "$(dirname "$0")/.."
last=$(git -c versionsort.suffix=- tag --list 'v*' --sort=-version:refname | head -n 1)
[ -n "$last" ] || { echo "make api: nothing is released yet"; exit 0; }
path=github.com/sluice-redis/sluice
work=$PWD/tmp/api

if git diff "$last" -- gen/released.txt | grep '^-[0-9a-f]'; then
	echo "gen/released.txt has lost these lines of $last"
	exit 1
fi

apidiff() {
	go run golang.org/x/exp/cmd/apidiff@v0.0.0-20261113113407-e3970619a1a4 -m "$@" 2>"$work/errors" ||
		{ tail -n 5 "$work/errors" >&2; exit 1; }
}

rm -rf "$work"
mkdir -p "$work/old"
git archive "$last" | tar -x -C "$work/old"
# A path takes all modules of go.work, where siblings are v0.0.0. What only this repository uses promises nothing.
(
	cd "$work/old"
	rm -rf bench clients cmd examples gen playground scripttest
	sed -i "s|\($path[/a-z]*\) $last|\1 v0.0.0|" ./*/go.mod
	go work use -r .
	apidiff -w "$work/last" $path
)
apidiff -incompatible "$work/last" $path >"$work/report"
[ -s "$work/report" ] || { echo "make api: compatible with $last"; exit 0; }
echo "make api: programs that use $last break:"
cat "$work/report"
sed "/^## \[${last#v}\]/q" CHANGELOG.md | grep '^- Breaking: ' ||
	{ echo 'want a line "- Breaking: .." in CHANGELOG.md, and a minor version next'; exit 1; }
