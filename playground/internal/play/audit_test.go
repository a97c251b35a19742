package play

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// Over random links ours never grant more than they promise, and the audit is what a naive count says.
func TestRandomLinks(t *testing.T) {
	for i := range uint64(300) {
		link := randomLink(i)
		run, records := runLink(t, link)
		audit := run.Audit()
		for lane, l := range run.lanes {
			for w, got := range audit.Lanes[lane].Windows {
				most, from := naive(run, records, lane, got.Window)
				if l.tally.peaks { // TestPeaks has what they are
					if got.Over && l.kind == kindOurs {
						t.Errorf("%s: %s: %+v: more than it promises", link, l.id, got)
					}
					continue
				}
				if !got.Over && (got.Most != most || got.From != from) {
					t.Errorf("%s: %s: %+v, want %d from %d on", link, l.id, got, most, from)
				}
				if got.Over && (got.Most > most || got.Most <= run.scenario.Limits[w].Permits) {
					t.Errorf("%s: %s: %+v is over, and the fullest has %d", link, l.id, got, most)
				}
				if l.kind == kindOurs && (got.Over || most > promised(run.scenario, l.id, w)) {
					t.Errorf("%s: %s: %+v: more than it promises", link, l.id, got)
				}
			}
			isBehind := l.id == "quota" && len(run.scenario.Steps) > 0 // by more than its short periods
			if got := audit.Lanes[lane]; l.kind == kindOurs && got.Errors > 0 && !isBehind {
				t.Errorf("%s: %s: %d errors, the first is %s", link, l.id, got.Errors, got.Error)
			}
		}
		run.Close()
	}
}

// promised is what docs/guarantees.md says of a run without steps that matter; with them it allows one limit more for
// each.
func promised(s *Scenario, id string, window int) int64 {
	limit, length := s.Limits[window].Permits, s.Limits[window].Window
	switch id {
	case "quota":
		limit, length = 2*limit, 0
	case "gcra":
		limit += s.Burst
	case "ahead":
		limit += limit * s.Error / 100
	}
	steps := int64(0)
	for _, step := range s.Steps {
		if step.By > 0 || step.By < -length-60*second {
			steps++
		}
	}
	return limit * (1 + steps)
}

// naive counts in each window that begins with a grant, without what was given back.
func naive(run *Run, records []record, lane int, window int64) (most, from int64) {
	byKey, given, calls := map[int64][]record{}, map[int]int64{}, run.lanes[lane].calls
	records = slices.DeleteFunc(slices.Clone(records), func(r record) bool { return r.lane != lane })
	for i, r := range records {
		if r.outcome == ended && run.lanes[lane].follows != reports {
			given[calls[i].arrival] = r.permits
		}
	}
	for i, r := range records {
		if r.permits -= given[calls[i].arrival]; r.permits > 0 && (r.outcome == granted || r.outcome == booked) {
			key := r.client
			if !run.scenario.KeyPerClient {
				key = 0
			}
			r.at += r.wait
			byKey[key] = append(byKey[key], r)
		}
	}
	for _, grants := range byKey {
		for _, first := range grants {
			inside := int64(0)
			for _, r := range grants {
				if r.at >= first.at && r.at < first.at+window {
					inside += r.permits
				}
			}
			if inside > most || inside == most && inside > 0 && first.at < from {
				most, from = inside, first.at
			}
		}
	}
	return most, from
}

// randomLink makes a link from a number.
func randomLink(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 15))
	one := func(options ...string) string { return options[r.IntN(len(options))] }
	lanes := slices.Clone(laneIDs()[:len(limiters)-1])
	r.Shuffle(len(lanes), func(i, j int) { lanes[i], lanes[j] = lanes[j], lanes[i] })
	window := one("1s", "1s", "100ms", "2.5s", "1m")
	lanes = lanes[:1+r.IntN(4)]
	permits, processes, part := 1+r.IntN(12), 1+r.IntN(3), 1+r.IntN(2)
	if slices.Contains(lanes, "ahead") { // or no process may be ahead
		permits += 2 * processes * part
	}
	link := fmt.Sprintf("lanes=%s&permits=%d&window=%s&seed=%d&for=%s&clients=%d&processes=%d&error=%d",
		strings.Join(lanes, ","), permits, window, r.IntN(1000), one("1s", "3s", "8s"), 1+r.IntN(20), processes, 100/part)
	for _, parameter := range []string{
		"rate=" + one("0.5", "3", "20", "30"), "burstiness=" + one("0", "1", "5", "40"), "noisy=" + one("20", "90"),
		"key=client", "denied=" + one("wait", "poll"), "every=" + one("10ms", "250ms"), "tries=" + one("2", "5"),
		"ahead=" + one("100ms", "2s", "60s"), "skew=" + one("10ms", "3s"), "paint=" + one("0a0z", "9876543210"),
		"hold=" + one("1ms", "300ms", "3s"), "holdmax=5s", "actual=" + one("0", "50", "100", "180"), "actualmax=300",
		"lost=" + one("5", "60"), "unused=" + one("20", "100"), "ttl=" + one("20ms", "900ms"),
		"bunch=" + one("1s:8", "500ms:3"), "calls=1s,1s,1.000001s,1.9s", fmt.Sprintf("burst=%d", permits+r.IntN(9)),
		fmt.Sprintf("cost=%d", 1+r.IntN(permits)), fmt.Sprintf("costmax=%d", permits),
		"step=" + one("1s:-500ms", "1.5s:-10s", "1s:-3m", "1s:2s", "1.2s:-1s,1.4s:-30s,3s:5s"),
		fmt.Sprintf("permits2=%d&window2=%s", permits+r.IntN(20), one("5s", "10s", "300ms")),
	} {
		if r.IntN(3) == 0 {
			link += "&" + parameter
		}
	}
	return link
}

// An audit finds the fullest window wherever it lies, in whatever order the grants come.
func TestFullest(t *testing.T) {
	g := func(at, permits int64) grant { return grant{at: at, permits: permits} }
	for _, test := range []struct {
		name       string
		grants     []grant
		most, from int64
	}{
		{"none", nil, 0, 0},
		{"a window is half open", []grant{g(0, 2), g(10, 3)}, 3, 10},
		{"the last microsecond counts", []grant{g(0, 2), g(9, 3)}, 5, 0},
		{"the earliest of several", []grant{g(5, 1), g(20, 1)}, 1, 5},
		{"booked ahead of the next", []grant{g(0, 1), g(30, 2), g(25, 2), g(1, 1)}, 4, 25},
		{"equal times", []grant{g(7, 1), g(7, 1), g(7, 1)}, 3, 7},
	} {
		f := &fullest{promise: &promise{Limit: Limit{Permits: 9, Window: 10}}}
		for _, g := range test.grants {
			f.grant(g)
			f.count()
		}
		if f.most.permits != test.most || f.most.from != test.from || f.worst.permits != 0 {
			t.Errorf("%s: %+v, want %d from %d on, and none above the limit", test.name, f, test.most, test.from)
		}
	}
}

func TestMedian(t *testing.T) {
	var m median
	for _, test := range []struct{ add, want int64 }{
		{5, 5}, {0, 0}, {7, 5}, {3, 3}, {0, 3}, {0, 0}, {9, 3}, {9, 3}, {9, 5},
	} {
		if m.add(test.add); m.value() != test.want {
			t.Errorf("%+v: %d, want %d", m, m.value(), test.want)
		}
	}
	if (&median{}).value() != 0 {
		t.Error("the median of nothing is not 0")
	}
}

// A step back is harmless up to a window and 60 s, also in several parts; every other one allows one limit more, where
// grants before it and after it are in one window.
func TestPromises(t *testing.T) {
	for _, test := range []struct {
		link        string
		first, last int64
		want        []int64
	}{
		{"lanes=list_log,gcra,fixed_window,tutorial_bucket&burst=7", 0, 9, []int64{5, 12, 5, 10}},
		{"lanes=slice_ring&permits2=20&window2=10s", 0, 9, []int64{5, 20}},
		{"lanes=ahead,cached_counter&permits2=20&window2=10s&error=30", 0, 9, []int64{6, 26, 5}},
		{"lanes=ahead&step=1s:1us&error=50", 999_999, 1_000_000, []int64{14}},
		{"lanes=list_log,gcra,fixed_window,tutorial_log&step=1s:1us", 999_999, 1_000_000, []int64{10, 15, 10, 5}},
		{"lanes=list_log&step=1s:1us", 1_000_000, 1_999_999, []int64{5}},
		{"lanes=list_log&step=1s:1us", 1, 999_999, []int64{5}},
		{"lanes=list_log,gcra&step=1s:1us&ahead=1s", 1_999_999, 2_000_000, []int64{10, 20}},
		{"lanes=list_log&step=1s:1us&ahead=1s", 2_000_000, 2_000_001, []int64{5}},
		{"lanes=list_log&step=1s:-61s", 999_999, 1_000_000, []int64{5}},
		{"lanes=list_log&step=1s:-61.000001s", 999_999, 1_000_000, []int64{10}},
		{"lanes=list_log&step=1s:-31s,2s:-31s", 1_999_999, 2_000_000, []int64{5}},
		{"lanes=list_log&step=1s:-31s,2s:-31.000001s", 1_999_999, 2_000_000, []int64{10}},
		{"lanes=list_log&step=1s:-50s,2m:-50s&for=3m", 119_999_999, 120_000_000, []int64{5}},
		{"lanes=list_log&step=1s:1s,1.5s:1s", 999_999, 1_600_000, []int64{15}},
	} {
		s, err := Parse(test.link)
		must(t, err)
		var got []int64
		for _, id := range s.Lanes {
			for _, p := range s.promises(limiterOf(id)) {
				got = append(got, p.allowed(test.first, test.last))
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.link, got, test.want)
		}
	}
}

// Nothing hides a fault of ours: a list_log that grants one too many is red, also beside a step of the clock.
func TestFaultOfOursIsRed(t *testing.T) {
	run, err := Open("lanes=list_log&rate=20&step=9s:1s")
	must(t, err)
	defer run.Close()
	l := run.lanes[0]
	faulty := strings.Replace(l.source, "local surplus = length + wanted - limit", "local surplus = length - limit", 1)
	if l.script, err = lua51.Compile("faulty", faulty); err != nil || faulty == l.source {
		t.Fatal("it is not faulty", err)
	}
	runOn(run, 100)
	if w := run.Audit().Lanes[0].Windows[0]; w.Most != 6 || !w.Over {
		t.Errorf("%+v, want 6, over", w)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
