package play

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Every call of a run, run again, answers what it answered then.
func TestDetailIsTheCall(t *testing.T) {
	links := []string{
		"lanes=list_log,zset_log,gcra,token_bucket,slice_ring&denied=wait&ahead=300ms&key=client&clients=3&for=2s",
		"lanes=list_log,zset_log,gcra,token_bucket,slice_ring&step=1s:-500ms,2s:3s,3s:-3m&for=4s&rate=10",
		"lanes=fixed_window,two_windows,tutorial_log,tutorial_bucket,s1,s2&denied=poll&skew=1s&for=1500ms",
		"lanes=list_log,zset_log,slice_ring,budget,concurrency,counter&unused=50&lost=20&hold=50ms&holdmax=2s&ttl=300ms" +
			"&cost=2&actual=0&actualmax=300&denied=poll&for=3s",
		"lanes=ahead,cached_counter&permits=8&rate=30&error=100&processes=2&denied=wait&for=3s",
		"lanes=s3,s4,own&rate=20&for=2s&lua=return+redis.call('INCR',KEYS[1])%253",
	}
	for _, link := range links {
		run, records := runLink(t, link)
		calls := make([]int, len(run.lanes))
		for _, r := range records {
			detail, err := detailOf(run, r.lane, calls[r.lane])
			must(t, err)
			if calls[r.lane]++; !isDetailOf(detail, r) {
				t.Errorf("%s: %s: %+v\nis not %+v", link, run.lanes[r.lane].id, detail, r)
				break
			}
		}
	}
}

// detailOf gets a detail a call at a time.
func detailOf(run *Run, lane, index int) (d Detail, err error) {
	for ready := false; !ready; {
		calls := 0
		d, ready, err = run.Detail(lane, index, func() bool { calls++; return calls < 2 })
	}
	return d, err
}

func isDetailOf(d Detail, r record) bool {
	want := []int64{0, r.remaining, r.wait}
	if r.outcome != denied && r.outcome != late {
		want[0] = 1
	}
	if r.outcome == ended && d.Process > 0 { // a report asks for none
		want[0] = unknown
	}
	fields, ok := d.Reply.([]Field)
	for i, field := range fields[:min(3, len(fields))] {
		n, isNumber := field.Value.(int64)
		if i == 0 {
			n = min(n, 1)
		}
		ok = ok && isNumber && (n == want[i] || want[i] == unknown)
	}
	if !ok { // a reply without fields
		ok = d.Reply == "(integer) 0" || d.Reply == "(nil)"
		if want[0] == 1 {
			ok = d.Reply == "(integer) 1" || d.Reply == "(integer) 2"
		}
	}
	return ok && d.At == r.at && d.Client == r.client && d.Error == ""
}

func TestDetail(t *testing.T) {
	run, _ := runLink(t, "lanes=list_log,slice_ring&permits=1&rate=0&calls=2us,3us&permits2=2&window2=10s")
	got, err := detailOf(run, 0, 1)
	must(t, err)
	lines, stored := got.Lines, got.Stored
	got.Lines, got.Stored = nil, Stored{}
	const key = "sluice:play:{everybody}:ll1"
	want := Detail{
		Index: 1, At: 3, ServerTime: startTime + 3, Client: 10, SHA1: run.lanes[0].ours.SHA1, Keys: []string{key},
		Args: []Argument{{"limit", "1"}, {"window", "1000000"}, {"permits", "1"}, {"max_wait", "0"}},
		Reply: []Field{{"granted", i(0)}, {"remaining", i(0)}, {"wait", i(999_999)}, {"reset_after", i(999_999)},
			{"now", i(startTime + 3)}},
		Commands: [][]string{{"TIME"}, {"LINDEX", key, "-1"}, {"LLEN", key}, {"LINDEX", key, "0"}},
	}
	want.Instructions = got.Instructions
	if !reflect.DeepEqual(got, want) || got.Instructions < 100 {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if len(stored.Keys) != 1 || stored.Now != 3 || !slices.Equal(stored.Keys[0].Entries, []Entry{{2, 1}}) {
		t.Errorf("stored: %+v", stored)
	}
	checkLines(t, run.lanes[0].source, lines)

	if got, err = detailOf(run, 1, -1); err != nil || got.Index != 1 {
		t.Fatal(got.Index, err)
	}
	names := fmt.Sprint(got.Args, got.Reply)
	for _, name := range []string{"{size_1 201}", "{limit_2 2}", "{count_1 1}", "{count_2 1}"} {
		if !strings.Contains(names, name) {
			t.Errorf("%s has no %s", names, name)
		}
	}
}

func i(n int64) any { return n }

// checkLines wants the lines of a denied call: the clock was read, nothing was pushed, no comment is among them.
func checkLines(t *testing.T, source string, lines []int) {
	t.Helper()
	var executed strings.Builder
	all := strings.Split(source, "\n")
	for _, line := range lines {
		if text := strings.TrimSpace(all[line-1]); text == "" || strings.HasPrefix(text, "--") {
			t.Errorf("line %d is %q", line, text)
		}
		executed.WriteString(all[line-1])
	}
	if text := executed.String(); !strings.Contains(text, `redis.call("TIME")`) || strings.Contains(text, "RPUSH") {
		t.Errorf("executed:\n%s", text)
	}
	if !slices.IsSorted(lines) {
		t.Errorf("lines %v", lines)
	}
}

func TestDetailOfNoCall(t *testing.T) {
	run, err := Open("")
	must(t, err)
	defer run.Close()
	for _, test := range []struct {
		lane, index int
		want        string
	}{{2, 0, "lane 2: want 0 to 1"}, {-1, 0, "lane -1"}, {0, -1, "has had 0"}, {0, 0, "call 0: the lane has had 0"}} {
		if _, err := detailOf(run, test.lane, test.index); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	if _, err := run.Stored(2); err == nil {
		t.Error("there is no lane 2")
	}
}
