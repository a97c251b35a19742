#!/bin/sh
# Builds the engine: build.sh <file>. The smaller it is, the sooner a browser has it.
set -eu
out=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
cd "$(dirname "$0")"
GOOS=js GOARCH=wasm go build -trimpath -buildvcs=false -ldflags '-s -w' -o "$out" .
