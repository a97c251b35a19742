package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
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

// A quick run has rows in every section that is not alone, each with figures, and its page shows them.
func TestServerQuickRun(t *testing.T) {
	r := quickly(t, quick(), "")
	page, err := r.fill(pageText)
	must(t, err)
	for _, s := range sections {
		if rows := r.rows(s.name); !s.alone && len(rows) == 0 {
			t.Errorf("%s has no rows", s.name)
		}
		for _, row := range r.rows(s.name) {
			if len(row.Figures) == 0 || row.Name != floor().name && !strings.Contains(page, "\n| "+row.Name) {
				t.Errorf("%s: %+v has no figures, or is not on the page:\n%s", s.name, row, page)
			}
		}
	}
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

// README's table has ours first, and marks what let more through than its limit.
func TestComparedLibraries(t *testing.T) {
	table, err := results(t, "results.json").fill(tableText)
	must(t, err)
	rows := regexp.MustCompile(`(?s)\| list_log .* 100 of 100 \|.*\| redis_rate .*\| ulule/limiter .*\*\* \|`)
	if !rows.MatchString(table) {
		t.Error(table)
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
