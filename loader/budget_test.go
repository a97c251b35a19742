package loader_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// budget100 is a budget of 100 a minute, in slices of a second.
func budget100(limits *loader.Loader, opts ...loader.LimiterOption) loader.Budget {
	return limits.Budget("tokens", []loader.Limit{loader.PerMinute(100)}, opts...)
}

// wantReserved wants a reservation to be granted, or denied, and leave this much.
func wantReserved(t *testing.T, b loader.Budget, id string, estimate int64, granted bool, left int64) loader.Decision {
	t.Helper()
	d, err := b.Reserve(background, "ada", id, estimate)
	if err != nil || d.Granted != granted || d.Remaining != left {
		t.Errorf("Reserve %s %d: %+v, %v; want granted %v, %d remaining", id, estimate, d, err, granted, left)
	}
	return d
}

// wantLeft wants this much to be left of a budget.
func wantBudgetLeft(t *testing.T, b loader.Budget, want int64) {
	t.Helper()
	if d, err := b.Peek(background, "ada"); err != nil || d.Degraded || d.Remaining != want {
		t.Errorf("%+v, %v; want %d remaining", d, err, want)
	}
}

func TestBudget(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		b := budget100(limits)
		must(t, b.Check())
		wantReserved(t, b, "a", 60, true, 40)
		wantReserved(t, b, "a", 60, true, 40) // the same request
		if d := wantReserved(t, b, "b", 50, false, 40); d.Wait <= 0 || d.Limit != loader.PerMinute(100) {
			t.Errorf("%+v, want a wait", d)
		}
		must(t, b.Settle(background, "ada", "a", 20))
		must(t, b.Settle(background, "ada", "a", 20)) // repeated
		wantBudgetLeft(t, b, 80)
		wantReserved(t, b, "b", 50, true, 30)
		must(t, b.Settle(background, "ada", "b", 250)) // a debt of 170
		wantBudgetLeft(t, b, 0)
		wantReserved(t, b, "c", 1, false, 0)
		must(t, b.Settle(background, "ada", "a", 0)) // the first one counts
		must(t, b.Reset(background, "ada"))
		wantBudgetLeft(t, b, 100)

		must(t, b.Charge(background, "ada", "d", 30))
		must(t, b.Charge(background, "ada", "d", 30))
		wantBudgetLeft(t, b, 70)
		wantReserved(t, b, "e", 20, true, 50)
		must(t, b.Charge(background, "ada", "e", 25))
		wantBudgetLeft(t, b, 45)
		must(t, b.Charge(background, "ada", "f", 0)) // withdrawn before it arrives
		as[*loader.ArgumentError](t, errOf(b.Reserve(background, "ada", "f", 1)))
		wantBudgetLeft(t, b, 45)

		ring := limits.SliceRing("tokens", []loader.Limit{loader.PerMinute(100)})
		wantRemaining(t, ring, "ada", 45)
		wantGrant(t, ring, "ada", 5)
		wantBudgetLeft(t, b, 40)
		wantReserved(t, b.With(loader.PerMinute(70)), "g", 10, true, 0)
	})
}

// TestBudgetLongAnswer settles after the minute of the reservation is over: what the answer cost more is charged to the
// minute in which it is settled, and what it cost less is given back to the hour.
func TestBudgetLongAnswer(t *testing.T) {
	m, rdb := fake(t)
	b := loader.New(rdb).Budget("tokens", []loader.Limit{loader.PerMinute(100), loader.PerHour(1000)})
	windows := func(want ...int64) {
		t.Helper()
		d, err := b.Peek(background, "ada")
		must(t, err)
		var got []int64
		for _, w := range d.Windows {
			got = append(got, w.Remaining)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("remaining of the windows (-want +got):\n%s", diff)
		}
	}
	wantReserved(t, b, "long", 50, true, 50)
	wantReserved(t, b, "short", 50, true, 0)
	windows(0, 900)
	m.SetTime(second0.Add(2 * time.Minute))
	windows(100, 900)
	must(t, b.Settle(background, "ada", "long", 90))
	windows(60, 860)
	must(t, b.Settle(background, "ada", "short", 10))
	windows(60, 900)
}

func TestBudgetIDs(t *testing.T) {
	m, rdb := fake(t)
	b := budget100(loader.New(rdb), loader.SettleWithin(10*time.Second))
	wantReserved(t, b, "a:{1}%", 10, true, 90)
	keys := []string{"sluice:tokens:{ada}:bg1:a:%7B1%7D%25", "sluice:tokens:{ada}:sr1:300000x201"}
	if diff := cmp.Diff(keys, m.Keys()); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if ttl := m.TTL(keys[0]); ttl != 10*time.Second+time.Millisecond {
		t.Errorf("the id is kept for %v, want 10.001s", ttl)
	}
	err := errOf(b.Reserve(background, "ada", "a:{1}%", 11))
	as[*loader.ArgumentError](t, err)
	wantError(t, err, `loader: budget_v1: id "a:{1}%": want the permits it was granted before`)
	m.FastForward(10*time.Second + time.Millisecond)
	err = b.Settle(background, "ada", "a:{1}%", 3)
	if !errors.Is(err, loader.ErrNotReserved) {
		t.Errorf("Settle after 10 s: %v", err)
	}
	wantError(t, err, `loader: tokens: Settle: id "a:{1}%" is not reserved, or no longer after 10s`)
	wantBudgetLeft(t, b, 90)
	for _, actual := range []int64{0, 1} {
		if err := b.Settle(background, "ada", "never", actual); !errors.Is(err, loader.ErrNotReserved) {
			t.Errorf("Settle %d of an id that was never reserved: %v", actual, err)
		}
	}
	wantReserved(t, b, "b", 10, true, 80)
	for _, actual := range []int64{0, 0, 7} { // the first one counts
		must(t, b.Settle(background, "ada", "b", actual))
	}
	wantBudgetLeft(t, b, 90)
	if err := errOf(b.Reserve(background, "ada", "b", 10)); err == nil || !strings.Contains(err.Error(), "id") {
		t.Errorf("a settled id reserved again: %v", err)
	}
}

// TestBudgetRefused passes what a budget does not take: it is refused without asking.
func TestBudgetRefused(t *testing.T) {
	limits, minute := loader.New(neverAsked(t)), []loader.Limit{loader.PerMinute(100)}
	const within = ": want 1ms to 366 days, in whole microseconds"
	for want, opt := range map[string]loader.LimiterOption{
		"MaxWait is not an option of Budget":                  loader.MaxWait(time.Second),
		"RememberDenials is not an option of Budget":          loader.RememberDenials(9),
		"ClientID is an option of TokenBucket, not of Budget": loader.ClientID("me"),
		"SettleWithin 999µs" + within:                         loader.SettleWithin(999 * time.Microsecond),
		"SettleWithin 8784h0m0.000001s" + within:              loader.SettleWithin(366*day + 1000),
		"SettleWithin 1.000000001s" + within:                  loader.SettleWithin(time.Second + 1),
	} {
		b := limits.Budget("x", minute, opt)
		for _, err := range []error{
			b.Check(), errOf(b.Peek(background, "s")), b.Reset(background, "s"), errOf(b.Reserve(background, "s", "a", 1)),
			b.Settle(background, "s", "a", 1), b.Charge(background, "s", "a", 1),
		} {
			as[*loader.ArgumentError](t, err)
			wantError(t, err, "loader: x: "+want)
		}
	}
	must(t, limits.Budget("x", minute, loader.SettleWithin(366*day), loader.Slice(time.Minute)).Check())
	wantError(t, limits.SliceRing("x", minute, loader.SettleWithin(day)).Check(),
		"loader: x: SettleWithin is an option of Budget, not of SliceRing")
	wantError(t, limits.Budget("x", nil).Check(), "loader: x: 0 limits: want 1 to 8")
	wantError(t, limits.Budget("x", []loader.Limit{{Permits: 5, Window: time.Minute, Burst: 2}}).Check(),
		"loader: x: burst 2: Budget has none, GCRA has")

	b, long := limits.Budget("x", minute), strings.Repeat("x", 129)
	for want, err := range map[string]error{
		`subject of 0 bytes: want 1 to 65536 bytes`: errOf(b.Reserve(background, "", "a", 1)),
		"estimate 0: want 1 or more":                errOf(b.Reserve(background, "s", "a", 0)),
		"Reserve(estimate=101) exceeds limit 100":   errOf(b.Reserve(background, "s", "a", 101)),
		`id "": want 1 to 128 bytes`:                errOf(b.Reserve(background, "s", "", 1)),
		`id "` + long + `": want 1 to 128 bytes`:    b.Settle(background, "s", long, 1),
		"actual -1: want 0 to 1000000000":           b.Settle(background, "s", "a", -1),
		"actual 1000000001: want 0 to 1000000000":   b.Charge(background, "s", "a", 1e9+1),
	} {
		wantError(t, err, "loader: x: "+want)
		if exceeds := strings.Contains(want, "exceeds"); errors.Is(err, loader.ErrExceedsLimit) != exceeds {
			t.Errorf("%v: ErrExceedsLimit %v", err, !exceeds)
		}
	}
	none := loader.Budget{}
	for _, err := range []error{
		none.Check(), errOf(none.Peek(background, "s")), none.Settle(background, "s", "a", 1),
		errOf(none.With(loader.PerMinute(1)).Reserve(background, "s", "a", 1)),
	} {
		wantError(t, err, "loader: bad limiter: want one that a method of Loader made")
	}
	d, err := b.With(loader.PerMinute(9), loader.Limit{}).Reserve(background, "s", "a", 1)
	if err != nil || d.Granted || d.Wait != loader.Never {
		t.Errorf("a budget of 0: %+v, %v; want a denial", d, err)
	}
}

// TestBudgetLostReplies loses the reply of each call: the loader asks again, and it is counted once.
func TestBudgetLostReplies(t *testing.T) {
	eachMode(t, func(t *testing.T, _ string, opts []loader.Option) {
		_, direct := fake(t)
		p := newProxy(t, direct.Options().Addr)
		limits := loader.New(client(t, p.addr), opts...)
		must(t, limits.Preload(background))
		b := budget100(limits)
		lose := []fault{{dropReply: true}, {}}
		p.next(lose...)
		wantReserved(t, b, "a", 30, true, 70)
		p.next(lose...)
		must(t, b.Settle(background, "ada", "a", 10))
		wantBudgetLeft(t, b, 90)
		p.next(lose...)
		must(t, b.Charge(background, "ada", "b", 15))
		wantBudgetLeft(t, b, 75)
		wantReserved(t, b, "c", 30, true, 45)
		p.next(lose...)
		must(t, b.Settle(background, "ada", "c", 0))
		wantBudgetLeft(t, b, 75)
		p.next(fault{dropReply: true}, fault{dropReply: true}, fault{dropReply: true}, fault{dropReply: true})
		lost := as[*loader.OutcomeUnknownError](t, errOf(b.Reserve(background, "ada", "d", 5)))
		if lost.ID != "d" || lost.Script != "budget_v1" {
			t.Errorf("%+v, want id d of budget_v1", lost)
		}
		must(t, b.Charge(background, "ada", "d", 0))
		wantBudgetLeft(t, b, 75)
	})
}

// TestSettleRidesOutAnOutage settles while Redis is loading: with a deadline Settle goes on until Redis is back or the
// deadline has come, without one it returns the error.
func TestSettleRidesOutAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
		b := budget100(limits)
		wantReserved(t, b, "a", 30, true, 70)
		m.SetError("LOADING it loads")
		settle := func(ctx context.Context, least, most time.Duration) error {
			started := time.Now()
			err := b.Settle(ctx, "ada", "a", 20)
			if took := time.Since(started); took < least || took > most {
				t.Errorf("it took %v, want %v to %v", took, least, most)
			}
			return err
		}
		for _, wait := range []time.Duration{0, 5 * time.Second} {
			ctx, cancel := background, func() {}
			if wait > 0 {
				ctx, cancel = context.WithTimeout(background, wait)
			}
			if err := settle(ctx, wait*9/10, wait+time.Second); err == nil || !strings.Contains(err.Error(), "LOADING") {
				t.Errorf("with %v: %v", wait, err)
			}
			cancel()
		}
		time.AfterFunc(3*time.Second, func() { m.SetError("") })
		must(t, settle(within(t, time.Minute), 3*time.Second, 4*time.Second))
		wantBudgetLeft(t, b, 80)
	})
}

// TestReserved settles whatever happens: Redis fails when it is time to, the work panics, the reply is lost, or a
// fallback has granted.
func TestReserved(t *testing.T) {
	inBubble(t, func(t *testing.T, m *miniredis.Miniredis, limits *loader.Loader) {
		tokens := budget100(limits)
		left := func(want int64) {
			t.Helper()
			must(t, limits.Flush(within(t, time.Minute)))
			wantBudgetLeft(t, tokens, want)
		}
		customer, leave := context.WithCancel(background)
		r, err := tokens.Reserved(customer, "ada", "a", 90)
		granted(t, r.Decision, err)
		m.SetError("LOADING it loads")
		leave()
		r.Used = 10
		if err := r.Settle(); err == nil || err != r.Settle() {
			t.Errorf("while Redis loads: %v", err)
		}
		if err := limits.Flush(within(t, time.Second)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush while Redis loads: %v", err)
		}
		time.AfterFunc(5*time.Second, func() { m.SetError("") })
		left(90)

		func() {
			defer func() { _ = recover() }()
			r, err := tokens.Reserved(background, "ada", "b", 20)
			defer r.Settle()
			granted(t, r.Decision, err)
			panic("the work")
		}()
		left(70)
		wantError(t, errOf(tokens.Reserve(background, "ada", "b", 20)), // it is settled
			`loader: budget_v1: id "b": want one that is not settled`)

		r, err = tokens.Reserved(background, "ada", "c", 71)
		if err != nil || r.Granted || r.Used != 0 || r.Settle() != nil {
			t.Errorf("denied: %+v, %v", r, err)
		}
		left(70)
		open := budget100(limits, loader.FailOpen())
		m.SetError("LOADING it loads")
		r, err = open.Reserved(background, "ada", "d", 30)
		granted(t, r.Decision, err)
		if r.Used = 20; r.Settle() == nil {
			t.Error("settled while Redis loads")
		}
		time.AfterFunc(5*time.Second, func() { m.SetError("") })
		left(50)
		if r, err := limits.Budget("", nil).Reserved(background, "ada", "e", 1); err == nil || r.Settle() != nil {
			t.Errorf("a budget that is wrong: %v", err)
		}
	})
	_, direct := fake(t)
	p := newProxy(t, direct.Options().Addr)
	tokens := budget100(loader.New(client(t, p.addr)))
	p.next(fault{dropReply: true}, fault{dropReply: true}, fault{dropReply: true}, fault{dropReply: true})
	r, err := tokens.Reserved(background, "ada", "f", 5)
	as[*loader.OutcomeUnknownError](t, err)
	must(t, r.Settle())
	wantBudgetLeft(t, tokens, 100)
}

// TestBudgetFallbacks lets a fallback answer for Reserve. What it granted is charged with Charge when Redis is back.
func TestBudgetFallbacks(t *testing.T) {
	limits := loader.New(unreachable(t))
	open := budget100(limits, loader.FailOpen())
	if d, err := open.Reserve(background, "ada", "a", 100); err != nil || !d.Granted || !d.Degraded {
		t.Errorf("FailOpen: %+v, %v", d, err)
	}
	if err := open.Settle(background, "ada", "a", 1); err == nil || errors.Is(err, loader.ErrNotReserved) {
		t.Errorf("FailOpen, Settle: %v", err)
	}
	local := budget100(limits, loader.FailLocal(0.5))
	for i, want := range []bool{true, false} {
		d, err := local.Reserve(background, "ada", "a", 40)
		if err != nil || d.Granted != want || !d.Degraded {
			t.Errorf("FailLocal, %d: %+v, %v; want granted %v", i, d, err, want)
		}
	}
	_, rdb := fake(t)
	back := budget100(loader.New(rdb, loader.Timeout(never)), loader.FailOpen())
	if err := back.Settle(background, "ada", "a", 70); !errors.Is(err, loader.ErrNotReserved) {
		t.Errorf("Settle of what a fallback granted: %v", err)
	}
	must(t, back.Charge(background, "ada", "a", 70))
	wantBudgetLeft(t, back, 30)
}

func TestBudgetObserved(t *testing.T) {
	w := &watcher{t: t}
	_, rdb := fake(t)
	limits := loader.New(rdb, loader.Observe(w))
	must(t, limits.Preload(background))
	b := budget100(limits)
	event := func(method, script string, permits int64, d loader.Decision) loader.Event {
		return loader.Event{
			Method: method, Script: script, Limiter: "tokens", Subject: "ada", Permits: permits, Decision: d, Attempts: 1,
		}
	}
	d := wantReserved(t, b, "a", 30, true, 70)
	w.saw(t, event("Reserve", "budget_v1", 30, d))
	must(t, b.Settle(background, "ada", "a", 0))
	must(t, b.Charge(background, "ada", "b", 7))
	done := loader.Decision{Granted: true, Now: d.Now}
	w.saw(t, event("Settle", "budget_settle_v1", 0, done), event("Charge", "budget_settle_v1", 7, done))
	if err := b.Settle(background, "ada", "x", 1); !errors.Is(err, loader.ErrNotReserved) {
		t.Error(err)
	}
	w.saw(t, event("Settle", "budget_settle_v1", 1, loader.Decision{}))
	never := event("Settle", "budget_settle_v1", -1, loader.Decision{})
	never.Attempts = 0
	as[*loader.ArgumentError](t, b.Settle(background, "ada", "x", -1))
	w.saw(t, never)
}

// TestBudgetMemory measures what ids take, and sees them go when their time is over.
func TestBudgetMemory(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	const requests = 2000
	windows := []loader.Limit{loader.PerMinute(200_000), loader.PerDay(5_000_000)}
	reserve := func(ttl time.Duration) {
		b := limits.Budget("tokens", windows, loader.SettleWithin(ttl))
		must(t, b.Charge(background, "ada", "the first", 1))
		for range requests {
			d, err := b.Reserve(background, "ada", rand.Text(), 1)
			granted(t, d, err)
		}
	}
	reserve(time.Millisecond)
	await(t, func() bool { return rdb.DBSize(background).Val() == int64(len(windows)) })
	used := func() (bytes int64) {
		_, info, _ := strings.Cut(rdb.Info(background, "memory").Val(), "used_memory:")
		must(t, errOf(fmt.Sscan(info, &bytes)))
		return bytes
	}
	before := used()
	reserve(time.Hour)
	bytes := (used() - before) / requests
	t.Logf("an id takes %d bytes", bytes)
	if bytes < 80 || bytes > 250 {
		t.Errorf("an id takes %d bytes, want about 200", bytes)
	}
}
