package sluice

// scripts_gen.go, loader/bindings/*.lua.go, scripts/SHA1SUMS, scripts/manifest.json and the table in
// scripts/README.md follow from the headers of scripts/*.lua.
//go:generate go run ./gen
