package admit_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// Requests are held until their permits come: booked one after the other, or asked again. What would take longer than
// the delay is refused.
func TestDelay(t *testing.T) {
	rdb := redistest.Client(t, miniredis.RunT(t).Addr()) // its clock goes on
	limits := loader.New(rdb, loader.Timeout(10*time.Second))
	rate := loader.Limit{Permits: 1, Window: 300 * time.Millisecond}
	for name, limiters := range map[string][]loader.Limiter{
		"booked":      {limits.ListLog("booked", rate)},
		"smooth":      {limits.GCRA("smooth", rate)},
		"a ring":      {limits.SliceRing("ring", []loader.Limit{rate})},
		"all or none": {limits.ListLog("each", loader.PerMinute(100)), limits.ListLog("both", rate)},
	} {
		t.Run(name, func(t *testing.T) {
			door := door{Limits: limits, Options: options{Delay: time.Second}}
			for _, limiter := range limiters {
				door.Charges = append(door.Charges, charge{Limiter: limiter, Key: all})
			}
			d := checked(t, door)
			var granted, refused atomic.Int64
			var callers sync.WaitGroup
			for range 8 { // one is granted at once, and three within a second, if they are asked in time
				callers.Go(func() {
					switch r := ask(t, d); {
					case r.Outcome == admission.Denied:
						refused.Add(1)
					case r.Outcome == admission.Allowed && r.Decisions[0].Wait == 0:
						granted.Add(1)
					default:
						t.Errorf("%+v", r)
					}
				})
			}
			callers.Wait()
			n := granted.Load()
			if n < 2 || n > 4 || n+refused.Load() != 8 || name == "booked" && n != 4 {
				t.Errorf("%d granted and %d refused of 8", n, refused.Load())
			}
		})
	}
}

// A request that is held gives its permits back if its caller leaves.
func TestDelayCallerLeaves(t *testing.T) {
	f := newFake(t)
	api := f.ListLog("api", loader.Limit{Permits: 1, Window: 40 * time.Second})
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: options{Delay: time.Minute}})
	wantOutcome(t, ask(t, d), admission.Allowed)
	ctx, leave := context.WithCancel(t.Context())
	f.whenDecided(leave)
	var q admit.Request
	d.Decide(ctx, &q, "ada", both)
	wantOutcome(t, q.Result, admission.CallerGone)
	must(t, f.Flush(t.Context()))
	f.pass(40 * time.Second)
	wantRemaining(t, f, api, 1)
}

// What was held is given back too, if it does not count.
func TestDelayGivesBack(t *testing.T) {
	limits := loader.New(redistest.Client(t, miniredis.RunT(t).Addr()), loader.Timeout(10*time.Second))
	api := limits.ListLog("api", loader.Limit{Permits: 2, Window: 2 * time.Second})
	counted := charge{Limiter: api, Key: all, CountIf: failed}
	d := checked(t, door{Charges: []charge{counted}, Options: options{Delay: time.Minute}})
	_, err := api.AllowN(t.Context(), "all", 2)
	must(t, err)
	var q admit.Request
	d.Decide(t.Context(), &q, "ada", both)
	wantOutcome(t, q.Result, admission.Allowed)
	before, err := api.Peek(t.Context(), "all")
	must(t, err)
	must(t, q.Finish(t.Context(), 200))
	after, err := api.Peek(t.Context(), "all")
	if err != nil || after.Remaining != before.Remaining+1 {
		t.Errorf("%d permits left, and then %d, %v", before.Remaining, after.Remaining, err)
	}
}

// No more are held than MaxHeld, and nobody beyond a deadline.
func TestDelayBounds(t *testing.T) {
	f := newFake(t)
	api := f.ListLog("api", loader.Limit{Permits: 1, Window: 25 * time.Second})
	o := options{Delay: time.Minute, MaxHeld: 1}
	d := checked(t, door{Charges: []charge{{Limiter: api, Key: all}}, Options: o})
	wantOutcome(t, ask(t, d), admission.Allowed)
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var q admit.Request
	d.Decide(soon, &q, "ada", both)
	if wantOutcome(t, q.Result, admission.Denied); q.RetryAfter != 25*time.Second {
		t.Errorf("with a deadline before: %+v", q.Result)
	}
	isHeld, held := make(chan struct{}), sync.WaitGroup{}
	f.whenDecided(sync.OnceFunc(func() { close(isHeld) }))
	ctx, leave := context.WithCancel(t.Context())
	held.Go(func() {
		var q admit.Request
		d.Decide(ctx, &q, "ada", both)
	})
	<-isHeld
	if r := ask(t, d); r.Outcome != admission.Denied || r.RetryAfter != 50*time.Second {
		t.Errorf("while one is held: %+v", r)
	}
	leave()
	held.Wait()
	o.Delay = time.Nanosecond
	wrong := door{Charges: []charge{{Limiter: api, Key: all}}, Options: o, Package: "door", Read: readCharge}
	if wrong.Init(); wrong.Check() == nil {
		t.Error("a delay of 1ns has no error")
	}
}
