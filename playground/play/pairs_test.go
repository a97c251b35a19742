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
		"lanes=concurrency,counter&permits=3&calls=0s,1ms,2ms,3ms&hold=1s":                  "0 3 of 3, 0 3 of 3",
		"lanes=concurrency,counter&permits=3&calls=0s,1ms,2ms&hold=1ms":                     "0 1 of 3, 0 1 of 3",
		"lanes=counter&permits=1&calls=0s,1.1s&hold=2s&ttl=1s":                              "0 2 of 1 over",
		"lanes=concurrency&permits=1&calls=0s,900ms&hold=10s&ttl=3s&step=500ms:3s":          "0 2 of 2",
		"lanes=concurrency&permits=1&calls=0s,1.6s&hold=10s&ttl=3s&step=500ms:3s":           "0 1 of 1",
		"lanes=budget&permits=10&cost=6&calls=0s,100ms,1.2s,1.4s&hold=50ms&actual=150":      "1000000 6 of 10",
		"lanes=budget&permits=10&cost=5&calls=0s,100ms,200ms&hold=50ms&actual=0":            "1000000 5 of 10",
		"lanes=budget&permits=10&cost=5&calls=0s,10ms,20ms&hold=50ms&permits2=5&window2=5s": "1000000 5 of 10, 5000000 5 of 5",
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

// Nothing hides a fault of ours: one slot too many, a renewal that is not stored, and a budget that charges too little are red.
func TestFaultyPairsAreRed(t *testing.T) {
	for _, test := range []struct{ link, right, wrong string }{
		{"lanes=concurrency&rate=20&hold=2s", "live < limit)", "live <= limit)"},
		{"lanes=concurrency&rate=20&hold=1300ms&ttl=1s&denied=poll",
			"granted == 1 and not (held and held >= ends)", "granted == 1 and not held"},
		{"lanes=budget&rate=20&cost=2", "local permits = integer(ARGV[3]", "local permits = -1 + integer(ARGV[3]"},
	} {
		run, err := Open(test.link)
		if err != nil {
			t.Fatal(err)
		}
		defer run.Close()
		l := run.lanes[0]
		faulty := strings.Replace(l.source, test.right, test.wrong, 1)
		if l.script, err = lua51.Compile("faulty", faulty); err != nil || faulty == l.source {
			t.Fatal("it is not faulty", err)
		}
		runOn(run, 100)
		if w := run.Audit().Lanes[0].Windows[0]; !w.Over {
			t.Errorf("%s with %s: %+v, want it over", test.link, test.wrong, w)
		}
	}
}

// The leases of slots and the charges of a budget are shown as what they are.
func TestStoredOfPairs(t *testing.T) {
	run, _ := runLink(t, "lanes=concurrency,budget&permits=5&rate=0&calls=0s,10ms,20ms&hold=15ms&ttl=1s&cost=2&actual=50")
	slots, err := run.Stored(0)
	if err != nil || len(slots.Keys) != 0 {
		t.Errorf("%s, %v; want no leases after the last release", JSON(slots), err)
	}
	detail, err := run.Detail(0, 2) // the third is granted when the first has released
	if err != nil {
		t.Fatal(err)
	}
	if leases := detail.Stored.Keys[0].Leases; leases == nil || leases.Slots != 5 ||
		!slices.Equal(leases.Ends, []int64{1_010_000}) || detail.Stored.Keys[0].Text != "1 leases" {
		t.Errorf("%s: want one lease", JSON(detail.Stored))
	}
	budget, err := run.Stored(1)
	if err != nil || len(budget.Keys) != 2 || budget.Keys[0].Cells == nil || budget.Keys[1].Text != "1 permits, settled" {
		t.Errorf("%s, %v", JSON(budget), err)
	}
}
