package loader_test

import (
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		wait time.Duration
		want int64
	}{
		{0, 0}, // granted, or a look at a limiter with permits left
		{time.Microsecond, 1}, {time.Second - time.Microsecond, 1}, {time.Second, 1}, {time.Second + time.Microsecond, 2},
		{time.Minute, 60}, {366 * day, 31622400}, {366*day + 1, 31622400}, {999 * day, 31622400}, {loader.Never, 31622400},
	} {
		if got := (loader.Decision{Wait: test.wait}).RetryAfterSeconds(); got != test.want {
			t.Errorf("after a wait of %v: %d, want %d", test.wait, got, test.want)
		}
	}
}

// TestNeverInArithmetic has callers reckon by hand with a Wait of Never: nothing overflows.
func TestNeverInArithmetic(t *testing.T) {
	if up := (loader.Never + time.Second - 1) / time.Second; up < 1<<32 {
		t.Errorf("rounded up to %d s", up)
	}
	if now := time.Now(); !now.Add(loader.Never).After(now) || loader.Never+366*day < 0 {
		t.Error("a time after Never is in the past")
	}
}
