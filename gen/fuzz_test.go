package main

import (
	"encoding/json"
	"go/format"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// FuzzHeader gives the generator any file: it refuses it at a place in the file, or takes it, and then what
// it generates is Go and JSON, and names what the header names. It never panics.
func FuzzHeader(f *testing.F) {
	addSources(f)
	f.Fuzz(func(t *testing.T, source string) {
		const file = "scripts/small_v1.lua"
		if s, err := parseHeader(file, source); err != nil {
			wantPlaced(t, err, source)
		} else {
			wantWhole(t, s, file, source)
		}
		s, err := parseScript(os.DirFS(".."), file, source)
		if err != nil {
			wantPlaced(t, err, source)
			return
		}
		wantGenerated(t, s)
	})
}

// addSources are the scripts, and the small ones as their refusals change them.
func addSources(f *testing.F) {
	f.Helper()
	files, err := filepath.Glob("../scripts/*.lua")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scripts: %v", err)
	}
	for _, path := range files {
		source, err := os.ReadFile(path)
		must(f, err)
		f.Add(asSmall(string(source)))
	}
	tree := smallTree(f)
	cases, _ := readRefusals(f)
	for _, c := range cases {
		f.Add(asSmall(c.source(f, tree)))
	}
	for path, file := range tree {
		if strings.HasSuffix(path, ".lua") {
			f.Add(asSmall(string(file.Data)))
		}
	}
}

// asSmall gives a script the first line that the file of this test must have.
func asSmall(source string) string {
	_, behind, _ := strings.Cut(source, "\n")
	return "-- small v1\n" + behind
}

// wantPlaced: every refusal says where in the file it is.
func wantPlaced(t *testing.T, err error, source string) {
	t.Helper()
	lines := append(strings.Split(source, "\n"), "") // the place behind the last line is one
	for _, one := range flatten(err) {
		r, ok := one.(*refusal)
		if !ok {
			t.Fatalf("%v is no refusal", one)
		}
		at := r.at
		if at.line < 1 || at.line > len(lines) || at.col < 1 || at.col > len(lines[at.line-1])+1 || r.text == "" {
			t.Errorf("%v: no place in a file of %d lines", r, len(lines)-1)
		}
	}
}

// wantWhole: a header that is taken says all that a script needs, and nothing of it is lost.
func wantWhole(t *testing.T, s *script, file, source string) {
	t.Helper()
	if s.Name == "" || s.Version < 1 || len(s.Keys) == 0 || len(s.Args) == 0 || len(s.Reply) == 0 || len(s.Errors) == 0 ||
		len(s.States) == 0 || s.Cost.Order == "" || s.Redis == "" || s.body < 1 {
		t.Errorf("taken, but not whole: %+v", s)
	}
	for _, field := range append(append([]field{}, s.Args...), s.Reply...) {
		if !strings.Contains(source, field.Name) || field.Max >= 0 && field.Min > field.Max {
			t.Errorf("field %+v", field)
		}
	}
	if again, err := parseHeader(file, source); err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("read again: %+v, %v; want %+v", again, err, s)
	}
}

// wantGenerated: what is written from a script that is taken is Go and JSON.
func wantGenerated(t *testing.T, s *script) {
	t.Helper()
	scripts := []*script{s}
	all := []library{newLibrary("sluice_v1", scripts)}
	if source, err := format.Source(scriptsGo(scripts, all)); err != nil {
		t.Errorf("%v\n%s", err, source)
	}
	if !json.Valid(manifest(scripts, all)) {
		t.Errorf("no JSON: %s", manifest(scripts, all))
	}
}
