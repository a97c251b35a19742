package play

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// record is a decision as the page reads it.
type record struct {
	lane                int
	at, client, permits int64
	outcome             outcome
	wait, remaining     int64
	try                 int
}

// runLink runs a link to its end.
func runLink(t testing.TB, link string) (*Run, []record) {
	t.Helper()
	r, err := Open(link)
	if err != nil {
		t.Fatalf("%s: %v", link, err)
	}
	t.Cleanup(r.Close)
	return r, runOn(r, 100)
}

// runOn runs to the end, so many decisions a step.
func runOn(r *Run, each int) (all []record) {
	buffer := make([]byte, each*RecordSize)
	for {
		n := r.Step(buffer, func() bool { return true })
		if n == 0 {
			return all
		}
		for i := range n {
			all = append(all, recordOf(buffer[i*RecordSize:]))
		}
	}
}

func recordOf(b []byte) record {
	var f [8]int64
	for i := range f {
		f[i] = int64(math.Float64frombits(binary.LittleEndian.Uint64(b[8*i:])))
	}
	return record{int(f[0]), f[1], f[2], f[3], outcome(f[4]), f[5], f[6], int(f[7])}
}

// A preset shows what it says: which limiters exceed their promise.
func TestPresets(t *testing.T) {
	red := map[string][]string{
		"edge":             {"fixed_window"},
		"retry-storm":      {"fixed_window"},
		"top-of-the-hour":  {"fixed_window", "two_windows"},
		"noisy-tenant":     {"fixed_window", "s3"},
		"clock-step":       {"fixed_window"},
		"two-windows":      {"fixed_window"},
		"tokens":           {"fixed_window"},
		"workers-that-die": {"counter"},
		"ahead-of-redis":   {"cached_counter"},
	}
	presets := readPresets(t)
	for _, preset := range presets {
		run, _ := runLink(t, preset.Link)
		audit := run.Audit()
		if !audit.Done || audit.Cut || audit.Decisions < 100 {
			t.Errorf("%s: %+v, want it done within the budget", preset.ID, audit)
		}
		var over []string
		for i, lane := range audit.Lanes {
			if slices.ContainsFunc(lane.Windows, func(w WindowAudit) bool { return w.Over }) {
				over = append(over, run.lanes[i].id)
			}
			if lane.Errors > 0 || lane.Granted+lane.Booked < 5 {
				t.Errorf("%s: %s: %+v", preset.ID, run.lanes[i].id, lane)
			}
		}
		if !slices.Equal(over, red[preset.ID]) {
			t.Errorf("%s: over its promise is %q, want %q", preset.ID, over, red[preset.ID])
		}
	}
	if len(presets) != len(red) {
		t.Errorf("%d presets, want %d", len(presets), len(red))
	}
}

type preset struct{ ID, Title, Text, Link string }

func readPresets(t testing.TB) (presets []preset) {
	t.Helper()
	text, err := os.ReadFile("../../presets.json")
	must(t, err)
	must(t, json.Unmarshal(text, &presets))
	return presets
}

// The first preset is what the page is for: 10 go through "5 a second" at a window's edge.
func TestFirstPreset(t *testing.T) {
	run, _ := runLink(t, readPresets(t)[0].Link)
	lanes := run.Audit().Lanes
	if most := lanes[0].Windows[0].Most; most != 5 {
		t.Errorf("list_log: %d in a window, want 5", most)
	}
	if most := lanes[1].Windows[0].Most; most != 10 {
		t.Errorf("fixed_window: %d in a window, want 10", most)
	}
}

// A denied client leaves, comes back when the reply says, or polls.
func TestDenied(t *testing.T) {
	const link = "lanes=list_log&permits=1&rate=0&calls=0s,100ms&every=300ms&tries=3&denied="
	for denied, want := range map[string][]record{
		"leave": {{0, 0, 7, 1, granted, 0, 0, 1}, {0, 100_000, 10, 1, 0, 900_000, 0, 1}},
		"wait": {{0, 0, 7, 1, granted, 0, 0, 1}, {0, 100_000, 10, 1, 0, 900_000, 0, 1},
			{0, 1_000_000, 10, 1, granted, 0, 0, 2}},
		"poll": {{0, 0, 7, 1, granted, 0, 0, 1}, {0, 100_000, 10, 1, 0, 900_000, 0, 1},
			{0, 400_000, 10, 1, 0, 600_000, 0, 2}, {0, 700_000, 10, 1, 0, 300_000, 0, 3}},
	} {
		if _, got := runLink(t, link+denied); !slices.Equal(got, want) {
			t.Errorf("%s: %v\nwant %v", denied, got, want)
		}
	}
	// s2 says no time to wait, so its callers poll.
	_, got := runLink(t, strings.Replace(link, "list_log", "s2", 1)+"wait")
	if want := (record{0, 400_000, 10, 1, denied, unknown, unknown, 2}); len(got) != 4 || got[2] != want {
		t.Errorf("s2: %v, want %v", got, want)
	}
}

// Booked permits are used after their wait, and count then.
func TestBooked(t *testing.T) {
	run, got := runLink(t, "lanes=list_log&permits=1&rate=0&calls=0s,0s,0s&ahead=1500ms")
	want := []record{
		{0, 0, 7, 1, granted, 0, 0, 1}, {0, 0, 10, 1, booked, 1_000_000, 0, 1}, {0, 0, 1, 1, denied, 2_000_000, 0, 1},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	lane := run.Audit().Lanes[0]
	if lane.Windows[0].Most != 1 || lane.Granted != 1 || lane.Booked != 1 || lane.MedianWait != 0 {
		t.Errorf("%+v", lane)
	}
}

// The server's clock steps, and the clients' clocks differ: only who asks them is misled.
func TestClocks(t *testing.T) {
	_, got := runLink(t, "lanes=list_log&permits=1&rate=0&calls=1s,1.5s&step=1.2s:-10s")
	if last := got[1]; last.outcome != denied || last.wait != 10_500_000 {
		t.Errorf("%v, want denied for the rest of the window and the step", got)
	}
	for lane, over := range map[string]bool{"list_log": false, "s4": true, "tutorial_log": true, "tutorial_bucket": true} {
		run, _ := runLink(t, "lanes="+lane+"&skew=2s&rate=40&for=20s&clients=20")
		if w := run.Audit().Lanes[0].Windows[0]; w.Over != over {
			t.Errorf("%s: %+v, want over: %t", lane, w, over)
		}
	}
}

// A run ends after 50,000 decisions, and says that more were wanted.
func TestBudgetOfARun(t *testing.T) {
	run, got := runLink(t, "lanes=gcra,fixed_window&rate=10000&for=1m")
	if audit := run.Audit(); len(got) != maxDecisions || !audit.Done || !audit.Cut || audit.Decisions != maxDecisions ||
		audit.Until != got[len(got)-1].at {
		t.Errorf("%d decisions: %+v", len(got), audit)
	}
	if !slices.IsSortedFunc(got, func(a, b record) int { return int(a.at - b.at) }) {
		t.Error("the lanes do not advance together")
	}
}

// However a run is cut in steps, it decides the same; audits on the way change nothing.
func TestStepsDoNotMatter(t *testing.T) {
	const link = "lanes=list_log,gcra,s4&denied=wait&ahead=1s&skew=1s&step=3s:-2s&rate=20"
	whole, want := runLink(t, link)
	r, err := Open(link)
	must(t, err)
	defer r.Close()
	var got []record
	buffer := make([]byte, 7*RecordSize)
	for {
		n := r.Step(buffer, func() bool { return len(got)%3 > 0 })
		for i := range n {
			got = append(got, recordOf(buffer[i*RecordSize:]))
		}
		if _, err := r.Stored(0); err != nil || n == 0 {
			break
		}
		r.Audit()
	}
	if !slices.Equal(got, want) || !reflect.DeepEqual(r.Audit(), whole.Audit()) {
		t.Errorf("in steps\n%v\n%+v\nat once\n%v\n%+v", got, r.Audit(), want, whole.Audit())
	}
}

// Of calls at the same time, those that come back are first, in the order in which they came; then the first lane.
func TestTies(t *testing.T) {
	run, got := runLink(t, "lanes=s2,gcra&permits=1&rate=0&calls=0s,0s,0s,100ms&denied=poll&tries=2&clients=1000")
	var order []int64 // lane, client
	for _, r := range got {
		order = append(order, int64(r.lane), r.client)
	}
	var a [4]int64 // the clients in the order of their calls
	for i := range a {
		a[i] = run.arrivals[i].client + 1
	}
	want := []int64{
		0, a[0], 0, a[1], 0, a[2], 1, a[0], 1, a[1], 1, a[2], // all at once: three calls a lane
		0, a[1], 0, a[2], 0, a[3], 1, a[1], 1, a[2], 1, a[3], // after 100 ms
		0, a[3], 1, a[3], // the last one comes back
	}
	if !slices.Equal(order, want) || a[1] == a[2] {
		t.Errorf("%v\nwant %v", order, want)
	}
}
