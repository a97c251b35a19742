package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A quick run: every row is there, and everything did what its row says, or the run would have failed.
func TestServerQuickRun(t *testing.T) {
	b := quick()
	dir := t.TempDir()
	must(t, measure(b, dir, false))
	r, err := readResults(filepath.Join(dir, "results.json"))
	must(t, err)
	if diff := cmp.Diff(expectedRows(t, b), rows(r)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if r.Floor.SHA1 != floor().sha1 || len(r.Scripts) == 0 || r.Server == "" || r.CPU == "" {
		t.Errorf("results lack what they were measured with: %+v", r)
	}
	page, err := r.fill(pageText)
	if err != nil || !strings.Contains(page, "\n| list_log, httplimit | any window | ") {
		t.Errorf("%v, or the page lacks httplimit:\n%s", err, page)
	}
}

// The rate limit services, without theirs, which is not ours to build here: every load is there, and sluiced let
// through what its limit allows, and charged nothing for what it denied.
func TestServerServices(t *testing.T) {
	b, dir := quick(), t.TempDir()
	b.only = services
	must(t, measure(b, dir, false))
	r, err := readResults(filepath.Join(dir, "results.json"))
	must(t, err)
	s := r.Serve
	if want := len(serveCallers) * len(serveKeys) * len(serveDescriptors) * len(b.services); len(s.Loads) != want {
		t.Errorf("%d loads, want %d", len(s.Loads), want)
	}
	if a := s.Audits[0]; a.Most == 0 || a.Most > fullLimit || a.Failed != 0 || a.Charged != 0 || a.Denied == 0 {
		t.Errorf("the audit of sluiced: %+v", a)
	}
}

// rows are the names of all rows.
func rows(r *Results) []string {
	var list []string
	for _, s := range r.ServerTime {
		list = append(list, fmt.Sprintf("server/%s/%s/%d/%s", s.Subject, s.Outcome, s.Live, s.State))
	}
	for _, w := range r.Worst {
		list = append(list, fmt.Sprintf("worst/%s/%d", w.Subject, w.Entries))
	}
	for _, m := range r.Many {
		list = append(list, fmt.Sprintf("many/%s/%d", m.Script, m.Keys))
	}
	for _, e := range r.EndToEnd {
		list = append(list, fmt.Sprintf("go/%s/%d/%d", e.Way, e.Batch, e.Goroutines))
	}
	for _, p := range r.Peers {
		list = append(list, "peers/"+p.Name)
	}
	for _, h := range r.HTTP {
		list = append(list, "http/"+h.Name)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// expectedRows come from the lists of subjects, not from what was measured.
func expectedRows(t *testing.T, b *bench) []string {
	t.Helper()
	ways, err := others()
	must(t, err)
	all := append(ours(), ways...)
	var list []string
	for _, s := range all {
		for _, c := range cells(s, b.mostLive) {
			list = append(list, "server/"+c.String())
		}
	}
	for _, s := range all {
		list = append(list, fmt.Sprintf("worst/%s/%d", s.name, b.size(s)))
	}
	for _, g := range givebacks() {
		list = append(list, fmt.Sprintf("worst/%s/%d", g.script.Name, g.entries(b)))
	}
	for _, n := range goroutines {
		for _, c := range callers(newClient("")) {
			list = append(list, fmt.Sprintf("go/%s/%d/%d", c.way, c.batch, n))
		}
	}
	for _, p := range peers() {
		list = append(list, "peers/"+p.name)
	}
	for _, p := range new(site).httpPeers() {
		list = append(list, "http/"+p.name)
	}
	for _, both := range togethers {
		for _, keys := range both.keysOfACall() {
			list = append(list, fmt.Sprintf("many/%s/%d", both.many.Name, keys))
		}
	}
	list = append(list, fmt.Sprintf("worst/list_log_many, 64 keys/%d", b.manyEntries()))
	for _, c := range ringCalls() {
		list = append(list, fmt.Sprintf("worst/%s/%d", c.name(), c.cells))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// README's table and docs/benchmarks.md are what results.json yields.
func TestPagesAreCurrent(t *testing.T) {
	r, err := readResults("results.json")
	must(t, err)
	pages, err := r.pages()
	must(t, err)
	for path, want := range pages {
		if diff := cmp.Diff(want, read(t, path)); diff != "" {
			t.Errorf("%s (-results.json +file), cure: cd bench && go run . readme\n%s", path, diff)
		}
	}
}

// README's table has a row for each library that it is to compare, ours first, and names what was found.
func TestComparedLibraries(t *testing.T) {
	r, err := readResults("results.json")
	must(t, err)
	rows := r.Compared()
	if len(rows) != len(compared) {
		t.Fatalf("%d rows, want %d: %v", len(rows), len(compared), compared)
	}
	found := map[string]string{}
	for _, p := range rows {
		found[p.Name] = p.Found()
	}
	if diff := cmp.Diff("100 of 100", found["list_log"]); diff != "" {
		t.Errorf("list_log (-want +got)\n%s", diff)
	}
	if got := found["ulule/limiter"]; !strings.HasPrefix(got, "**") {
		t.Errorf("ulule/limiter: %s, want it marked: it let more through than the limit", got)
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

// results.json has a row a line, and is what write makes of it.
func TestResultsHaveARowALine(t *testing.T) {
	r, err := readResults("results.json")
	must(t, err)
	path := filepath.Join(t.TempDir(), "results.json")
	must(t, r.write(path))
	want, _ := os.ReadFile(path)
	got, _ := os.ReadFile("results.json")
	if !bytes.Equal(got, want) || bytes.Count(got, []byte("\n")) > 1000 {
		t.Errorf("results.json has %d lines, write makes %d", bytes.Count(got, []byte("\n")), bytes.Count(want, []byte("\n")))
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
