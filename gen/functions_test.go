package main

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"
)

// Each script stands in the library byte by byte, once.
func TestLibraryHoldsTheScripts(t *testing.T) {
	scripts, err := readScripts(os.DirFS(".."))
	must(t, err)
	libraries, err := libraries(os.DirFS(".."), scripts)
	must(t, err)
	for _, s := range scripts {
		wrapped := "\nlocal function " + s.ID() + "(KEYS, ARGV)\n" + s.Source + "end\n"
		in := 0
		for _, l := range libraries {
			in += strings.Count(l.Source, wrapped)
		}
		if in != 1 {
			t.Errorf("%s is in the libraries %d times, want once", s.File(), in)
		}
	}
}

// A released library stays as it is. What is new goes into the next one.
func TestLibraryOfNewScripts(t *testing.T) {
	tree := smallTree(t)
	tree[releasedFile] = &fstest.MapFile{Data: tree["scripts/SHA1SUMS"].Data}
	first := string(tree["scripts/functions/sluice_v1.lua"].Data)
	tree["scripts/small_v2.lua"] = &fstest.MapFile{Data: tree[smallScript].Data}
	edit(tree, "scripts/small_v2.lua", "-- small v1", "-- small v2")
	found := map[string]string{}
	files, err := generate(tree)
	must(t, err)
	for _, f := range files {
		found[f.path] = string(f.data)
	}
	second := found["scripts/functions/sluice_v2.lua"]
	if !strings.HasPrefix(second, "#!lua name=sluice_v2\n") || !strings.Contains(second, `"small_v2"`) ||
		strings.Contains(second, `"small_v1"`) {
		t.Errorf("the second library is\n%s", second)
	}
	if got, ok := found["scripts/functions/sluice_v1.lua"]; ok && got != first {
		t.Error("the first library changes")
	}
	for _, name := range []string{"SHA1SUMS", "SHA256SUMS"} {
		if sums := found["scripts/"+name]; strings.Count(sums, "  functions/sluice_v") != 2 {
			t.Errorf("%s has not both libraries:\n%s", name, sums)
		}
	}

	const library = "scripts/functions/sluice_v1.lua"
	tree[library] = &fstest.MapFile{Data: []byte(first + "\n")}
	if _, err := generate(tree); err == nil || !strings.HasPrefix(err.Error(), library+":1:1: released as") {
		t.Errorf("a released library that changed: %v", err)
	}
	delete(tree, library)
	if _, err := generate(tree); err == nil || !strings.Contains(err.Error(), library+" was released but is missing") {
		t.Errorf("a released library that is gone: %v", err)
	}
}
