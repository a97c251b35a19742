package scripttest_test

import (
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

// substitute is a testing.TB under which a source compiles to another script: one that is counted, or a
// mutant.
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

// checks are the fast tests that a script must pass, those that notice most first.
func (tab table) checks() (all []check) {
	for _, tl := range tab.timelines {
		all = append(all, tab.checkTimeline(tl, "", startHarness))
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
			tab.checkTimeline(tl, ", like miniredis", startLikeMiniredis),
			tab.checkTimeline(tl, ", without expiry", startForgetful),
		)
	}
	all = append(all, narrower(tab.script)...)
	return append(all, ownChecks(tab.script)...)
}

// ownChecks are those that are not made of the table.
func ownChecks(script *sluice.Script) []check {
	return map[*sluice.Script][]check{
		&sluice.ZSetLogV1: {
			{"expiry", checkEveryKeyExpires},
			{"bounded removal", checkGrantsRemoveABoundedNumber},
		},
		&sluice.ListLogV1: {
			{"expiry", checkEveryKeyExpires},
			{"later grants", checkLaterGrantsProlong},
			{"bounded removal", checkListLogRemovesABoundedNumber},
			{"unreadable", checkListLogFindsUnreadable},
		},
		&sluice.SliceRingV1: {
			{"expiry", checkEveryKeyExpires},
			{"later grants", checkLaterGrantsProlong},
			{"gaps", checkRingGapEnds},
			{"truncated", checkRingTruncatedStateEnds},
			{"damaged", checkRingDamagedStateEnds},
			{"searches", checkRingSearchEnds},
			{"links", checkRingDamagedLinks},
			{"struct", sliceRingV1.checkPacksWithStruct},
		},
		&sluice.SliceRingReturnV1: {
			{"damaged", checkReturnToDamagedRingEnds},
		},
		&sluice.TokenBucketV1: {
			{"expiry", checkEveryKeyExpires},
			{"config", checkConfigOutlivesPermits},
			{"config's TTL", checkConfigTTLOfAFarClock},
			{"no expiry", checkBucketPushesNothing},
			{"struct", tokenBucketV1.checkPacksWithStruct},
			{"bounded removal", checkBucketRemovesABoundedNumber},
		},
		&sluice.TokenBucketSetV1: {
			{"config", checkConfigOutlivesPermits},
		},
		&sluice.GCRAV1: {
			{"expiry", checkEveryKeyExpires},
			{"struct", gcraV1.checkPacksWithStruct},
		},
	}[script]
}

func startLikeMiniredis(t testing.TB, neverExpire bool) *harness {
	h := startHarness(t, neverExpire)
	h.redis.LikeMiniredis()
	return h
}

func startForgetful(t testing.TB, _ bool) *harness { return startHarness(t, true) }

func (tab table) checkTimeline(tl timeline, where string, start func(testing.TB, bool) *harness) check {
	return check{tl.name + where, func(t testing.TB) {
		for _, failure := range tab.play(start(t, false), tl) {
			t.Error(failure)
		}
	}}
}

// sub is t.Run where t can.
func sub(t testing.TB, name string, test func(t testing.TB)) {
	if real, ok := t.(*testing.T); ok {
		real.Run(name, func(t *testing.T) { test(t) })
	} else {
		test(t)
	}
}

// What stock miniredis lacks the scripts make up for: token_bucket packs its entries by hand.
func TestTimelinesLikeMiniredis(t *testing.T) {
	for _, tab := range tables {
		t.Run(tab.script.Name, func(t *testing.T) {
			tab.run(t, func(t *testing.T) target { return startLikeMiniredis(t, false) })
		})
	}
}
