package loader_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sluice-redis/sluice/loader"
)

// TestDecisionOfARing has the state of each window, the tightest first.
func TestDecisionOfARing(t *testing.T) {
	const s = time.Second
	m, rdb := fake(t)
	second, ten := loader.Limit{Permits: 4, Window: s}, loader.Limit{Permits: 9, Window: 10 * s}
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{ten, second}, loader.Slice(s))
	short := func(remaining int64, resetAfter time.Duration) loader.WindowState {
		return loader.WindowState{second, remaining, resetAfter, 2 * s, "sluice:x:{s}:sr1:1000000x2"}
	}
	long := func(remaining int64, resetAfter time.Duration) loader.WindowState {
		return loader.WindowState{ten, remaining, resetAfter, 11 * s, "sluice:x:{s}:sr1:1000000x11"}
	}
	steps := []struct {
		at          time.Duration
		n           int64
		granted     bool
		first, then loader.WindowState
	}{
		{0, 3, true, short(1, 2*s), long(6, 11*s)},
		{0, 2, false, short(1, 2*s), long(6, 11*s)},
		{5 * s, 4, true, short(0, 2*s), long(2, 11*s)},
		{8 * s, 2, true, long(0, 11*s), short(2, 2*s)},
		{12 * s, 1, true, long(2, 11*s), short(3, 2*s)},
	}
	for _, step := range steps {
		m.SetTime(second0.Truncate(s).Add(step.at))
		d, err := ring.AllowN(background, "s", step.n)
		must(t, err)
		if diff := cmp.Diff([]loader.WindowState{step.first, step.then}, d.Windows); diff != "" || d.Granted != step.granted {
			t.Errorf("%v: granted %v\n%s", step.at, d.Granted, diff)
		}
		if d.Limit != step.first.Limit || d.CountsFor != step.first.CountsFor || d.Remaining != step.first.Remaining {
			t.Errorf("%v: limit %v, remaining %d, want those of the tightest window", step.at, d.Limit, d.Remaining)
		}
	}
	m.SetTime(second0.Truncate(s).Add(time.Minute))
	d, err := ring.Peek(background, "s")
	must(t, err)
	full := []loader.WindowState{short(4, 0), long(9, 0)}
	if diff := cmp.Diff(full, d.Windows); diff != "" {
		t.Error(diff)
	}
	one, err := ring.With(ten).Allow(background, "s")
	must(t, err)
	if one.Windows != nil || one.Limit != ten {
		t.Errorf("one window: %+v", one)
	}
}

// TestDecisionOfARepeat has a request be asked again with its ID, alone in the log and not: it is marked.
func TestDecisionOfARepeat(t *testing.T) {
	m, rdb := fake(t)
	log := loader.New(rdb).ZSetLog("x", loader.PerMinute(5))
	for after, step := range []struct {
		id       string
		repeated bool
	}{{"a", false}, {"a", true}, {"b", false}, {"a", true}, {"b", true}} {
		m.SetTime(second0.Add(time.Duration(after) * time.Second))
		d, err := log.WithID(step.id).AllowN(background, "s", 2)
		if granted(t, d, err); d.Repeated != step.repeated {
			t.Errorf("after %d s: %+v", after, d)
		}
	}
}

// TestDecisionLimit is the limit that a decision was made by: of a TokenBucket the one in Redis.
func TestDecisionLimit(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	bucket := limits.TokenBucket("x", loader.PerSecond(5))
	must(t, bucket.SetRate(background, "s", loader.PerMinute(7)))
	d, err := bucket.Allow(background, "s")
	if granted(t, d, err); d.Limit != loader.PerMinute(7) {
		t.Errorf("%+v, want the limit that was set", d.Limit)
	}
	smooth := loader.Limit{Permits: 5, Window: time.Second, Burst: 2}
	d, err = limits.GCRA("x", loader.PerSecond(1)).With(smooth).Allow(background, "s")
	if granted(t, d, err); d.Limit != smooth {
		t.Errorf("%+v, want that of With", d.Limit)
	}
	none := loader.Limit{} // needs no window
	d, err = limits.SliceRing("y", []loader.Limit{loader.PerSecond(5), none}).Allow(background, "s")
	if err != nil || d.Granted || d.Limit != none || d.Wait != loader.Never {
		t.Errorf("%+v, %v, want the limit of 0", d.Limit, err)
	}
}

// TestDegradedSaysWhy has a fallback answer, whose decisions carry the error and the windows.
func TestDegradedSaysWhy(t *testing.T) {
	windows := []loader.Limit{loader.PerMinute(4), loader.PerHour(10)}
	unreachable := down()
	defer func() { _ = unreachable.Close() }()
	limits := loader.New(unreachable)
	for name, fallback := range map[string]loader.LimiterOption{"open": loader.FailOpen(), "local": loader.FailLocal(1)} {
		d, err := limits.SliceRing("x", windows, fallback).Allow(background, "s")
		if granted(t, d, err); !d.Degraded || d.Cause == nil || errors.Is(d.Cause, loader.ErrOutcomeUnknown) {
			t.Errorf("%s: %+v, want the error why", name, d)
		}
		if len(d.Windows) != 2 || d.Windows[0].Limit != windows[0] || d.Limit != windows[0] {
			t.Errorf("%s: %+v, want both windows, the tightest first", name, d)
		}
	}
	_, rdb := fake(t)
	limits = loader.New(rdb, loader.Timeout(10*time.Second)) // 100 ms may be short on a busy machine
	d, err := limits.SliceRing("x", windows, loader.FailOpen()).Allow(background, "s")
	if d.Cause != nil || err != nil {
		t.Errorf("%+v, %v", d, err)
	}
}
