package loader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// TestWindowRange is of windows at both ends of what each script takes: the loader refuses what is outside, in the
// units in which it was passed, and sends nothing; what is inside the server takes.
func TestWindowRange(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		longest, name := 366*day, "366 days"
		if makers[i].name == "SliceRing" {
			longest, name = 9999*day, "9999 days"
		}
		make := func(l *loader.Loader, window time.Duration) loader.Limiter {
			if makers[i].name == "SliceRing" { // with slices that suit the window
				return l.SliceRing("test", []loader.Limit{permits(1, window)})
			}
			return makers[i].make(l, permits(1, window))
		}
		for _, window := range []time.Duration{
			0, -time.Minute, 1, 999 * time.Microsecond, longest + time.Microsecond, longest + 1, loader.Never,
		} {
			want := "loader: test: window " + window.String() + ": want 1ms to " + name
			limiter := make(loader.New(nobody(t)), window)
			for method, err := range map[string]error{
				"Allow": second(limiter.Allow(background, "s")), "Peek": second(limiter.Peek(background, "s")),
				"Wait": limiter.Wait(background, "s"), "Reset": limiter.Reset(background, "s"),
			} {
				if err == nil || err.Error() != want {
					t.Errorf("%s: %v\nwant %s", method, err, want)
				}
			}
		}
		for _, window := range []time.Duration{time.Millisecond, longest} {
			_, rdb := fake(t)
			d, err := make(loader.New(rdb), window).Allow(background, "s")
			granted(t, d, err)
		}
		if makers[i].name != "SliceRing" {
			d, err := makers[i].make(loader.New(nobody(t)), loader.Limit{}).Allow(background, "s")
			denied(t, d, err)
		}
	})
	bucket := loader.New(nobody(t)).TokenBucket("test", loader.PerMinute(1))
	for want, limit := range map[string]loader.Limit{
		"loader: test: window 0s: want 1ms to 366 days": permits(1, 0),
		"loader: test: permits 0: want 1 or more":       {},
	} {
		if err := bucket.SetLimit(background, "s", limit); err == nil || err.Error() != want {
			t.Errorf("SetLimit: %v\nwant %s", err, want)
		}
	}
}

// TestBurstThatTakesTooLong is of bursts that take more than 2^52 us to come back: the loader says how large one may
// be, and the script takes one of that size.
func TestBurstThatTakesTooLong(t *testing.T) {
	tests := []struct {
		limit loader.Limit
		most  int64
		want  string
	}{
		{permits(1, 366*day), 142, "burst 143: want up to 142 with 1 permit in 366 days"},
		{permits(7, 366*day), 996, "burst 997: want up to 996 with 7 permits in 366 days"},
		{permits(3, time.Hour), 3752999, "burst 3753000: want up to 3752999 with 3 permits in 1h0m0s"},
	}
	for _, test := range tests {
		_, rdb := fake(t)
		test.limit.Burst = test.most
		d, err := loader.New(rdb).GCRA("x", test.limit).AllowN(background, "s", test.most)
		granted(t, d, err)
		test.limit.Burst++
		_, err = loader.New(nobody(t)).GCRA("x", test.limit).Allow(background, "s")
		if err == nil || err.Error() != "loader: x: "+test.want {
			t.Errorf("%v\nwant %s", err, test.want)
		}
	}
}

// TestErrorsNameTheLimiter is of everything else that is refused without asking: the name and the value are there.
func TestErrorsNameTheLimiter(t *testing.T) {
	limits, minute := loader.New(nobody(t)), loader.PerMinute(1)
	ring := func(opts ...loader.LimiterOption) loader.Limiter {
		return limits.SliceRing("x", []loader.Limit{minute}, opts...)
	}
	for want, limiter := range map[string]loader.Limiter{
		"loader: x: RememberDenials -1: want 1 or more":                     limits.GCRA("x", minute, loader.RememberDenials(-1)),
		"loader: x: FailLocal 1.5: want a share above 0 and up to 1":        limits.GCRA("x", minute, loader.FailLocal(1.5)),
		"loader: x: LeaseAge 1µs: want 1ms or more, in whole microseconds":  ring(loader.LeaseAge(time.Microsecond)),
		"loader: x: LeaseAge is an option of SliceRing, not of ListLog":     limits.ListLog("x", minute, loader.LeaseAge(time.Second)),
		"loader: x: ClientID is an option of TokenBucket, not of SliceRing": ring(loader.ClientID("me")),
		"loader: Timeout 1µs: want 1ms or more":                             loader.New(nobody(t), loader.Timeout(time.Microsecond)).GCRA("x", minute),
		"loader: Breaker 0, 1s: want 1 failure or more, and a pause above 0": loader.New(nobody(t), loader.Breaker(0, time.Second)).
			GCRA("x", minute),
	} {
		if _, err := limiter.Allow(background, "s"); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	_, err := loader.Key("p:", "x", "s", "ll1")
	if err == nil || !strings.HasPrefix(err.Error(), `loader: x: prefix "p:": want letters`) {
		t.Error(err)
	}
}
