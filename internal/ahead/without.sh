#!/bin/sh
# Runs the audit of Aheads with each part of the rule taken out: docs/guarantees.md. Each must break the bound.
set -eu
cd "$(dirname "$0")/../.."
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

without() { # what is taken out, and how the rule and its use are edited
    sed "$2" internal/ahead/account.go > "$made/account.go"
    sed "${3:-}" loader/ahead_decide.go > "$made/decide.go"
    echo "{\"Replace\": {\"$PWD/internal/ahead/account.go\": \"$made/account.go\",
        \"$PWD/loader/ahead_decide.go\": \"$made/decide.go\"}}" > "$made/overlay.json"
    if go test -overlay "$made/overlay.json" ./loader -run '^TestServerAheadAudit' -v -count=1 > "$made/out" 2>&1; then
        echo "without \"$1\" the bound holds:"; cat "$made/out"; failed=1
    else
        grep 'calls; at most' "$made/out" | sed "s/.*calls;/without \"$1\":/" || { cat "$made/out"; exit 1; }
    fi
}

failed=0
without 'strict: the error is taken off the limit' 's/return 2 \* int64(processes) \* Share.*/return 0/'
without 'a report is charged' 's/return a.InFlight/return 0/'
without 'no room, no grant' 's/min(a.Remaining, most)/most/' 's/(n, now); here {/(n, now); false {/'
without 'a lost report stays' 's/a.Unsent, a.InFlight = a.Unsent+a.InFlight, 0/a.InFlight = 0/'
without 'what is on its way counts' 's/return a.Unsent + a.InFlight/return a.Unsent/'
exit $failed
