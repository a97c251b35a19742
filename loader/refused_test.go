package loader_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

const day = 24 * time.Hour

// permits is a limit of n permits in a window.
func permits(n int64, window time.Duration) loader.Limit {
	return loader.Limit{Permits: n, Window: window}
}

// TestLongWindows is of rings whose windows take long slices, with the slices that they get.
func TestLongWindows(t *testing.T) {
	tests := []struct {
		windows []time.Duration
		age     time.Duration
		slice   time.Duration
	}{
		{[]time.Duration{59 * day}, 0, 59 * day / 60},
		{[]time.Duration{60 * day}, 0, day},
		{[]time.Duration{60*day + time.Microsecond}, 0, day},
		{[]time.Duration{61 * day}, 0, day},
		{[]time.Duration{366 * day}, 0, day},
		{[]time.Duration{9999 * day}, 0, day},
		{[]time.Duration{61 * day, 366 * day}, 0, day},
		{[]time.Duration{366 * day, time.Hour}, 0, 3162556256 * time.Microsecond},
		{[]time.Duration{9999 * time.Minute, time.Minute}, 0, time.Minute},
		{[]time.Duration{time.Minute, 9999 * time.Minute}, 0, time.Minute},
		{[]time.Duration{59 * day}, time.Hour, 59 * day / 60},
		{[]time.Duration{61 * day}, time.Hour, day},
		{[]time.Duration{366 * day}, 499 * day, day},
		{[]time.Duration{9998 * day}, day, day},
		{[]time.Duration{time.Minute, 9989 * time.Minute}, 10 * time.Minute, time.Minute},
	}
	each(t, func(t *testing.T, rdb *redis.Client) {
		for i, test := range tests {
			t.Run(fmt.Sprint(test.windows, test.age), func(t *testing.T) {
				var limits []loader.Limit
				for _, window := range test.windows {
					limits = append(limits, permits(3, window))
				}
				var opts []loader.LimiterOption
				tail := fmt.Sprintf("}:sr1:%d", test.slice.Microseconds())
				if test.age > 0 {
					opts = append(opts, loader.LeaseAge(test.age))
					tail += fmt.Sprintf(":%d", test.age.Microseconds())
				}
				ring := loader.New(rdb).SliceRing("x", limits, opts...)
				subject := fmt.Sprint(i)
				d, err := ring.AllowN(background, subject, 3)
				granted(t, d, err)
				d, err = ring.Allow(background, subject)
				denied(t, d, err)
				if key := "sluice:x:{" + subject + tail; rdb.Exists(background, key).Val() != 1 {
					t.Errorf("keys are %q, want %s", rdb.Keys(background, "*{"+subject+"}*").Val(), key)
				}
			})
		}
	})
}

// TestLongWindowHolds follows a window of 61 days: nothing is granted until the whole of it has gone by.
func TestLongWindowHolds(t *testing.T) {
	m, rdb := fake(t)
	start := time.UnixMicro(20000 * day.Microseconds()) // where a slice begins
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{permits(5, 61*day)})
	for _, step := range []struct {
		at      time.Duration
		granted bool
	}{
		{day - time.Microsecond, true}, {day, false}, {61 * day, false}, {62*day - time.Microsecond, false}, {62 * day, true},
	} {
		m.SetTime(start.Add(step.at))
		d, err := ring.AllowN(background, "s", 5)
		if err != nil || d.Granted != step.granted {
			t.Errorf("%v: %+v, %v; want granted %v", step.at, d, err, step.granted)
		}
	}
}

// TestRefusedDurations is of durations that no limiter takes: nothing is sent, and the error says which they are.
func TestRefusedDurations(t *testing.T) {
	limits := loader.New(nobody(t))
	minute := []loader.Limit{loader.PerMinute(1)}
	const fraction = "loader: x: window 1.000000001s: want whole microseconds"
	odd := permits(1, time.Second+1)
	tests := []struct {
		name    string
		limiter loader.Limiter
		want    string
	}{
		{"ListLog", limits.ListLog("x", odd), fraction},
		{"ZSetLog", limits.ZSetLog("x", odd), fraction},
		{"GCRA", limits.GCRA("x", odd), fraction},
		{"TokenBucket", limits.TokenBucket("x", odd), fraction},
		{"SliceRing", limits.SliceRing("x", []loader.Limit{odd}), fraction},
		{"second window", limits.SliceRing("x", []loader.Limit{loader.PerMinute(1), odd}), fraction},
		{"both windows", limits.SliceRing("x", []loader.Limit{odd, permits(1, time.Minute+1)}), fraction},
		{"a window below a microsecond", limits.SliceRing("x", []loader.Limit{permits(1, 1)}),
			"loader: x: window 1ns: want 1ms to 9999 days"},
		{"SliceRing with Slice", limits.SliceRing("x", []loader.Limit{odd}, loader.Slice(time.Second)), fraction},
		{"With", limits.ListLog("x", loader.PerMinute(1)).With(odd), fraction},
		{"With of a ring", limits.SliceRing("x", minute).With(odd), fraction},
		{"MaxWait", limits.ListLog("x", minute[0], loader.MaxWait(time.Second/3)),
			"loader: x: MaxWait 333.333333ms: want whole microseconds, 0 or more"},
		{"MaxWait of a ring", limits.SliceRing("x", minute, loader.MaxWait(1)),
			"loader: x: MaxWait 1ns: want whole microseconds, 0 or more"},
		{"Slice", limits.SliceRing("x", minute, loader.Slice(time.Second+1)),
			"loader: x: Slice 1.000000001s: want 1ms to 24h, in whole microseconds"},
		{"short Slice", limits.SliceRing("x", minute, loader.Slice(time.Microsecond)),
			"loader: x: Slice 1µs: want 1ms to 24h, in whole microseconds"},
		{"long Slice", limits.SliceRing("x", []loader.Limit{permits(1, 30*day)}, loader.Slice(day+time.Microsecond)),
			"loader: x: Slice 24h0m0.000001s: want 1ms to 24h, in whole microseconds"},
		{"negative Slice", limits.SliceRing("x", minute, loader.Slice(-time.Second)),
			"loader: x: Slice -1s: want 1ms to 24h, in whole microseconds"},
		{"a window of nothing", limits.SliceRing("x", []loader.Limit{permits(1, 0)}),
			"loader: x: window 0s: want 1ms to 9999 days"},
		{"a window shorter than the shortest slice", limits.SliceRing("x", []loader.Limit{permits(1, 999*time.Microsecond)}),
			"loader: x: window 999µs: want 1ms to 9999 days"},
		{"10000 days", limits.SliceRing("x", []loader.Limit{permits(1, 10000*day)}),
			"loader: x: window 240000h0m0s: want 1ms to 9999 days"},
		{"Never", limits.SliceRing("x", []loader.Limit{permits(1, loader.Never.Truncate(time.Microsecond))}),
			"loader: x: window 1281023h53m38.427387s: want 1ms to 9999 days"},
		{"366 days and a minute", limits.SliceRing("x", []loader.Limit{permits(1, 366*day), loader.PerMinute(1)}),
			"loader: x: window 8784h0m0s: want up to 166h39m0s: 9999 slices of 1m0s; " +
				"more takes a limiter of its own, or longer slices"},
		{"59 days and a minute", limits.SliceRing("x", []loader.Limit{loader.PerMinute(1), permits(1, 59*day)}),
			"loader: x: window 1416h0m0s: want up to 166h39m0s: 9999 slices of 1m0s; " +
				"more takes a limiter of its own, or longer slices"},
		{"a microsecond more than covers LeaseAge", limits.SliceRing("x",
			[]loader.Limit{loader.PerMinute(1), permits(1, 9998*time.Minute+1000)}, loader.LeaseAge(time.Minute)),
			"loader: x: window 166h38m0.000001s: want up to 166h38m0s: 9999 slices of 1m0s less LeaseAge; " +
				"more takes a limiter of its own, or longer slices"},
		{"more slices than there are", limits.SliceRing("x", []loader.Limit{loader.PerDay(1)}, loader.Slice(time.Second)),
			"loader: x: window 24h0m0s: want up to 2h46m39s: 9999 slices of 1s; " +
				"more takes a limiter of its own, or longer slices"},
		{"With more slices", limits.SliceRing("x", minute).With(loader.PerDay(1)),
			"loader: x: window 24h0m0s: want up to 2h46m39s: 9999 slices of 1s; " +
				"more takes a limiter of its own, or longer slices"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			errs := map[string]error{
				"Allow": second(test.limiter.Allow(background, "s")), "Wait": test.limiter.Wait(background, "s"),
				"Peek": second(test.limiter.Peek(background, "s")), "Batch": second(batched(limits, test.limiter, 1)),
			}
			for method, err := range errs {
				if err == nil || err.Error() != test.want {
					t.Errorf("%s: %v\nwant %s", method, err, test.want)
				}
				as[*loader.ArgumentError](t, err)
			}
		})
	}
	bucket := limits.TokenBucket("x", loader.PerMinute(1))
	if err := bucket.SetLimit(background, "s", odd); err == nil || err.Error() != fraction {
		t.Errorf("SetLimit: %v\nwant %s", err, fraction)
	}
}

// batched asks for n permits by a Batch of one.
func batched(limits *loader.Loader, limiter loader.Limiter, n int64) (loader.Decision, error) {
	batch := limits.Batch()
	r := batch.AllowN(limiter, "s", n)
	_, _ = batch.Do(background)
	return r.Decision, r.Err
}

// TestMoreThanAScriptTakes asks for more permits than the scripts have room for: nothing is sent.
func TestMoreThanAScriptTakes(t *testing.T) {
	limits := loader.New(nobody(t))
	const hour = time.Hour
	bucket := limits.TokenBucket("x", permits(100, hour))
	tests := []struct {
		name    string
		limiter loader.Limiter
		n       int64
		want    string
		exceeds bool
	}{
		{"ListLog, a call", limits.ListLog("x", permits(5000, hour)), 1001,
			"loader: x: AllowN(n=1001) exceeds limit 1000 of one call to a ListLog; GCRA or SliceRing take more", true},
		{"ZSetLog, a call", limits.ZSetLog("x", permits(5000, hour)), 501,
			"loader: x: AllowN(n=501) exceeds limit 500 of one call to a ZSetLog; ListLog, GCRA or SliceRing take more",
			true},
		{"TokenBucket, a call", bucket, 1000001,
			"loader: x: AllowN(n=1000001) exceeds limit 1000000 of one call to a TokenBucket; GCRA or SliceRing take more",
			true},
		{"GCRA, a call", limits.GCRA("x", permits(10000000, hour)), 10000001,
			"loader: x: AllowN(n=10000001) exceeds limit 10000000", true},
		{"SliceRing, a call", limits.SliceRing("x", []loader.Limit{permits(1000000000, hour)}), 1000000001,
			"loader: x: AllowN(n=1000000001) exceeds limit 1000000000", true},
		{"the limit is less", limits.ListLog("x", permits(900, hour)), 1001, "loader: x: AllowN(n=1001) exceeds limit 900", true},

		{"ListLog", limits.ListLog("x", permits(2000000, hour)), 1,
			"loader: x: 2000000 permits: ListLog holds 1000000; GCRA or SliceRing hold more", false},
		{"ZSetLog", limits.ZSetLog("x", permits(10001, hour)), 1,
			"loader: x: 10001 permits: ZSetLog holds 10000; ListLog, GCRA or SliceRing hold more", false},
		{"GCRA", limits.GCRA("x", permits(10000001, hour)), 1,
			"loader: x: 10000001 permits: GCRA holds 10000000; SliceRing holds more", false},
		{"GCRA burst", limits.GCRA("x", loader.Limit{Permits: 1, Window: hour, Burst: 10000001}), 1,
			"loader: x: burst 10000001: want up to 10000000", false},
		{"TokenBucket", bucket.With(permits(1000001, hour)), 1,
			"loader: x: 1000001 permits: TokenBucket holds 1000000; GCRA or SliceRing hold more", false},
		{"SliceRing", limits.SliceRing("x", []loader.Limit{loader.PerMinute(1), permits(1000000001, hour)}), 1,
			"loader: x: 1000000001 permits: SliceRing holds 1000000000", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for method, err := range map[string]error{
				"AllowN": second(test.limiter.AllowN(background, "s", test.n)),
				"Batch":  second(batched(limits, test.limiter, test.n)),
			} {
				if err == nil || err.Error() != test.want || errors.Is(err, loader.ErrExceedsLimit) != test.exceeds {
					t.Errorf("%s: %v\nwant %s", method, err, test.want)
				}
			}
			if err := test.limiter.WaitN(background, "s", test.n); errors.Is(err, loader.ErrExceedsLimit) != test.exceeds {
				t.Errorf("WaitN: %v", err)
			}
		})
	}
	err := bucket.SetLimit(background, "s", permits(1000001, hour))
	as[*loader.ArgumentError](t, err)
	want := "loader: x: 1000001 permits: TokenBucket holds 1000000; GCRA or SliceRing hold more"
	if err.Error() != want {
		t.Errorf("SetLimit: %v\nwant %s", err, want)
	}
}

// TestAsMuchAsAScriptTakes asks for the most that each script takes.
func TestAsMuchAsAScriptTakes(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		for name, test := range map[string]struct {
			limiter loader.Limiter
			n       int64
		}{
			"ListLog":     {limits.ListLog("x", permits(1000000, time.Hour)), 1000},
			"ZSetLog":     {limits.ZSetLog("x", permits(10000, time.Hour)), 500},
			"GCRA":        {limits.GCRA("x", permits(10000000, time.Hour)), 10000000},
			"TokenBucket": {limits.TokenBucket("x", permits(1000000, time.Hour)), 1000000},
			"SliceRing":   {limits.SliceRing("x", []loader.Limit{permits(1000000000, time.Hour)}), 1000000000},
		} {
			t.Run(name, func(t *testing.T) {
				d, err := test.limiter.AllowN(background, "s", test.n)
				granted(t, d, err)
			})
		}
	})
}
