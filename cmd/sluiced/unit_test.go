package main

import (
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// A month is one of 28 to 31 days, and a day one of 23 to 25 hours; a window is exact.
func TestUnitOfLimit(t *testing.T) {
	period := time.Unix(1_800_000_000, 0)
	for _, test := range []struct {
		window time.Duration
		begin  time.Time
		want   string
	}{
		{time.Minute, time.Time{}, "MINUTE"}, {720 * time.Hour, time.Time{}, "MONTH"},
		{719 * time.Hour, time.Time{}, "UNKNOWN"}, {719 * time.Hour, period, "MONTH"},
		{23 * time.Hour, period, "DAY"}, {25 * time.Hour, period, "DAY"}, {169 * time.Hour, period, "WEEK"},
		{28*24*time.Hour - time.Hour, period, "MONTH"}, {31*24*time.Hour + time.Hour, period, "MONTH"},
		{366 * 24 * time.Hour, period, "YEAR"}, {90 * 24 * time.Hour, period, "UNKNOWN"},
	} {
		d := loader.Decision{Limit: loader.Limit{Window: test.window}, PeriodBegin: test.begin}
		if got := unitOfLimit(d); got.String() != test.want {
			t.Errorf("%v, period %v: %v, want %s", test.window, test.begin, got, test.want)
		}
	}
}
