package play

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/lua51"
)

// What follows a grant: each lane's calls, with the permits that they moved.
func TestPairs(t *testing.T) {
	words := []string{"denied", "granted", "booked", "failed", "ended", "renewed", "late"}
	for _, test := range []struct{ link, want string }{
		// Slots: the second waits for the first one's release. A lease of 60 ms is renewed every 20 ms.
		{"lanes=concurrency&permits=1&calls=0s,10ms&hold=50ms&ttl=60ms&denied=poll&every=50ms",
			"0 granted 1, 10 denied 1, 20 renewed 1, 40 renewed 1, 50 ended 1, " +
				"60 granted 1, 80 renewed 1, 100 renewed 1, 110 ended 1"},
		// Who dies renews until then. Its slot is free when its lease has ended.
		{"lanes=concurrency&permits=1&calls=0s,10ms&hold=50ms&ttl=60ms&denied=wait&lost=100",
			"0 granted 1, 10 denied 1, 20 renewed 1, 40 renewed 1, 60 denied 1, 100 granted 1, 120 renewed 1, 140 renewed 1"},
		// The server's clock steps on: the lease has ended, and its holder knows at the next renewal.
		{"lanes=concurrency&permits=1&calls=0s,15ms&hold=50ms&ttl=60ms&step=10ms:1s",
			"0 granted 1, 15 granted 1, 20 late 0, 35 renewed 1, 55 renewed 1, 65 ended 1"},
		{"lanes=concurrency&permits=1&calls=0s,15ms&hold=12ms&ttl=60ms&step=10ms:1s",
			"0 granted 1, 12 late 0, 15 granted 1, 27 ended 1"},
		// A counter knows no holders: who dies is counted, until the key expires.
		{"lanes=counter&permits=2&calls=0s,10ms,20ms,80ms&hold=25ms&ttl=60ms",
			"0 granted 1, 10 granted 1, 20 denied 1, 25 ended 1, 35 ended 1, 80 granted 1, 105 ended 1"},
		{"lanes=counter&permits=1&calls=0s,20ms,60ms,61ms&hold=1h&ttl=60ms",
			"0 granted 1, 20 denied 1, 60 denied 1, 61 granted 1, 3600000 ended 1, 3600061 ended 1"},
		// A budget: half of the estimate comes back; a debt denies; an ID that is settled too late is not known.
		{"lanes=budget&permits=10&cost=8&calls=0s,10ms,60ms&hold=50ms&actual=50",
			"0 granted 8, 10 denied 8, 50 ended 4, 60 denied 8"},
		{"lanes=budget&permits=10&cost=4&calls=0s,10ms,60ms,1.06s,1.2s&hold=50ms&actual=300",
			"0 granted 4, 10 granted 4, 50 ended 12, 60 ended 12, 60 denied 4, 1060 denied 4, 1200 granted 4, 1250 ended 12"},
		{"lanes=budget&permits=10&cost=8&calls=0s,60ms&hold=50ms&ttl=40ms&actual=0", "0 granted 8, 50 late 0, 60 denied 8"},
		{"lanes=budget&permits=10&calls=0s&hold=50ms&lost=100", "0 granted 1"},
		// What was not used is given back, and granted again; of a booking, after it is due.
		{"lanes=list_log&permits=2&cost=2&calls=0s,10ms,60ms&hold=50ms&unused=100",
			"0 granted 2, 10 denied 2, 50 ended 2, 60 granted 2, 110 ended 2"},
		{"lanes=zset_log&permits=2&cost=2&calls=0s,10ms,60ms&hold=50ms&unused=100&ahead=1s",
			"0 granted 2, 10 booked 2, 50 ended 2, 60 denied 2, 1050 ended 2"},
		{"lanes=slice_ring&permits=2&cost=2&calls=0s,10ms,60ms&hold=50ms&unused=100",
			"0 granted 2, 10 denied 2, 50 ended 2, 60 granted 2, 110 ended 2"},
		{"lanes=gcra&permits=2&cost=2&calls=0s&unused=100", "0 granted 2"},
	} {
		_, records := runLink(t, test.link+"&rate=0")
		var got []string
		for _, r := range records {
			got = append(got, fmt.Sprint(r.at/1000, " ", words[r.outcome], " ", r.permits))
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%s:\n%s\nwant\n%s", test.link, got, test.want)
		}
	}
}

// The audit of slots counts holders at work, of a budget what is charged when one is granted.
func TestPeaks(t *testing.T) {
	for link, want := range map[string]string{
		"lanes=concurrency,counter&permits=3&calls=0s,1ms,2ms,3ms&hold=1s":             "0 3 of 3, 0 3 of 3",
		"lanes=concurrency,counter&permits=3&calls=0s,1ms,2ms&hold=1ms":                "0 1 of 3, 0 1 of 3",
		"lanes=counter&permits=1&calls=0s,1.1s&hold=2s&ttl=1s":                         "0 2 of 1 over",
		"lanes=concurrency&permits=1&calls=0s,900ms&hold=10s&ttl=3s&step=500ms:3s":     "0 2 of 2",
		"lanes=concurrency&permits=1&calls=0s,1.6s&hold=10s&ttl=3s&step=500ms:3s":      "0 1 of 1",
		"lanes=budget&permits=10&cost=6&calls=0s,100ms,1.2s,1.4s&hold=50ms&actual=150": "1000000 6 of 10",
		"lanes=budget&calls=0s,1ms,2ms,500ms&hold=10ms&actual=1000&step=100ms:3s":      "1000000 4 of 10",
		"lanes=list_log&permits=2&calls=0s,1ms,100ms,101ms&hold=50ms&unused=100":       "1000000 2 of 2",
		"lanes=budget&permits=10&cost=5&calls=0s,100ms,200ms&hold=50ms&actual=0":       "1000000 5 of 10",
		"lanes=budget&permits=10&cost=5&calls=0s,9ms&hold=50ms&permits2=5&window2=5s":  "1000000 5 of 10, 5000000 5 of 5",
	} {
		run, _ := runLink(t, link+"&rate=0")
		var got []string
		for _, lane := range run.Audit().Lanes {
			for _, w := range lane.Windows {
				text := fmt.Sprint(w.Window, " ", w.Most, " of ", w.Promised)
				if w.Over {
					text += " over"
				}
				got = append(got, text)
			}
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: %s, want %s", link, got, want)
		}
	}
}

// Nothing hides a fault of ours: a slot too many, a renewal that is not stored, a charge that is too small.
func TestFaultyPairsAreRed(t *testing.T) {
	for _, test := range []struct{ link, right, wrong string }{
		{"lanes=concurrency&rate=20&hold=2s", "live < limit)", "live <= limit)"},
		{"lanes=concurrency&rate=20&hold=1300ms&ttl=1s&denied=poll",
			"granted == 1 and not (held and held >= ends)", "granted == 1 and not held"},
		{"lanes=budget&rate=20&cost=2", "local permits = integer(ARGV[2]", "local permits = -1 + integer(ARGV[2]"},
		// A second script that says more than it did, or less.
		{"lanes=slice_ring&rate=40&permits=20&unused=30&hold=50ms&denied=poll&ahead=1s", "math.min(surplus,",
			"math.min(5 * surplus,"},
		{"lanes=budget&rate=20&actual=500&hold=10ms", "charge, counts_before = permits - estimate,",
			"charge, counts_before = math.min(permits - estimate, 0),"},
		{"lanes=budget&rate=20&actual=50&cost=4&hold=10ms", "math.min(surplus,", "math.min(2 * surplus,"},
		{"lanes=ahead&rate=300&permits=20&processes=1&error=50&for=1s", "local charge = reported + granted", "local charge = granted"},
		// Beside a step of the clock that excuses nothing any more, or nothing at all.
		{"lanes=concurrency&permits=2&rate=0&calls=0s,50s,50.1s,50.2s&hold=1h&ttl=3s&for=1m&step=1s:1ms", "live < limit)",
			"live <= limit + 1)"},
		{"lanes=slice_ring&rate=0&ahead=60s&step=1s:1ms&calls=30s,30.01s,30.02s,30.03s,30.04s,30.05s,30.06s&for=1m",
			"limits[i] - wanted", "limits[i] + 3 - wanted"},
		// All is given back, but not yet when it is too much.
		{"lanes=list_log&rate=50&unused=100&hold=100ms", "local limit = integer(ARGV[1]",
			"local limit = 2 * integer(ARGV[1]"},
	} {
		run, err := Open(test.link)
		must(t, err)
		defer run.Close()
		l := run.lanes[0]
		source, script := l.source, &l.script
		if !strings.Contains(source, test.right) {
			source, script = l.endsWith.Source, &l.second
		}
		faulty := strings.Replace(source, test.right, test.wrong, 1)
		if *script, err = lua51.Compile("faulty", faulty); err != nil || faulty == source {
			t.Fatal("it is not faulty", test.wrong, err)
		}
		if l.endsWith == nil {
			l.second = l.script
		}
		runOn(run, 100)
		if w := run.Audit().Lanes[0].Windows[0]; !w.Over {
			t.Errorf("%s with %s: %+v, want it over", test.link, test.wrong, w)
		}
	}
}

// A slot that is gone before its lease has ended is an error of the lane, but not where the clock has stepped on.
func TestLostSlotsAreErrors(t *testing.T) {
	const link = "lanes=concurrency&rate=20&hold=300ms&holdmax=3s&ttl=1s&denied=poll"
	run, err := Open(link)
	must(t, err)
	defer run.Close()
	l := run.lanes[0]
	frees := `redis.pcall("ZREM", holders, redis.call("ZRANGE", holders, "0", "0")[1])`
	faulty := strings.Replace(l.endsWith.Source, `redis.pcall("ZREM", holders, id)`, frees, 1)
	if l.second, err = lua51.Compile("faulty", faulty); err != nil || faulty == l.endsWith.Source {
		t.Fatal("it is not faulty", err)
	}
	runOn(run, 100)
	if got := run.Audit().Lanes[0]; got.Errors == 0 || got.Error != errLostEarly.Error() {
		t.Errorf("%+v, want errors: a release frees the slot of another", got)
	}
	stepped, _ := runLink(t, link+"&step=1s:2s")
	if got := stepped.Audit().Lanes[0]; got.Errors > 0 || got.Late == 0 {
		t.Errorf("%+v, want slots that are lost to the step, and no errors", got)
	}
}

// The leases of slots and the charges of a budget are shown as what they are.
func TestStoredOfPairs(t *testing.T) {
	run, _ := runLink(t, "lanes=concurrency,budget&permits=5&rate=0&calls=0s,10ms,20ms&hold=15ms&ttl=1s&cost=2&actual=50")
	slots, err := run.Stored(0)
	if err != nil || len(slots.Keys) != 0 {
		t.Errorf("%s, %v; want no leases after the last release", JSON(slots), err)
	}
	detail, err := detailOf(run, 0, 2) // the third is granted when the first has released
	must(t, err)
	if leases := detail.Stored.Keys[0].Leases; leases == nil || leases.Slots != 5 ||
		!slices.Equal(leases.Ends, []int64{1_010_000}) || detail.Stored.Keys[0].Text != "1 leases" {
		t.Errorf("%s: want one lease", JSON(detail.Stored))
	}
	budget, err := run.Stored(1)
	if err != nil || len(budget.Keys) != 2 || budget.Keys[1].Cells == nil || budget.Keys[0].Text != "1 permits, settled" {
		t.Errorf("%s, %v", JSON(budget), err)
	}
}
