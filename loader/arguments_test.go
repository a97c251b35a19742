package loader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// TestCallTakesGoTypes calls scripts with times as Go has them: they are sent in the header's units.
func TestCallTakesGoTypes(t *testing.T) {
	tests := []struct {
		name   string
		script *sluice.Script
		args   []any
		least  time.Duration // until the limiter is full again
		most   time.Duration
	}{
		{"durations", &sluice.ListLogV1, []any{2, time.Minute, 2, time.Second}, time.Minute, time.Minute},
		{"integers", &sluice.ListLogV1, []any{int64(2), uint32(60000000), int8(2), 1000000}, time.Minute, time.Minute},
		{"texts", &sluice.ListLogV1, []any{"2", []byte("60000000"), "2", "0"}, time.Minute, time.Minute},
		{"a group", &sluice.SliceRingV1, []any{time.Hour, 2, 10, 2, "20", uint8(3)}, 19 * time.Hour, 20 * time.Hour},
	}
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				key := []string{test.name}
				got, err := limits.Call(background, test.script, key, test.args...)
				if err != nil || got[0] != 2 {
					t.Fatalf("%v, %v; want a grant of 2", got, err)
				}
				reset := time.Duration(got[3]) * time.Microsecond
				if reset < test.least || reset > test.most {
					t.Errorf("reset after %v, want %v to %v", reset, test.least, test.most)
				}
			})
		}
	})
}

// TestCallTakesTimes gives permits back by the time in a reply, as a time.Time.
func TestCallTakesTimes(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		taken, err := limits.Call(background, &sluice.SliceRingV1, []string{"k"}, time.Hour, 5, 10, 9)
		must(t, err)
		at := time.UnixMicro(taken[4]).UTC()
		back, err := limits.Call(background, &sluice.SliceRingReturnV1, []string{"k"}, time.Hour, at, 3)
		if err != nil || back[0] != 3 {
			t.Errorf("given back %v, %v; want 3", back, err)
		}
	})
}

type count int

// TestCallRefusesTypes tests arguments that go-redis would not write as a number: nothing is sent.
func TestCallRefusesTypes(t *testing.T) {
	limits := loader.New(neverAsked(t))
	one := 1
	at := time.Date(2030, 1, 1, 0, 0, 0, 1000, time.UTC)
	list := func(limit, window, permits, maxWait any) []any { return []any{limit, window, permits, maxWait} }
	tests := []struct {
		script *sluice.Script
		args   []any
		want   string
	}{
		{&sluice.ListLogV1, list(1, time.Second+1, 1, 0),
			"list_log_v1: bad window: want whole microseconds, not 1.000000001s"},
		{&sluice.ListLogV1, list(1, time.Second, 1, time.Nanosecond),
			"list_log_v1: bad max_wait: want whole microseconds, not 1ns"},
		{&sluice.ListLogV1, list(time.Second, time.Second, 1, 0),
			"list_log_v1: bad limit: want an integer or a string, not time.Duration"},
		{&sluice.ListLogV1, list(1.0, 1000, 1, 0), "list_log_v1: bad limit: want an integer or a string, not float64"},
		{&sluice.ListLogV1, list(1, 1000, true, 0), "list_log_v1: bad permits: want an integer or a string, not bool"},
		{&sluice.ListLogV1, list(1, 1000, 1, nil),
			"list_log_v1: bad max_wait: want an integer, a string or a time.Duration, not <nil>"},
		{&sluice.ListLogV1, list(&one, 1000, 1, 0), "list_log_v1: bad limit: want an integer or a string, not *int"},
		{&sluice.ListLogV1, list(1, at, 1, 0),
			"list_log_v1: bad window: want an integer, a string or a time.Duration, not time.Time"},
		{&sluice.ListLogV1, list(count(1), 1000, 1, 0),
			"list_log_v1: bad limit: want an integer or a string, not loader_test.count"},
		{&sluice.ZSetLogV1, []any{1, 1000, 1, 0, time.Second},
			"zset_log_v1: bad id: want an integer or a string, not time.Duration"},
		{&sluice.SliceRingV1, []any{time.Second + 1, 1, 60, 5},
			"slice_ring_v1: bad slice: want whole microseconds, not 1.000000001s"},
		{&sluice.SliceRingV1, []any{time.Second, 1, 60, 5, 3600, 5.5},
			"slice_ring_v1: bad limit_2: want an integer or a string, not float64"},
		{&sluice.SliceRingV1, []any{time.Second, 1, 60, 5, 60, 5, false, 5},
			"slice_ring_v1: bad slices_3: want an integer or a string, not bool"},
		{&sluice.SliceRingReturnV1, []any{time.Second, at.Add(1), 1},
			"slice_ring_return_v1: bad taken: want whole microseconds, not 2030-01-01 00:00:00.000001001 +0000 UTC"},
		{&sluice.SliceRingReturnV1, []any{time.Second, &at, 1},
			"slice_ring_return_v1: bad taken: want an integer, a string or a time.Time, not *time.Time"},
	}
	for i, test := range tests {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			_, err := limits.Call(background, test.script, []string{"k"}, test.args...)
			wantError(t, err, "loader: "+test.want)
			as[*loader.ArgumentError](t, err)
		})
	}
}

// TestCallWithTooMany tests arguments behind the last one: the script refuses them, whatever they are.
func TestCallWithTooMany(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		for _, more := range []any{1, time.Second, "x", 1.5} {
			_, err := limits.Call(background, &sluice.ListLogV1, []string{"k"}, 1, time.Second, 1, 0, more)
			if e := as[*loader.ArgumentError](t, err); e.Argument != "ARGV" {
				t.Errorf("%v: %v", more, e)
			}
		}
	})
}
