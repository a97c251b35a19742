package sluice

// The generator reads the headers of scripts/*.lua. It writes scripts_gen.go, scripts/functions, the sums,
// scripts/manifest.json and the table in scripts/README.md.
//go:generate go run ./gen
