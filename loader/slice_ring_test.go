package loader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// TestSliceLength finds the windows of a ring by its keys, and the size of each by the length of its value.
func TestSliceLength(t *testing.T) {
	const us = time.Microsecond
	for _, test := range []struct {
		windows []time.Duration
		opts    []loader.LimiterOption
		want    []string // slice and size of each window
	}{
		{[]time.Duration{time.Minute}, nil, []string{"300000x201"}},
		{[]time.Duration{time.Hour, time.Minute}, nil, []string{"18000000x201", "300000x201"}},
		{[]time.Duration{time.Second}, nil, []string{"5000x201"}},
		{[]time.Duration{2 * time.Millisecond}, nil, []string{"1000x3"}},
		{[]time.Duration{time.Millisecond}, nil, []string{"1000x2"}},
		{[]time.Duration{time.Minute + us}, nil, []string{"300001x201"}},
		{[]time.Duration{999 * time.Minute, time.Minute}, []loader.LimiterOption{loader.Slice(time.Minute)},
			[]string{"60000000x1000", "60000000x2"}},
		{[]time.Duration{200 * day, 200*day + us}, nil, []string{"86400000000x201", "86400000000x202"}},
		{[]time.Duration{999 * day}, nil, []string{"86400000000x1000"}},
	} {
		m, rdb := fake(t)
		var limits []loader.Limit
		for _, window := range test.windows {
			limits = append(limits, permits(3, window))
		}
		ring := loader.New(rdb).SliceRing("x", limits, test.opts...)
		wantGrant(t, ring, "s", 3)
		wantDenial(t, ring, "s", 1)
		for _, want := range test.want {
			_, size, _ := strings.Cut(want, "x")
			if stored, err := m.Get("sluice:x:{s}:sr1:" + want); int64(len(stored)) != 19+6*number(t, size) {
				t.Errorf("%v: %s has %d bytes, %v", test.windows, want, len(stored), err)
			}
		}
		if keys := m.Keys(); len(keys) != len(test.want) {
			t.Errorf("%v: keys %q, want %q", test.windows, keys, test.want)
		}
		must(t, ring.Reset(background, "s"))
		if keys := m.Keys(); len(keys) > 0 {
			t.Errorf("%v: %q after Reset", test.windows, keys)
		}
	}
}

// TestPlansShareWindows changes the limits of a subject: what its windows have counted goes on counting, also for the
// Budget of the name, and a window that is new begins empty.
func TestPlansShareWindows(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	free := limits.SliceRing("x", []loader.Limit{permits(5, time.Minute)})
	paid := free.With(permits(8, time.Minute), permits(9, time.Hour))
	wantGrant(t, free, "s", 5)
	wantDenial(t, paid, "s", 4)
	wantGrant(t, paid, "s", 3)
	wantDenial(t, free, "s", 1)
	wantRemaining(t, free.With(permits(9, time.Hour)), "s", 6) // it counted only what named it
	wantRemaining(t, free.With(permits(20, time.Minute)), "s", 12)
	d, err := limits.Budget("x", []loader.Limit{permits(20, time.Minute), permits(20, day)}).Peek(background, "s")
	if must(t, err); d.Remaining != 12 || d.Windows[1].Remaining != 20 {
		t.Errorf("%+v, want 12 remaining in the minute that all share", d)
	}
}

// TestGiveBackAfterAPlan gives back to the windows that granted, not to those of the limiter, also after a way through
// JSON, and after a denial was remembered for another plan.
func TestGiveBackAfterAPlan(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		minute, hour := permits(5, time.Minute), permits(5, time.Hour)
		ring := limits.SliceRing("x", []loader.Limit{minute}, loader.RememberDenials(9))
		both := ring.With(hour, minute)
		one := wantGrant(t, ring, "s", 4)
		wantDenial(t, both, "s", 2)
		wantReturned(t, both, "s", one, 4, 4)
		two := wantGrant(t, both, "s", 3)
		wantRemaining(t, ring.With(hour), "s", 2)
		wantRemaining(t, ring, "s", 2)
		text, err := json.Marshal(two)
		must(t, err)
		must(t, json.Unmarshal(text, &two))
		wantReturned(t, ring, "s", two, 2, 2)
		wantRemaining(t, ring.With(hour), "s", 4)
		wantRemaining(t, ring, "s", 4)
		two.Windows[1].Key = "sluice:x:{t}:sr1:300000x201"
		as[*loader.ArgumentError](t, errOf(ring.GiveBack(background, "s", two, 1)))
		one.Key = "sluice:x:{s}:sr1:minute"
		as[*loader.ArgumentError](t, errOf(ring.GiveBack(background, "s", one, 1)))
	})
}

// TestReport charges what is reported, whatever the windows hold, also where it is shared with others or goes as a
// function.
func TestReport(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		rdb := real(t)
		var events []loader.Event
		observe := loader.ObserverFunc(func(_ context.Context, e loader.Event) { events = append(events, e) })
		limits := loader.New(rdb, append(opts, loader.Observe(observe))...)
		must(t, limits.Preload(background))
		ring := limits.SliceRing("x", []loader.Limit{permits(3, time.Minute), permits(9, time.Hour)})
		for i, step := range []struct {
			n, remaining int64
			granted      bool
		}{{0, 3, true}, {2, 1, true}, {1, 0, true}, {0, 0, true}, {4, 0, false}, {0, 0, false}} {
			d, err := ring.Report(background, "s", step.n)
			must(t, err)
			if d.Granted != step.granted || d.Remaining != step.remaining || d.Permits != 0 || (d.Wait > 0) == d.Granted {
				t.Errorf("%s, step %d: %+v, want %+v", how, i, d, step)
			}
		}
		wantDenial(t, ring, "s", 1)
		if e := events[1]; e.Method != "Report" || e.Permits != 2 || e.Script != "slice_ring_v1" || !e.Decision.Granted {
			t.Errorf("%s: event %+v", how, e)
		}
		_, err := ring.Report(background, "s", 1_000_000_001)
		wantError(t, err, "loader: x: n 1000000001: want 0 to 1000000000")
		_, err = ring.Report(background, "s", -1)
		wantError(t, err, "loader: x: n -1: want 0 to 1000000000")
		d, err := ring.With(permits(0, time.Minute)).Report(background, "s", 1)
		must(t, err)
		if d.Granted || d.Wait != loader.Never {
			t.Errorf("%s: with a limit of 0: %+v", how, d)
		}
	})
}

// TestZeroLimiterReports has limiters that no Loader made: an error, as of their other methods.
func TestZeroLimiterReports(t *testing.T) {
	for name, err := range map[string]error{
		"SliceRing": errOf(loader.SliceRing{}.Report(background, "s", 1)),
		"Quota":     errOf(loader.Quota{}.Report(background, "s", 1)),
		"Ahead":     errOf(new(loader.Ahead).Report(background, "s", 1)),
	} {
		t.Run(name, func(t *testing.T) { as[*loader.ArgumentError](t, err) })
	}
}

// TestReportsTogether sends reports about many subjects at once: none is lost, and they go in commands for many keys.
func TestReportsTogether(t *testing.T) {
	const subjects, each = 40, 25
	rdb := real(t)
	limits := loader.New(rdb, loader.Timeout(never))
	ring := limits.SliceRing("x", []loader.Limit{permits(3, time.Minute)})
	var wg sync.WaitGroup
	for i := range subjects * each {
		wg.Go(func() {
			if _, err := ring.Report(background, fmt.Sprint(i%subjects), 2); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	high := ring.With(permits(1000, time.Minute))
	for i := range subjects {
		wantRemaining(t, high, fmt.Sprint(i), 1000-2*each)
	}
	calls, err := rdb.Info(background, "commandstats").Result()
	must(t, err)
	_, calls, _ = strings.Cut(calls, "cmdstat_evalsha:calls=")
	calls, _, _ = strings.Cut(calls, ",")
	if n, _ := strconv.Atoi(calls); n == 0 || n > subjects*each/2 {
		t.Errorf("%s commands for %d reports, want fewer than half", calls, subjects*each)
	}
}

// TestReportIsSentOnce loses the reply: the report is counted, and not sent again.
func TestReportIsSentOnce(t *testing.T) {
	rdb := real(t)
	lost := clientOf(t, options(rdb.Options().Addr))
	ring := loader.New(lost).SliceRing("x", []loader.Limit{permits(9, time.Minute)})
	_, err := ring.Report(background, "s", 1) // loads the script
	must(t, err)
	lost.AddHook(around(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		_ = send()
		cmds[0].SetErr(io.ErrUnexpectedEOF)
		return io.ErrUnexpectedEOF
	}))
	if _, err = ring.Report(background, "s", 2); !errors.Is(err, loader.ErrOutcomeUnknown) {
		t.Errorf("%v, want ErrOutcomeUnknown", err)
	}
	wantRemaining(t, loader.New(rdb).SliceRing("x", []loader.Limit{permits(9, time.Minute)}), "s", 6)
}
