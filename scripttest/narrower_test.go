package scripttest_test

import (
	"testing"

	"github.com/sluice-redis/sluice"
)

// A step back is judged by the window that a permit was granted under, also where a call with a narrower one
// meets it. The TTL tells which it was: these time lines need one that follows the clock, which stock
// miniredis does not have. (gcra and slice_ring store what they need.)
var narrowerTables = []table{
	{&sluice.ListLogV1, listLogV1.keys, []timeline{{"a narrower window after a step back", []line{
		{"0s", "1 60s 1 0", "1 0 0 60s"},
		{"0s", "1 60s 1 60s", "1 0 60s 120s"},
		{"-120s", "1 1ms 1 0", "0 0 180.001s 180.001s"},
		{"-120.001s", "1 1ms 0 0", "0 1 0 0"},
	}}}},
	{&sluice.ZSetLogV1, zsetLogV1.keys, withIDs([]timeline{{"a narrower window after a step back", []line{
		{"0s", `1 60s 1 0 *`, "1 0 0 60s"},
		{"0s", `1 60s 1 60s *`, "1 0 60s 120s"},
		{"-120s", `1 1ms 1 0 *`, "0 0 180.001s 180.001s"},
		{"-120.001s", `1 1ms 0 0 *`, "0 1 0 0"},
	}}})},
	{&sluice.TokenBucketV1, tokenBucketV1.keys, []timeline{{"a narrower interval after a step back", []line{
		{"0s", "1 60s 0 1 0", "1 0 0 60s 1 60s"},
		{"0s", "1 60s 0 1 60s", "1 0 60s 120s 1 60s"},
		{"", "!HSET $1 interval 1000", "0"},
		{"-120s", "1 60s 0 1 0", "0 0 180.001s 180.001s 1 1ms"},
		{"-120.001s", "1 60s 0 0 0", "0 1 0 0 1 1ms"},
	}}}},
}

func TestNarrowerWindows(t *testing.T) {
	for _, tab := range narrowerTables {
		t.Run(tab.script.Name, func(t *testing.T) {
			tab.run(t, func(t *testing.T) target { return startHarness(t, false) })
		})
	}
}

func TestServerClockNarrowerWindows(t *testing.T) {
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		for _, tab := range narrowerTables {
			t.Run(tab.script.Name, func(t *testing.T) {
				tab.run(t, func(t *testing.T) target {
					s.do("FLUSHALL")
					return s
				})
			})
		}
	})
}

// narrower are the checks of a script among them.
func narrower(script *sluice.Script) (all []check) {
	for _, tab := range narrowerTables {
		if tab.script == script {
			for _, tl := range tab.timelines {
				all = append(all, tab.checkTimeline(tl, "", startHarness))
			}
		}
	}
	return all
}
