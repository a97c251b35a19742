package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// quickly is a quick run, from its file: everything did what its row says, or it would have failed.
func quickly(t *testing.T, b *bench, only string) *Results {
	t.Helper()
	dir := t.TempDir()
	must(t, measure(b, only, dir, false))
	return results(t, filepath.Join(dir, "results.json"))
}

func results(t *testing.T, path string) *Results {
	t.Helper()
	r, err := readResults(path)
	must(t, err)
	return r
}

// A quick run has every section that is not alone and every row, each with figures, and its page shows them.
func TestServerQuickRun(t *testing.T) {
	r := quickly(t, quick(), "")
	var names []string
	for _, s := range sections {
		if s.alone {
			continue
		}
		if len(r.rows(s.name)) == 0 {
			t.Errorf("%s has no rows", s.name)
		}
		for _, row := range r.rows(s.name) {
			names = append(names, row.Name)
			if len(row.Figures) == 0 {
				t.Errorf("%s: %+v has no figures", s.name, row)
			}
		}
	}
	page, err := r.fill(pageText)
	must(t, err)
	for _, want := range expected() {
		if !slices.Contains(names, want) || !strings.Contains(page, "| "+want) {
			t.Errorf("%s is no row, or not on the page", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// expected are the contenders, from their lists.
func expected() []string {
	var list []string
	for _, s := range append(scripts(), listLogMany()) {
		list = append(list, s.name)
	}
	for _, g := range givebacks() {
		list = append(list, g.script.Name)
	}
	for _, c := range ringCalls() {
		list = append(list, c.name())
	}
	for _, c := range callers(newClient("")) {
		list = append(list, c.way)
	}
	for _, c := range slices.Concat(libraries(), new(site).contenders()) {
		list = append(list, c.name)
	}
	for _, both := range togethers {
		list = append(list, both.many.Name)
	}
	return list
}

// The rate limit services, without theirs, which is not ours to build here: every load is there, and sluiced let
// through what its limit allows, and charged nothing for what it denied.
func TestServerServices(t *testing.T) {
	rows := quickly(t, quick(), "serve").rows("serve")
	if want := len(serveCallers)*len(serveKeys)*len(serveDescriptors) + 1; len(rows) != want {
		t.Fatalf("%d rows, want %d", len(rows), want)
	}
	audit := rows[len(rows)-1]
	if a, f := audit.Audits[0], audit.Figures; a.Most == 0 || a.Most > fullLimit || a.Failed != 0 ||
		f["charged"].Median != 0 || f["denied"].Median == 0 {
		t.Errorf("the audit of sluiced: %+v", audit)
	}
}

// The pages are what results.json yields, which has a row a line.
func TestPagesAreCurrent(t *testing.T) {
	r := results(t, "results.json")
	pages, err := r.pages()
	must(t, err)
	path := filepath.Join(t.TempDir(), "results.json")
	must(t, r.write(path))
	pages["results.json"] = read(t, path)
	for path, want := range pages {
		if diff := cmp.Diff(want, read(t, path)); diff != "" {
			t.Errorf("%s (-results.json +file), cure: cd bench && go run . readme\n%s", path, diff)
		}
	}
	rows := 0
	for _, s := range r.Sections {
		rows += len(s.Rows)
	}
	if lines := bytes.Count([]byte(read(t, path)), []byte("\n")); lines > rows+100 {
		t.Errorf("results.json has %d rows on %d lines", rows, lines)
	}
}

// README's table has a row for each library that it is to compare, ours first, and names what was found.
func TestComparedLibraries(t *testing.T) {
	var found []string
	for _, row := range results(t, "results.json").Compared() {
		found = append(found, row.Name+": "+row.Found(0))
	}
	if len(found) != len(compared) || found[0] != "list_log: 100 of 100" || !strings.HasPrefix(found[2], "ulule/limiter: **") {
		t.Errorf("%q: want %q, and ulule/limiter marked: it let more through than the limit", found, compared)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// The floor never changes: results with another one cannot be compared.
func TestFloorIsTheFloor(t *testing.T) {
	const sha1 = "bb2f344b8bef3777c38df7587e4a4ff48e558c3b"
	if got := floor().sha1; got != sha1 {
		t.Errorf("floor.lua is %s, want %s", got, sha1)
	}
}

func TestSpread(t *testing.T) {
	if got, want := spreadOf([]float64{5, 1, 4, 2, 3}), (Spread{Median: 3, Low: 2, High: 4}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
