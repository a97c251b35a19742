package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/loader"
)

// A quick run: every row is there, and everything did what its row says, or the run would have failed.
func TestServerQuickRun(t *testing.T) {
	b := quick()
	dir := t.TempDir()
	if err := measure(b, dir, false); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(expectedRows(t, b), rows(r)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if len(r.Targets) == 0 || r.Floor.SHA1 != floor().sha1 || len(r.Scripts) == 0 || r.Server == "" || r.CPU == "" {
		t.Errorf("results lack what they were measured with: %+v", r)
	}
	wellFormed(t, filepath.Join(dir, "results.svg"))
	page, err := r.fill(pageText)
	if err != nil || !strings.Contains(page, "\n| list_log, httplimit | any window | ") ||
		!strings.Contains(page, "\n| list_log | RateLimit | denied | ") {
		t.Errorf("%v, or the page lacks httplimit:\n%s", err, page)
	}
}

// The rate limit services, without theirs, which is not ours to build here: every load is there, and sluiced let
// through what its limit allows, and charged nothing for what it denied.
func TestServerServices(t *testing.T) {
	b, dir := quick(), t.TempDir()
	b.only = services
	if err := measure(b, dir, false); err != nil {
		t.Fatal(err)
	}
	r, err := readResults(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	s := r.Serve
	if want := len(serveCallers) * len(serveKeys) * len(serveDescriptors) * len(b.services); len(s.Loads) != want {
		t.Errorf("%d loads, want %d", len(s.Loads), want)
	}
	if a := s.Audits[0]; a.Most == 0 || a.Most > fullLimit || a.Failed != 0 || a.Charged != 0 || a.Denied == 0 {
		t.Errorf("the audit of sluiced: %+v", a)
	}
	if len(s.Full) != 2 || s.Full[0].Granted.Median == 0 || s.Full[1].Granted.Median == 0 {
		t.Errorf("full limits: %+v", s.Full)
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
	for _, g := range r.Returns {
		list = append(list, fmt.Sprintf("returns/%s/%d/%d/%d", g.Subject, g.Entries, g.Later, g.Permits))
	}
	for _, m := range r.Many {
		list = append(list, fmt.Sprintf("many/%s/%d", m.Script, m.Keys))
	}
	for _, f := range r.Functions {
		list = append(list, fmt.Sprintf("functions/%s/%s", f.Script, f.Outcome))
	}
	for _, m := range r.Bytes {
		list = append(list, fmt.Sprintf("bytes/%s/%d", m.Subject, m.Permits))
	}
	for _, s := range r.Slots {
		list = append(list, fmt.Sprintf("slots/%s/%d/%d", s.Call, s.Held, s.Ended))
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
	for _, c := range r.HTTPCosts {
		list = append(list, fmt.Sprintf("http/%s/%s/%s", c.Limiter, c.Headers, c.Outcome))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// expectedRows come from the lists of subjects, not from what was measured.
func expectedRows(t *testing.T, b *bench) []string {
	t.Helper()
	ways, err := others()
	if err != nil {
		t.Fatal(err)
	}
	all := append(ours(), ways...)
	var list []string
	for _, s := range all {
		for _, c := range cells(s, b.mostLive) {
			list = append(list, "server/"+c.String())
		}
	}
	for _, s := range append(ours(), slowWays(ways)...) {
		for _, size := range b.sizes(s) {
			list = append(list, fmt.Sprintf("worst/%s/%d", s.name, size))
		}
	}
	for _, g := range b.givebacks() {
		list = append(list, "returns/"+g.String())
	}
	for _, c := range calleds {
		list = append(list, "functions/"+c.script.Name+"/granted", "functions/"+c.script.Name+"/denied")
	}
	for _, s := range all {
		for _, permits := range b.memorySizes(s) {
			list = append(list, fmt.Sprintf("bytes/%s/%d", s.name, permits))
		}
	}
	for _, call := range slotCalls {
		for _, held := range slotSizes {
			list = append(list, fmt.Sprintf("slots/%s/%d/0", call, held))
		}
		list = append(list, fmt.Sprintf("slots/%s/5000/5000", call))
	}
	list = append(list, "slots/granted/0/10000", "slots/looked/0/10000")
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
	for _, h := range handmades(loader.New(newClient(""))) {
		list = append(list, fmt.Sprintf("http/%s/%s/%s", h.name, h.headers, h.outcome))
	}
	for _, both := range togethers {
		for _, keys := range both.keysOfACall() {
			list = append(list, fmt.Sprintf("many/%s/%d", both.many.Name, keys))
		}
	}
	for _, entries := range manyEntries {
		if entries <= b.mostLive {
			list = append(list, fmt.Sprintf("worst/list_log_many, 64 keys/%d", entries))
		}
	}
	for _, c := range ringCalls() {
		list = append(list, fmt.Sprintf("worst/%s/%d", c.name(), c.cells))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for d := xml.NewDecoder(file); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
}

// README's table, docs/benchmarks.md and the picture are what results.json yields.
func TestPagesAreCurrent(t *testing.T) {
	r, err := readResults("results.json")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := r.pages()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range pages {
		if diff := cmp.Diff(want, read(t, path)); diff != "" {
			t.Errorf("%s (-results.json +file), cure: cd bench && go run . readme\n%s", path, diff)
		}
	}
	drawn := filepath.Join(t.TempDir(), "results.svg")
	if err := r.draw(drawn); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(read(t, drawn), read(t, "results.svg")); diff != "" {
		t.Errorf("results.svg (-results.json +file), cure: cd bench && go run . readme\n%s", diff)
	}
}

// The picture is right where style sheets are not read: every colour, font and position is an attribute.
func TestPictureNeedsNoStyleSheet(t *testing.T) {
	picture := read(t, "results.svg")
	for _, css := range []string{"<style", "class=", "style=", "var("} {
		if strings.Contains(picture, css) {
			t.Errorf("results.svg has %s", css)
		}
	}
	for _, element := range regexp.MustCompile(`<rect [^>]*>`).FindAllString(picture, -1) {
		if !strings.Contains(element, "fill=") {
			t.Errorf("without a colour: %s", element)
		}
	}
}

// README's table has a row for each library that it is to compare, ours first, and names what was found.
func TestComparedLibraries(t *testing.T) {
	r, err := readResults("results.json")
	if err != nil {
		t.Fatal(err)
	}
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

// The page says what each way is that its tables name.
func TestWaysAreDescribed(t *testing.T) {
	ways, err := new(Results).Ways()
	if err != nil {
		t.Fatal(err)
	}
	all, err := others()
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]bool{s1Checked: true, s2Checked: true} // in the text below the table
	for _, w := range ways {
		described[w.Name] = true
	}
	for _, s := range all {
		if !described[s.name] {
			t.Errorf("%s has no description", s.name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The floor never changes: results with another one cannot be compared.
func TestFloorIsTheFloor(t *testing.T) {
	const sha1 = "bb2f344b8bef3777c38df7587e4a4ff48e558c3b"
	if got := floor().sha1; got != sha1 {
		t.Errorf("floor.lua is %s, want %s", got, sha1)
	}
}

func TestMostWithin(t *testing.T) {
	at := func(sent, received int) grant {
		return grant{time.UnixMilli(int64(sent)), time.UnixMilli(int64(received))}
	}
	for _, c := range []struct {
		name   string
		grants []grant
		want   int64
	}{
		{"none", nil, 0},
		{"a window apart", []grant{at(0, 1), at(999, 1000)}, 1},
		{"within a window", []grant{at(0, 1), at(998, 999)}, 2},
		{"across an edge", []grant{at(0, 1), at(900, 901), at(950, 951), at(1010, 1011), at(1020, 1021)}, 4},
	} {
		if got := maxWithin(c.grants, time.Second); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestSpread(t *testing.T) {
	if got, want := spreadOf([]float64{5, 1, 4, 2, 3}), (Spread{Median: 3, Low: 2, High: 4}); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestTargets(t *testing.T) {
	r := &Results{ServerTime: []ServerTime{
		{Subject: "gcra", Outcome: granted, Live: 1, State: spread, Ratio: Spread{Median: 1.7}},
		{Subject: "gcra", Outcome: granted, Live: 1e4, State: spread, Ratio: Spread{Median: 1.9}, Bare: Spread{Median: 1.5}},
		{Subject: "gcra", Outcome: granted, Live: 1e6, State: spread, Ratio: Spread{Median: 9}},
		{Subject: "gcra", Outcome: denied, Live: 10, State: spread, Ratio: Spread{Median: 1.3}},
	}}
	targets := r.targets()
	for i, want := range []Target{
		{Name: "gcra: granted, up to 10^4 live", Unit: floors, Want: 1.8, Measured: 1.9, Limit: 1.5, LimitOf: undecided},
		{Name: "gcra: denied, limit 10 to 100", Unit: floors, Want: 1.4, Measured: 1.3, Met: true},
		{Name: "list_log: granted, up to 10^4 live", Unit: floors, Want: 2, Missing: true},
	} {
		if diff := cmp.Diff(want, targets[i]); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// A bare script runs what the script ran, byte for byte.
func TestCallsOf(t *testing.T) {
	lines := []string{
		`1339518083.107412 [0 127.0.0.1:60866] "evalsha" "d2a8" "1" "key" "7"`,
		`1339518083.107413 [0 lua] "TIME"`,
		`1339518083.107414 [0 lua] "SET" "key" "\"\x00\\ \n\xff" "PX" "5"`,
	}
	want := `redis.call("\084\073\077\069")
redis.call("\083\069\084", KEYS[1], "\034\000\092\032\010\255", "\080\088", "\053")
`
	if diff := cmp.Diff(want, callsOf(lines, []string{"key"})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMonitored(t *testing.T) {
	for line, want := range map[string]struct {
		name   string
		script bool
	}{
		`+1339518083.107412 [0 127.0.0.1:60866] "EVALSHA" "a [0 lua] b"`: {"evalsha", false},
		`+1339518083.107412 [0 lua] "get" "key"`:                         {"get", true},
	} {
		name, script := monitored(line)
		if name != want.name || script != want.script {
			t.Errorf("%s: %s %t, want %+v", line, name, script, want)
		}
	}
}

// A target is out of reach only where it is missed and what limits it is short of it too.
func TestVerdict(t *testing.T) {
	few, many := atMost("few", "x", 2, []float64{1, 3}), atLeast("many", "x", 2, []float64{1, 3})
	for _, c := range []struct {
		target Target
		want   string
	}{
		{atMost("", "x", 2, nil), "not measured"},
		{atMost("", "x", 2, []float64{2}).limited([]float64{2.5}, undecided), "met"},
		{few, "missed"},
		{few.limited([]float64{1.9}, undecided), "missed"},
		{few.limited([]float64{2.1}, undecided), "out of reach"},
		{many, "missed"},
	} {
		if got := c.target.Verdict(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.target, got, c.want)
		}
	}
}

// Two subjects are compared in the state in which the first does worst, and so is its limit.
func TestBeside(t *testing.T) {
	r := &Results{ServerTime: []ServerTime{
		{Subject: "a", Outcome: granted, Live: 100, State: spread, Ratio: Spread{Median: 2}, Bare: Spread{Median: 1}},
		{Subject: "a", Outcome: granted, Live: 1e4, State: spread, Ratio: Spread{Median: 2}, Bare: Spread{Median: 1.5}},
		{Subject: "b", Outcome: granted, Live: 100, State: spread, Ratio: Spread{Median: 4}},
		{Subject: "b", Outcome: granted, Live: 1e4, State: spread, Ratio: Spread{Median: 2}},
	}}
	want := Target{Name: "a to b, granted", Unit: "x", Want: 0.9, Measured: 1, Limit: 0.75, LimitOf: undecided}
	if diff := cmp.Diff(want, r.beside("a", "b", granted, 0.9)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
