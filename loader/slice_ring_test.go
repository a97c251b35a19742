package loader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

func TestSliceLength(t *testing.T) {
	tests := []struct {
		limits []loader.Limit
		want   string
	}{
		{[]loader.Limit{loader.PerMinute(1)}, "1000000"},
		{[]loader.Limit{loader.PerMinute(1), loader.PerHour(1)}, "1000000"},
		{[]loader.Limit{loader.PerHour(1), loader.PerMinute(1)}, "1000000"},
		{[]loader.Limit{loader.PerSecond(1)}, "16667"},
		{[]loader.Limit{{Permits: 1, Window: 2 * time.Millisecond}}, "1000"},
		{[]loader.Limit{{Permits: 1, Window: time.Minute + time.Microsecond}}, "1000001"},
		{[]loader.Limit{{Permits: 1, Window: 10 * time.Second}, {Permits: 1, Window: 10000 * time.Second}}, "1000101"},
		{[]loader.Limit{loader.PerMinute(1), loader.PerDay(1)}, "8640865"}, // 10000 slices are more than a day
	}
	for _, test := range tests {
		m, rdb := fake(t)
		ring := loader.New(rdb).SliceRing("x", test.limits)
		wantGrant(t, ring, "s", 1)
		if got := m.Keys()[0]; got != "sluice:x:{s}:sr1:"+test.want {
			t.Errorf("%v: key %s, want slices of %s us", test.limits, got, test.want)
		}
	}
}

// TestSliceRingCoversItsWindow asks at the end of a slice: a full window later the limit still holds.
func TestSliceRingCoversItsWindow(t *testing.T) {
	m, rdb := fake(t)
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{loader.PerMinute(5)})
	m.SetTime(second0.Add(time.Second - time.Microsecond))
	wantGrant(t, ring, "s", 5)
	m.SetTime(second0.Add(time.Minute))
	wantDenial(t, ring, "s", 1)
	m.SetTime(second0.Add(time.Minute + time.Second))
	wantGrant(t, ring, "s", 1)
}

// TestLongWindows tests rings whose windows take long slices, with the slices that they get.
func TestLongWindows(t *testing.T) {
	tests := []struct {
		windows []time.Duration
		age     time.Duration
		slice   time.Duration
	}{
		{[]time.Duration{59 * day}, 0, 59 * day / 60},
		{[]time.Duration{60 * day}, 0, day},
		{[]time.Duration{60*day + time.Microsecond}, 0, day},
		{[]time.Duration{366 * day}, 0, day},
		{[]time.Duration{9999 * day}, 0, day},
		{[]time.Duration{366 * day, time.Hour}, 0, 3162556256 * time.Microsecond},
		{[]time.Duration{9999 * time.Minute, time.Minute}, 0, time.Minute},
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
				wantGrant(t, ring, subject, 3)
				wantDenial(t, ring, subject, 1)
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
