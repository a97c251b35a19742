package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

var update = flag.Bool("update", false, "write the goldens in testdata")

// sample is what an experiment could have come to: a log, gcra and slice_ring that keep the limit, a
// fixed window that breaks it.
func sample() []experiment.Result {
	const duration = 12 * time.Second
	log := spread(0, 12, time.Second, 0, 50, 100, 150, 230)
	late := slices.Clone(log)
	late[7] += 3 * time.Millisecond
	late[12] -= time.Millisecond
	even := spread(0, 60, 200*time.Millisecond, 0)
	ring := spread(0, 12, 1050*time.Millisecond, 0, 30, 60, 90, 330)
	ring = ring[:59]
	fixed := append(spread(0, 1, time.Second, 0, 0, 100, 200, 300), spread(500, 12, time.Second, 0, 0, 1, 2, 3)...)
	fixed[30] -= 4 * time.Millisecond
	ten := append(slices.Clone(fixed), spread(9000, 1, time.Second, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10)...)
	slices.Sort(ten)
	return []experiment.Result{
		{
			Way: experiment.Way{Name: "list_log", Kind: experiment.Booking}, Duration: duration,
			Booked: log, Real: late, Granted: 61, Calls: 61, LongestWait: 3600 * time.Millisecond,
		},
		{
			Way: experiment.Way{Name: "gcra", Kind: experiment.Booking}, Duration: duration,
			Booked: even, Real: even, Granted: 61, Calls: 61, LongestWait: 3700 * time.Millisecond,
		},
		{
			Way: experiment.Way{Name: "slice_ring", Kind: experiment.Asking}, Duration: duration,
			Booked: ring, Real: ring, Granted: 59, Calls: 1003, LongestWait: 9 * time.Second,
		},
		{
			Way: experiment.Way{Name: "fixed window", Kind: experiment.Faulty}, Duration: duration,
			Booked: fixed, Real: ten, Granted: 65, Calls: 301, LongestWait: 10 * time.Second,
		},
		{
			Way: experiment.Way{Name: "polling", Kind: experiment.Faulty}, Duration: duration,
			Booked: log, Real: log, Granted: 60, Calls: 1752, LongestWait: 11 * time.Second,
		},
	}
}

// spread repeats a pattern of milliseconds every so often.
func spread(start, times int, every time.Duration, pattern ...int) []time.Duration {
	var all []time.Duration
	for i := range times {
		for _, ms := range pattern {
			all = append(all, time.Duration(i)*every+time.Duration(start+ms)*time.Millisecond)
		}
	}
	return all
}

// screens are those that the goldens are for.
func screens(w *bytes.Buffer) map[string]screen {
	return map[string]screen{
		"color":   {w: w, color: true, unicode: true},
		"unicode": {w: w, unicode: true},
		"ascii":   {w: w},
	}
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	for name, s := range screens(&out) {
		out.Reset()
		if err := s.report(sample(), 0); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		golden(t, "report_"+name, out.String())
	}
}

// TestReportOfPolling tests a way that keeps the limit on a machine on which ours were late: it does not win.
func TestReportOfPolling(t *testing.T) {
	text := reported(t, sample(), 20*time.Millisecond)
	for way, want := range map[string]string{"list_log": "kept", "fixed window": "BROKEN", "polling": "WASTEFUL"} {
		line := regexp.MustCompile("(?m)^" + way + ` .* s +(\S+)$`).FindStringSubmatch(text)
		if line == nil || line[1] != want {
			t.Errorf("%s: %q, want %s\n%s", way, line, want, text)
		}
	}
}

// reported is the report on results that keep every promise.
func reported(t *testing.T, results []experiment.Result, margin time.Duration) string {
	t.Helper()
	var out strings.Builder
	must(t, (screen{w: &out}).report(results, margin))
	return out.String()
}

// TestReportBegins wants what the machine did first, then the legend and the picture, and all of it on one screen.
func TestReportBegins(t *testing.T) {
	const legend = "The fullest second"
	seven := func() []experiment.Result { return append(sample(), sample()[:2]...) }
	quiet, busy, stalled := sample()[1:], seven(), seven()
	stalled[0].Stalled = 350 * time.Millisecond
	for _, test := range []struct {
		results []experiment.Result
		margin  time.Duration
		want    string
		again   bool // the same command may show something else
	}{
		{quiet, 20 * time.Millisecond, legend, false},
		{busy, 0, "Without a margin, ", false},
		{busy, 20 * time.Millisecond, "This machine woke workers later than the margin of 20ms allows", true},
		{stalled, 20 * time.Millisecond, "This machine stopped for 350ms", true},
	} {
		text := reported(t, test.results, test.margin)
		if !strings.HasPrefix(text, test.want) || strings.Contains(text, "Run the same command again") != test.again {
			t.Errorf("it does not begin with %q or offers wrongly to run again (%v):\n%s", test.want, test.again, text)
		}
		if at := strings.Index(text, legend); at < 0 || at > strings.Index(text, "\ngcra ") {
			t.Errorf("the legend is not before the picture:\n%s", text)
		}
		if n := strings.Count(text, "\n"); n > 23 {
			t.Errorf("%d lines and a prompt do not fit on a screen of 24:\n%s", n, text)
		}
		wantNarrow(t, "report", text)
	}
}

func TestReportBroken(t *testing.T) {
	results := sample()
	results[0].Calls, results[1].Booked = 62, results[3].Booked
	var out bytes.Buffer
	if err := (screen{w: &out, unicode: true}).report(results, 0); !errors.Is(err, errReported) {
		t.Errorf("err = %v", err)
	}
	want := "\n✗ list_log made 62 calls for 61 permits\n✗ gcra booked 10 acts for one second, above 5\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("no %q at the end of\n%s", want, out.String())
	}
}

func TestLiveProgress(t *testing.T) {
	results := sample()
	for i, r := range results {
		results[i].Booked = before(r.Booked, 7*time.Second)
	}
	var out bytes.Buffer
	for name, s := range screens(&out) {
		out.Reset()
		s.live, s.columns, s.rows = true, 80, 12
		p := s.newProgress(12 * time.Second)
		p.update(nil)
		first := out.Len()
		p.update(results)
		frame := out.String()[first:]
		if !strings.HasPrefix(frame, "\x1b[2A") {
			t.Errorf("%s: the second frame begins with %.20q", name, frame)
		}
		golden(t, "live_"+name, strings.ReplaceAll(frame[len("\x1b[2A"):], eraseLine, ""))

		out.Reset()
		p.end()
		if want := "\r\x1b[7A" + eraseBelow + showCursor; out.String() != want {
			t.Errorf("%s: it ends with %q, want %q", name, out.String(), want)
		}
	}
}

func before(moments []time.Duration, end time.Duration) []time.Duration {
	return slices.DeleteFunc(slices.Clone(moments), func(at time.Duration) bool { return at >= end })
}

// TestPlainProgress wants a line for each update, and no escape sequence, where there is no terminal.
func TestPlainProgress(t *testing.T) {
	results := sample()[:1]
	results[0].Booked = before(results[0].Booked, 2*time.Second)
	var out bytes.Buffer
	p := screen{w: &out}.newProgress(12 * time.Second)
	p.update(results)
	p.end()
	if want := "1.2 of 12 s\n"; out.String() != want || p.interval() != 2*time.Second {
		t.Errorf("%q every %v, want %q", out.String(), p.interval(), want)
	}
}

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		seconds int
		want    string
	}{
		{2, "0s                            1s"},
		{20, "0s    2s    4s    6s    8s    10s   12s   14s   16s   18s"},
		{600, "0s   50s  100s 150s 200s 250s 300s 350s 400s 450s 500s 550s"},
	} {
		if got := strings.TrimSpace(axis(time.Duration(test.seconds) * time.Second)); got != test.want {
			t.Errorf("%d s: %q, want %q", test.seconds, got, test.want)
		}
	}
}

func TestStrip(t *testing.T) {
	r := experiment.Result{Duration: 12 * time.Second, Booked: spread(0, 1, 0, 0, 199, 200, 1000, 1199, 11999)}
	s := stripOf(r)
	if want := []int{2, 1, 0, 0, 0, 2, 0}; !slices.Equal(s.acts[:7], want) || s.acts[59] != 1 {
		t.Errorf("acts %d, want %d", s.acts, want)
	}
	// A time leaves exactly a second later: 0 at 1000 ms, 1000 at 2000 ms.
	if want := []int{2, 3, 3, 3, 3, 3, 2, 2, 2, 2, 1, 0, 0}; !slices.Equal(s.worst[:13], want) {
		t.Errorf("worst %d, want %d", s.worst[:13], want)
	}
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// golden compares with testdata/<name>.golden, and wants no line wider than a terminal.
func golden(t *testing.T, name, got string) {
	t.Helper()
	wantNarrow(t, name, escapes.ReplaceAllString(got, ""))
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test ./cmd/sluice -update writes it):\n%s", file, diff)
	}
}
