package scripttest_test

import (
	"crypto/sha1"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/scripttest"
)

// substitute is a testing.TB under which a source compiles to another script: one that is counted, or a mutant.
type substitute struct {
	testing.TB
	source string
	script *scripttest.Script
}

// A check is one of the fast tests of a script.
type check struct {
	name string
	run  func(t testing.TB)
}

// Every fast test of every script. The same tests count what they reach, and are what mutants must fail.
func TestChecks(t *testing.T) {
	eachTable(t, func(t *testing.T, tab table) {
		for _, c := range tab.checks() {
			t.Run(c.name, func(t *testing.T) { c.run(t) })
		}
	})
}

func eachTable(t *testing.T, test func(t *testing.T, tab table)) {
	for _, tab := range tables {
		t.Run(tab.script.Name, func(t *testing.T) { test(t, tab) })
	}
}

// checks are the fast tests that a script must pass, those that notice most first.
func (tab table) checks() (all []check) {
	for _, tl := range tab.timelines {
		all = append(all, tab.checkTimeline(tl, "", startModelled(true)))
	}
	all = append(all,
		check{"malformed calls", tab.checkMalformed},
		check{"leading zeros", tab.checkLeadingZeros},
		check{"ranges", tab.checkRanges},
		check{"costs", tab.checkCosts},
		check{"withheld", tab.checkWithheld},
	)
	for _, tl := range tab.timelines {
		all = append(all,
			tab.checkTimeline(tl, ", like miniredis", func(t testing.TB) target { return startLikeMiniredis(t, false) }),
			tab.checkTimeline(tl, ", without expiry", startModelled(false)),
		)
	}
	all = append(all, narrower(tab.script)...)
	return append(all, ownChecks(tab.script)...)
}

// ownChecks are those that are not made of the table.
func ownChecks(script *sluice.Script) []check {
	return map[*sluice.Script][]check{
		&zsetLogV1Script: {
			{"bounded removal", checkGrantsRemoveABoundedNumber},
			{"an id that is a time", checkTakesBackNoTime},
		},
		&listLogV1Script: {
			{"bounded removal", listLogV1.checkRemovesABoundedNumber},
			{"unreadable", listLogV1.checkFindsUnreadable},
		},
		&sliceRingV1Script: {
			{"waits", checkWaits},
			{"gaps", sliceRingV1.checkRingGaps},
			{"damaged", sliceRingV1.checkRingDamage},
			{"bounds", sliceRingV1.checkBounds},
			{"struct", sliceRingV1.checkPacksWithStruct},
		},
		&sliceRingReturnV1Script: {
			{"damaged", checkReturnsToDamage(&sliceRingReturnV1Script, "4102444803000000", "2", "1000000", "4")},
		},
		&listLogReturnV1Script: {
			{"looks back", checkReturnLooksBack1000},
		},
		&budgetV1Script: {
			{"a refused id", checkRefusedID},
			{"struct", budgetV1.checkPacksWithStruct},
		},
		&budgetSettleV1Script: {
			{"a refused id", checkRefusedID},
			{"damaged", checkReturnsToDamage(&budgetSettleV1Script, "9000000", "1", "1", "1000000", "4")},
			{"damaged, charged", checkReturnsToDamage(&budgetSettleV1Script, "9000000", "3", "1", "1000000", "4")},
			{"struct", budgetSettleV1.checkPacksWithStruct},
		},
		&tokenBucketV1Script: {
			{"no expiry", checkBucketPushesNothing},
			{"struct", tokenBucketV1.checkPacksWithStruct},
			{"bounded removal", checkBucketRemovesABoundedNumber},
		},
		&concurrencyV1Script: {
			{"bounded removal", checkGrantsRemoveEndedLeases},
		},
		&gcraV1Script: {
			{"struct", gcraV1.checkPacksWithStruct},
		},
		&gcraManyV1Script: {
			{"struct", gcraManyV1.checkPacksWithStruct},
			{"most keys", gcraManyV1.checkMostKeys},
		},
		&listLogManyV1Script: {
			{"bounded removal", listLogManyV1.checkRemovesABoundedNumber},
			{"unreadable", listLogManyV1.checkFindsUnreadable},
			{"most keys", listLogManyV1.checkMostKeys},
			{"long searches", checkLongSearchesEnd},
		},
		&sliceRingManyV1Script: {
			{"gaps", sliceRingManyV1.checkRingGaps},
			{"damaged", sliceRingManyV1.checkRingDamage},
			{"bounds", sliceRingManyV1.checkBounds},
			{"struct", sliceRingManyV1.checkPacksWithStruct},
			{"most keys", sliceRingManyV1.checkMostKeys},
		},
	}[script]
}

func startLikeMiniredis(t testing.TB, neverExpire bool) *harness {
	h := startHarness(t, neverExpire)
	h.redis.LikeMiniredis()
	return h
}

func (tab table) checkTimeline(tl timeline, where string, start func(testing.TB) target) check {
	return check{tl.name + where, func(t testing.TB) {
		for _, failure := range tab.play(start(t), tl) {
			t.Error(failure)
		}
	}}
}

// The struct library does what it can do where it is there: by hand it takes more instructions.
func (tab table) checkPacksWithStruct(t testing.TB) {
	grant, look := "1000 10s 0 1 0", "1000 10s 0 0 0"
	switch tab.script {
	case &gcraV1Script, &gcraManyV1Script:
		grant, look = "1000 10s 10 1 0", "1000 10s 10 0 0"
	case &sliceRingV1Script, &sliceRingManyV1Script:
		grant, look = "1 0 1s 3 1000", "0 0 1s 3 1000"
	case &budgetV1Script:
		grant, look = "1h 1 1s 3 1000", "1h 0 1s 3 1000"
	case &budgetSettleV1Script:
		grant, look = "1h 1 1 1s 3", "1h 0 1 1s 3"
	}
	instructions := func(h *harness, do string) int {
		h.setTime(epoch)
		keys, args := tab.asked(do)
		return h.result(tab.script, false, keys, args).Instructions
	}
	with, byHand := startHarness(t, false), startLikeMiniredis(t, false)
	// The first call packs, the second reads as well, and the look only reads.
	for _, c := range []struct {
		do   string
		more int
	}{{grant, 20}, {grant, 40}, {look, 20}} {
		if saved := instructions(byHand, c.do) - instructions(with, c.do); saved < c.more {
			t.Errorf("%s, %s: struct saves %d instructions, want %d", tab.script.Name, c.do, saved, c.more)
		}
	}
}

var tables = []table{
	zsetLogV1, listLogV1, sliceRingV1, tokenBucketV1, tokenBucketSetV1, gcraV1, sliceRingReturnV1, listLogReturnV1,
	zsetLogReturnV1, budgetV1, budgetSettleV1, concurrencyV1, concurrencyReleaseV1, quotaV1, quotaReturnV1, gcraManyV1,
	listLogManyV1, sliceRingManyV1,
}

// Every script is in every list that tests take their cases from. Scripts that grant nothing have no model subject of
// their own.
func TestEveryScriptIsListed(t *testing.T) {
	for _, script := range sluice.All() {
		file := func(of *sluice.Script) bool { return of.File == script.File }
		own := listed(file)
		lists := map[string]bool{
			"tables (checks_test.go)": own != nil,
			"costsOf (costs_test.go)": costsOf(own) != nil,
		}
		if decides(&script) {
			lists["subjects (model_sequence_test.go)"] = slices.ContainsFunc(subjects,
				func(s subject) bool { return file(s.script) })
			lists["broken (model_broken_test.go)"] = slices.ContainsFunc(broken,
				func(f fault) bool { return f.script == script.Name })
		}
		for list, has := range lists {
			if !has {
				t.Errorf("%s is not in %s", script.File, list)
			}
		}
	}
}

// listed is the script of a table, by which the other lists know it.
func listed(wanted func(*sluice.Script) bool) *sluice.Script {
	for _, tab := range tables {
		if wanted(tab.script) {
			return tab.script
		}
	}
	return nil
}

func TestTimelinesOnMiniredis(t *testing.T) {
	eachTable(t, func(t *testing.T, tab table) {
		tab.run(t, func(t *testing.T) target { return startMiniredis(t) })
	})
}

func TestServerTimelines(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		eachTable(t, func(t *testing.T, tab table) {
			tab.run(t, func(t *testing.T) target {
				r := connectServer(t, server.Addr)
				r.do("FLUSHALL")
				return r
			})
		})
	})
}

func sha1Hex(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

// A step back is judged by the window that a permit was granted under, also where a call with a narrower one meets it.
// The TTL tells which it was: these timelines need one that follows the clock, which stock miniredis does not have.
// (gcra and slice_ring store what they need.)
var narrowerTables = []table{
	narrowerLog,
	manyOf(narrowerLog, &listLogManyV1Script, nil),
	{&zsetLogV1Script, zsetLogV1.keys, withIDs([]timeline{{"a narrower window after a step back", []line{
		{"0s", `1 60s 1 0 *`, "1 0 0 60s"},
		{"0s", `1 60s 1 60s *`, "1 0 60s 120s"},
		{"-120.001s", `1 1ms 1 0 *`, "0 0 180.002s 180.002s"},
		{"-120.002s", `1 1ms 0 0 *`, "0 1 0 0"},
	}}}), nil, 0},
	{&listLogReturnV1Script, listLogReturnV1.keys, []timeline{{"a step back is judged by the newest that is left", []line{
		{"0s", "list_log 1 60s 1 0", "1 0 0 60s"},
		{"0s", "list_log 1 60s 1 60s", "1 0 60s 120s"},
		{"0s", "@60s 1", "1"},
		{"-180.001s", "list_log 1 60s 0 0", "0 0 240.001s 240.001s"},
		{"-180.002s", "list_log 1 60s 0 0", "0 1 0 0"},
	}}}, nil, 0},
	{&zsetLogReturnV1Script, zsetLogReturnV1.keys, []timeline{{"a step back is judged by the newest that is left", []line{
		{"0s", "zset_log 1 60s 1 0 a", "1 0 0 60s"},
		{"0s", "zset_log 1 60s 1 60s b", "1 0 60s 120s"},
		{"0s", "b 1", "1"},
		{"-180.001s", "zset_log 1 60s 0 0 c", "0 0 240.001s 240.001s"},
		{"-180.002s", "zset_log 1 60s 0 0 c", "0 1 0 0"},
	}}}, nil, 0},
	{&tokenBucketV1Script, tokenBucketV1.keys, []timeline{{"a narrower interval after a step back", []line{
		{"0s", "1 60s 0 1 0", "1 0 0 60s 1 60s"},
		{"0s", "1 60s 0 1 60s", "1 0 60s 120s 1 60s"},
		{"", "!HSET $1 interval 1000", "0"},
		{"-120.001s", "1 60s 0 1 0", "0 0 180.002s 180.002s 1 1ms"},
		{"-120.002s", "1 60s 0 0 0", "0 1 0 0 1 1ms"},
	}}}, nil, 0},
}

var narrowerLog = table{&listLogV1Script, listLogV1.keys, []timeline{{"a narrower window after a step back", []line{
	{"0s", "1 60s 1 0", "1 0 0 60s"},
	{"0s", "1 60s 1 60s", "1 0 60s 120s"},
	{"-120.001s", "1 1ms 1 0", "0 0 180.002s 180.002s"},
	{"-120.002s", "1 1ms 0 0", "0 1 0 0"},
}}}, nil, 0}

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
				all = append(all, tab.checkTimeline(tl, "", startModelled(true)))
			}
		}
	}
	return all
}
