package scripttest_test

import (
	"slices"
	"strconv"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/scripttest"
)

// Every key that a grant writes expires: a server drops it one millisecond after the next full one in which it does not
// matter, and the config of a bucket a tenth of a second later.
func checkEveryKeyExpires(t testing.TB) {
	for _, c := range []struct {
		script  *sluice.Script
		keys    []string
		args    []string
		matters int64 // microseconds from the call
	}{
		{&listLogV1Script, listLogV1.keys, []string{"3", "10600001", "1", "0"}, 10_600_001},
		{&listLogV1Script, listLogV1.keys, []string{"1", "1000", "1", "0"}, 1000},
		{&zsetLogV1Script, zsetLogV1.keys, []string{"3", "10600001", "1", "0", "id"}, 10_600_001},
		{&zsetLogV1Script, zsetLogV1.keys, []string{"3", "10000001", "2", "0", "id"}, 10_000_001},
		{&tokenBucketV1Script, tokenBucketV1.keys, []string{"3", "10600001", "0", "1", "0"}, 10_600_001},
		{&tokenBucketV1Script, tokenBucketV1.keys, []string{"3", "10600001", "1", "1", "0"}, 10_600_001},
		{&gcraV1Script, gcraV1.keys, []string{"7", "1000000", "3", "1", "0"}, 142_858},
		{&gcraV1Script, gcraV1.keys, []string{"10", "10000000", "5", "5", "0"}, 5_000_000},
		{&gcraV1Script, gcraV1.keys, []string{"1000000", "1000", "1", "1", "0"}, 1},
		{&sliceRingV1Script, []string{"t:x:{u}:a"}, []string{"1", "0", "1000000", "3", "2"}, 3_000_000},
		{&sliceRingV1Script, []string{"t:x:{u}:a"}, []string{"0", "9", "1000000", "7", "2"}, 7_000_000},
		{&sliceRingV1Script, []string{"t:x:{u}:a", "t:x:{u}:b"}, []string{"1", "0", "1000000", "3", "2", "1500000", "2", "2"},
			3_000_000},
		{&quotaV1Script, quotaV1.keys, decimals(9, 1, 0, epoch-1, epoch, epoch+10_600_001, epoch+99_000_000), 10_600_001},
		{&quotaV1Script, quotaV1.keys, decimals(9, 1, 1, epoch-3, epoch-2, epoch-1, epoch+1), 1},
		{&gcraManyV1Script, []string{"t:x:{u}:a", "t:x:{u}:b"}, []string{"7", "1000000", "3", "1", "0"}, 142_858},
		{&listLogManyV1Script, []string{"t:x:{u}:a", "t:x:{u}:b"}, []string{"3", "10600001", "1", "0"}, 10_600_001},
		{&sliceRingManyV1Script, []string{"t:x:{u}:a", "t:x:{u}:b"}, []string{"1", "0", "1000000", "3", "2"}, 3_000_000},
	} {
		r := scripttest.Start(t)
		r.SetTime(epoch)
		script := compile(t, c.script.File, c.script.Source)
		if result := script.Run(r, c.keys, c.args); result.Err != nil {
			t.Fatal(result.Err)
		}
		written := r.Snapshot()
		gone := epoch + (c.matters+999)/1000*1000 + 2000
		r.SetTime(gone - 1)
		if r.Snapshot() != written {
			t.Errorf("%s %q: gone in the millisecond after it matters", c.script.Name, c.args)
		}
		for i, key := range slices.Backward(c.keys) {
			if c.script == &tokenBucketV1Script && i == 0 {
				gone += 100_000
			}
			r.SetTime(gone)
			if left, err := r.Do("EXISTS", key); err != nil || left != int64(0) {
				t.Errorf("%s %q: at %d there is still %s, %v", c.script.Name, c.args, gone, key, err)
			}
		}
	}
}

// A booking lives until it has left the window.
func checkBookingsProlong(t testing.TB) {
	r := scripttest.Start(t)
	r.SetTime(epoch)
	log := compile(t, "list_log_v1.lua", listLogV1Script.Source)
	for range 3 {
		log.Run(r, listLogV1.keys, []string{"1", "10000000", "1", "60000000"})
	}
	assertTTL(t, r, listLogV1.keys[0], 30_000)
}

// Only a charge in a later slice puts off when a ring expires, to the millisecond.
func (tab table) checkLaterGrantsProlong(t testing.TB) {
	r := scripttest.Start(t)
	script := compile(t, tab.script.File, tab.script.Source)
	charges := 0
	charge := func(at, slice, left int64) {
		charges++
		r.SetTime(epoch + at)
		args := map[string][]string{
			"budget":        decimals(9_000_000, 1, slice, 3, 9),
			"budget_settle": decimals(9_000_000, 1, 1, slice, 3),
		}[tab.script.Name]
		if args == nil {
			args = decimals(1, 0, slice, 3, 9)
		}
		keys := tab.keysOf(args)
		if len(keys) > 1 {
			keys[1] += strconv.Itoa(charges)
		}
		if result := script.Run(r, keys, args); result.Err != nil {
			t.Fatal(result.Err)
		}
		assertTTL(t, r, keys[0], left)
	}
	charge(0, 1_000_000, 3000)
	charge(500_000, 1_000_000, 2500)
	charge(1_500_000, 1_000_000, 2500)
	charge(1_500_000, 1_000_000, 2500)
	charge(400_000, 1_000_000, 3600) // the clock is behind
	charge(0, 1_500_000, 4500)
	charge(3_000_000, 1_500_000, 4500)
	charge(1_499_999, 1_001_001, (epoch/1001001+1+3)*1001001/1000+1-(epoch+1_499_999)/1000)
	charge(2_499_999, 1_001_001, (epoch/1001001+2+3)*1001001/1000+1-(epoch+2_499_999)/1000)
}

// A return leaves the ring when it would have expired.
func checkReturnsKeepTheExpiry(t testing.TB) {
	h := startHarness(t, false)
	sliceRingReturnV1.play(h, timeline{lines: after("0s slice_ring 2 0 1s 3 9", "1s slice_ring 1 0 1s 3 9",
		"2s @1s 1 1s 3", "2s @0s 1 1s 3")})
	assertTTL(t, h.redis, ringSubject+"1000000x3", 2000)
}

// A return leaves the quota when it would have expired.
func checkQuotaReturnKeepsTheExpiry(t testing.TB) {
	h := startHarness(t, false)
	quotaReturnV1.play(h, timeline{lines: after("0s quota 9 9 0"+days, "23h59m59.9985s @0s 3")})
	assertTTL(t, h.redis, quotaV1.keys[0], 2)
	quotaReturnV1.play(h, timeline{lines: after("24h0.001s @0s 3")}) // in the last millisecond: its TTL is 0
	if ttl, err := h.redis.Do("PTTL", quotaV1.keys[0]); err != nil || ttl != int64(1) {
		t.Errorf("TTL %v, %v", ttl, err)
	}
}

// The config of token_bucket lives as long as the longest-lived permits under it, and one that an operator set lives
// for ever.
func checkConfigOutlivesPermits(t testing.TB) {
	r := scripttest.Start(t)
	r.SetTime(epoch)
	bucket := compile(t, "token_bucket_v1.lua", tokenBucketV1Script.Source)
	set := compile(t, "token_bucket_set_v1.lua", tokenBucketSetV1Script.Source)
	config, other := tokenBucketV1.keys[0], append(tokenBucketV1.keys[:2:2], "t:x:{u}:tb1:by:d")
	take := []string{"3", "10000000", "1", "1", "60000000"}

	bucket.Run(r, tokenBucketV1.keys, take)
	assertTTL(t, r, config, 10_100)
	r.SetTime(epoch + 5_000_000)
	for range 4 {
		bucket.Run(r, other, take)
	}
	assertTTL(t, r, config, 20_100) // the fourth permit is booked 10 s ahead
	bucket.Run(r, tokenBucketV1.keys, take)
	assertTTL(t, r, config, 20_100)

	set.Run(r, tokenBucketV1.keys[:1], []string{"5", "10000000", "1"})
	bucket.Run(r, tokenBucketV1.keys, take)
	assertTTL(t, r, config, -1)
	assertTTL(t, r, tokenBucketV1.keys[2], 10_000)
}

// assertTTL says how long the key matters, which it outlives by 1 ms; -1 is for ever.
func assertTTL(t testing.TB, r *scripttest.Redis, key string, milliseconds int64) {
	t.Helper()
	if milliseconds > 0 {
		milliseconds++
	}
	if ttl, err := r.Do("PTTL", key); err != nil || ttl != milliseconds {
		t.Errorf("PTTL %s: %v, %v; want %d", key, ttl, err, milliseconds)
	}
}
