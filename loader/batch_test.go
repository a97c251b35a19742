package loader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// entriesGranted wants these entries of a batch to be granted, as 1, and the others denied, as 0.
func entriesGranted(t *testing.T, results []*loader.Result, want ...int) {
	t.Helper()
	got := make([]int, len(results))
	for i, r := range results {
		if r.Err != nil {
			t.Errorf("entry %d: %v", i, r.Err)
		}
		if r.Granted {
			got[i] = 1
		}
	}
	if diff := cmp.Diff(want, got, ofGrants); diff != "" {
		t.Error(diff)
	}
}

// wantBatch sends a batch, and wants these of its entries to be granted, as 1, and the others denied, as 0.
func wantBatch(t *testing.T, batch *loader.Batch, want ...int) []*loader.Result {
	t.Helper()
	results, err := batch.Do(background)
	must(t, err)
	entriesGranted(t, results, want...)
	return results
}

// TestBatchDecidesAsSingleCalls runs the same calls one by one and in a batch, on a clock that stands still.
func TestBatchDecidesAsSingleCalls(t *testing.T) {
	_, rdb := fake(t)
	one, all := loader.New(rdb, loader.Prefix("one")), loader.New(rdb, loader.Prefix("all"))
	batch := all.Batch()
	var want []loader.Decision
	for _, m := range makers {
		single, batched := m.make(one, loader.PerMinute(5)), m.make(all, loader.PerMinute(5))
		for _, n := range []int64{0, 1, 3, 2, 0, 1, 1} {
			for _, subject := range []string{"ada", "bob{}"} {
				d, err := single.Peek(background, subject)
				add := func() { batch.Peek(batched, subject) }
				if n > 0 {
					d, err = single.AllowN(background, subject, n)
					add = func() { batch.AllowN(batched, subject, n) }
				}
				must(t, err)
				want = append(want, d)
				add()
			}
		}
	}
	results, err := batch.Do(background)
	must(t, err)
	got := make([]loader.Decision, len(results))
	for i, r := range results {
		got[i] = r.Decision
	}
	if diff := cmp.Diff(want, got, ofGrants); diff != "" {
		t.Error(diff)
	}
}

// TestZeroBatchAndAll uses those that no Loader made: they return an error.
func TestZeroBatchAndAll(t *testing.T) {
	log := loader.New(neverAsked(t)).ListLog("x", loader.PerMinute(2))
	var batch loader.Batch
	wantError(t, errOf(batch.Do(background)), "loader: bad Batch: want one that Loader.Batch made")
	entry := batch.Allow(log, "s")
	wantError(t, errOf(batch.Do(background)), "loader: bad Batch: want one that Loader.Batch made")
	as[*loader.ArgumentError](t, entry.Err)
	var all loader.All
	all.Allow(log, "s")
	as[*loader.ArgumentError](t, errOf(all.Do(background)))
}

// stranger is a limiter of someone else.
type stranger struct{ loader.Limiter }

// TestBatchKeepsEntriesApart has entries of all fates in one batch, which is sent in one round trip.
func TestBatchKeepsEntriesApart(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		must(t, limits.Preload(background))
		log := limits.ListLog("x", loader.PerMinute(2))
		must(t, rdb.Set(background, "sluice:x:{bad}:ll1", "x", 0).Err())
		var trips []int
		rdb.AddHook(hook{piped: func(cmds []redis.Cmder) { trips = append(trips, len(cmds)) }})

		batch := limits.Batch()
		added := []*loader.Result{
			batch.Allow(log, "s"),
			batch.Allow(log, "bad"),
			batch.Allow(log, ""),
			batch.AllowN(log, "s", 3),
			batch.AllowN(log, "s", 0),
			batch.Allow(log.With(loader.Limit{}), "s"),
			batch.Allow(loader.New(rdb).ListLog("x", loader.PerMinute(2)), "s"),
			batch.Allow(stranger{log}, "s"),
			batch.Allow(loader.ListLog{}, "s"),
			batch.Allow(nil, "s"),
			batch.Allow(log.With(loader.Limit{Permits: 1, Window: time.Nanosecond}), "s"),
			batch.AllowN(limits.TokenBucket("x", loader.PerMinute(2)), "s", 3),
			batch.Allow(log, "s"),
			batch.Allow(log, "s"),
			batch.Peek(log, "s"),
		}
		if added[0].Err == nil || added[0].Granted {
			t.Error("it has an outcome before Do")
		}
		results, err := batch.Do(background)
		if !slices.Equal(results, added) || !slices.Equal(trips, []int{3}) {
			t.Errorf("%d results, %d were added; pipelines of %d", len(results), len(added), trips)
		}
		for i, wanted := range map[int]error{3: loader.ErrExceedsLimit} {
			if !errors.Is(results[i].Err, wanted) || !errors.Is(err, wanted) {
				t.Errorf("entry %d: %v", i, results[i].Err)
			}
		}
		if e := as[*loader.StateError](t, results[1].Err); e.Code != "WRONGTYPE" || e.Keys[0] != "sluice:x:{bad}:ll1" {
			t.Error(e)
		}
		for i, argument := range map[int]string{
			2: "subject", 4: "n", 6: "limiter", 7: "limiter", 8: "limiter", 9: "limiter", 10: "window", 11: "permits",
		} {
			if e := as[*loader.ArgumentError](t, results[i].Err); e.Argument != argument {
				t.Errorf("entry %d: %v", i, e)
			}
		}
		if d := results[5]; d.Err != nil || d.Granted || d.Wait != loader.Never {
			t.Errorf("a limit of 0: %+v", d)
		}
		entriesGranted(t, []*loader.Result{results[0], results[12], results[13], results[14]}, 1, 1, 0, 0)

		batch.Allow(log, "again")
		wantBatch(t, batch, 1)
	})
}

func TestBatchWithoutServer(t *testing.T) {
	limits := loader.New(neverAsked(t))
	if results, err := limits.Batch().Do(background); len(results) != 0 || err != nil {
		t.Errorf("nothing: %v, %v", results, err)
	}
	batch := limits.Batch()
	denied := batch.Allow(limits.GCRA("x", loader.Limit{}), "s")
	if _, err := batch.Do(background); err != nil || denied.Granted || denied.Wait != loader.Never {
		t.Errorf("a limit of 0: %+v, %v", denied, err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	late := batch.Allow(limits.GCRA("x", loader.PerMinute(1)), "s")
	_, err := batch.Do(ctx)
	if !errors.Is(err, context.Canceled) || late.Err.Error() != "loader: gcra_v1: context canceled" {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestBatchReloads has scripts missing: each is loaded once, and only the entries that missed theirs are sent
// again, in their order.
func TestBatchReloads(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		must(t, rdb.ScriptLoad(background, sluice.GCRAManyV1().Source).Err())
		var trips []string
		var loads atomic.Int64
		rdb.AddHook(hook{
			before: func(cmd redis.Cmder) { loads.Add(int64(strings.Count(cmd.Name(), "script"))) },
			piped: func(cmds []redis.Cmder) {
				var keys []string
				for _, cmd := range cmds {
					keys = append(keys, cmd.Args()[3].(string))
				}
				trips = append(trips, strings.Join(keys, " "))
			},
		})
		gcra, log, zset := limits.GCRA("x", loader.PerMinute(2)), limits.ListLog("x", loader.PerMinute(2)),
			limits.ZSetLog("x", loader.PerMinute(2))
		batch := limits.Batch()
		for range 3 {
			for _, subject := range []string{"a", "b"} {
				batch.Allow(log, subject)
				batch.Allow(gcra, subject)
				batch.Allow(zset, subject)
			}
		}
		wantBatch(t, batch, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0)
		again := "sluice:x:{a}:ll1" + strings.Repeat(" sluice:x:{a}:zl1 sluice:x:{b}:zl1", 3) // ListLog's together
		if len(trips) != 2 || trips[1] != again || loads.Load() != 2 {
			t.Errorf("%d loads, pipelines:\n%s", loads.Load(), strings.Join(trips, "\n"))
		}
	})
}

// TestBatchRefusalsAreRetried has a server refuse one of two entries with what proves that it has not run.
func TestBatchRefusalsAreRetried(t *testing.T) {
	server := redistest.Start(t)
	p := newProxy(t, server.Addr)
	rdb := client(t, p.addr)
	var trips []int
	rdb.AddHook(hook{
		before: func(cmd redis.Cmder) {
			if cmd.Name() == "evalsha" {
				trips = append(trips, 1)
			}
		},
		piped: func(cmds []redis.Cmder) { trips = append(trips, len(cmds)) },
	})
	limits := loader.New(rdb, loader.Timeout(never))
	must(t, loader.New(client(t, server.Addr)).Preload(background))
	log := limits.ListLog("x", loader.PerMinute(5))
	const answered = "*5\r\n:1\r\n:7\r\n:0\r\n:0\r\n:9\r\n"
	for _, code := range []string{"LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY", "NOREPLICAS"} {
		t.Run(code, func(t *testing.T) {
			trips = nil
			batch := limits.Batch()
			first, other := batch.Allow(log, code), batch.Allow(log, code)
			p.next(fault{answer: "-" + code + " for a short time\r\n" + answered})
			_, err := batch.Do(background)
			must(t, err)
			if first.Remaining != 4 || other.Remaining != 7 || !slices.Equal(trips, []int{2, 1}) {
				t.Errorf("%d and %d remain, after trips of %d", first.Remaining, other.Remaining, trips)
			}
			refusal := fault{answer: "-" + code + " for ever\r\n"}
			p.next(append([]fault{{answer: refusal.answer + answered}}, slices.Repeat([]fault{refusal}, 20)...)...)
			first, other = batch.Allow(log, code), batch.Allow(log, code)
			_, err = batch.Do(background)
			granted(t, other.Decision, other.Err)
			if first.Err == nil || !strings.Contains(err.Error(), "for ever") || errors.Is(err, loader.ErrOutcomeUnknown) {
				t.Errorf("refused for ever: %v", first.Err)
			}
		})
	}
	t.Run("a short reply", func(t *testing.T) {
		p.next(fault{answer: "*2\r\n:1\r\n:2\r\n" + answered})
		batch := limits.Batch()
		short, other := batch.Allow(log, "short"), batch.Allow(log, "short")
		_, _ = batch.Do(background)
		if short.Err == nil || other.Err != nil {
			t.Errorf("%v, %v", short.Err, other.Err)
		}
	})
}

// TestBatchPauseIsCutShort cancels a batch in its pause: its entries, none of which has run, end at once.
func TestBatchPauseIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(background)
		rdb := unreachable(t)
		rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, _ func() error) error {
			if load, ok := cmds[0].(*redis.StringCmd); ok {
				load.SetVal(sluice.ListLogV1SHA1)
				return nil
			}
			time.AfterFunc(3*time.Millisecond, cancel)
			cmds[0].SetErr(serverError("LOADING for a short time"))
			cmds[1].SetErr(serverError("NOSCRIPT it is missing"))
			return cmds[0].Err()
		}))
		limits := loader.New(rdb)
		batch, log := limits.Batch(), limits.ListLog("x", loader.PerMinute(5))
		batch.Allow(log, "s")
		batch.Allow(log, "s")
		began := time.Now()
		results, _ := batch.Do(ctx)
		if took := time.Since(began); took != 3*time.Millisecond {
			t.Errorf("took %v", took)
		}
		for _, r := range results {
			if !errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, loader.ErrOutcomeUnknown) ||
				strings.Contains(r.Err.Error(), "%!") {
				t.Error(r.Err)
			}
		}
	})
}

// TestBatchLostReplies loses the replies of a batch, or all but the first: what cannot be asked again is
// reported, and nothing is charged twice.
func TestBatchLostReplies(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb, loader.Timeout(never))
	ctx := within(t, time.Hour)
	losses := append(losses[:len(losses):len(losses)], struct {
		name    string
		fault   fault
		charged int64
	}{"all but the first reply lost", fault{first: 1}, 1})
	for _, loss := range losses {
		for name, ctx := range map[string]context.Context{"background": background, "deadline": ctx} {
			t.Run(loss.name+" "+name, func(t *testing.T) {
				subject := t.Name()
				log, zset := limits.ListLog("x", loader.PerHour(5)), limits.ZSetLog("x", loader.PerHour(5))
				batch := limits.Batch()
				first := batch.Allow(log, subject+" first")
				plain := batch.Allow(log, subject)
				withID := batch.AllowN(zset, subject, 2)
				look := batch.Peek(log, subject+" other")
				p.next(loss.fault, loss.fault)
				_, err := batch.Do(ctx)

				e := as[*loader.OutcomeUnknownError](t, plain.Err)
				if !errors.Is(err, loader.ErrOutcomeUnknown) || e.Script != "list_log_v1" || len(e.Keys) != 1 {
					t.Errorf("%+v", e)
				}
				if n := direct.LLen(background, e.Keys[0]).Val(); n != loss.charged {
					t.Errorf("charged %d times, want %d", n, loss.charged)
				}
				if loss.fault.first == 1 {
					granted(t, first.Decision, first.Err)
				} else {
					as[*loader.OutcomeUnknownError](t, first.Err)
				}
				granted(t, withID.Decision, withID.Err)
				if withID.Remaining != 3 {
					t.Errorf("with an id: %d remain, want 3", withID.Remaining)
				}
				if look.Err != nil || look.Remaining != 5 {
					t.Errorf("a look: %+v", look)
				}
			})
		}
	}
}

// TestBatchDeadlineIsKept has one of two shards keep its replies: those of the other are not lost with them.
func TestBatchDeadlineIsKept(t *testing.T) {
	servers := []*redis.Client{real(t), real(t)}
	p := newProxy(t, servers[1].Options().Addr)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs:           map[string]string{"a": servers[0].Options().Addr, "b": p.addr},
		DisableIdentity: true, ReadTimeout: 10 * time.Second,
	})
	t.Cleanup(func() { _ = ring.Close() })
	for _, server := range servers {
		must(t, loader.New(server).Preload(background))
	}
	limits := loader.New(ring, loader.Timeout(2*time.Second))
	log := limits.ListLog("x", loader.PerHour(5))
	batch := limits.Batch()
	for i := range 20 {
		batch.Allow(log, fmt.Sprint(i))
		batch.Peek(log, fmt.Sprint(i))
	}
	p.next(fault{silence: true})
	started := time.Now()
	results, err := batch.Do(background)
	if elapsed := time.Since(started); elapsed > 5*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v after %v", err, elapsed)
	}
	var answered, missing int
	for i, r := range results {
		key := fmt.Sprintf("sluice:x:{%d}:ll1", i/2)
		there := servers[0].Exists(background, key).Val() == 1
		switch {
		case there && r.Err == nil:
			answered++
		case !there && r.Err != nil && errors.Is(r.Err, loader.ErrOutcomeUnknown) == (i%2 == 0):
			missing++
		default:
			t.Errorf("entry %d, on the first shard %v: %v", i, there, r.Err)
		}
	}
	if answered == 0 || missing == 0 {
		t.Errorf("%d answered, %d missing", answered, missing)
	}
}

// TestBatchRemembersDenials has a batch answer from what single calls were denied, and the reverse.
func TestBatchRemembersDenials(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	log := limits.ListLog("x", loader.PerMinute(1), loader.RememberDenials(10))
	for _, subject := range []string{"a", "b"} {
		wantGrant(t, log, subject, 1)
	}
	d := wantDenial(t, log, "a", 1)
	var sent atomic.Int64
	rdb.AddHook(hook{
		before: func(cmd redis.Cmder) {
			if cmd.Name() == "evalsha" {
				sent.Add(1)
			}
		},
		piped: func(cmds []redis.Cmder) { sent.Add(int64(len(cmds))) },
	})

	batch := limits.Batch()
	batch.Allow(log, "a")
	batch.Allow(log, "b")
	batch.Peek(log, "a")
	results := wantBatch(t, batch, 0, 0, 0)
	if n := sent.Swap(0); n != 2 {
		t.Errorf("%d calls, want those of b and of the look", n)
	}
	if got := results[0].Wait; got <= 0 || got > d.Wait {
		t.Errorf("remembered, it has to wait %v, was %v", got, d.Wait)
	}
	d = wantDenial(t, log, "b", 1)
	if n := sent.Load(); n != 0 {
		t.Errorf("%d calls for what the batch was denied", n)
	}
}

// TestBatchReserves books in a batch, and gives back.
func TestBatchReserves(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	log := limits.ZSetLog("x", loader.Limit{Permits: 2, Window: time.Minute}, loader.MaxWait(30*time.Second))
	batch := limits.Batch()
	now := batch.Reserve(log.WithID("a"), "s")
	full := batch.ReserveN(log, "s", 2)
	wrong := batch.ReserveN(log, "s", 3)
	none := batch.Reserve(log.With(loader.Limit{}), "s")
	allowed := batch.Allow(log, "s")
	if _, err := batch.Do(background); !errors.Is(err, loader.ErrExceedsLimit) {
		t.Error(err)
	}
	entriesGranted(t, []*loader.Result{now, full, none, allowed}, 1, 0, 0, 1)
	if r := now.Reservation; !r.OK() || r.Delay() != 0 || !cmp.Equal(r.Decision(), now.Decision) {
		t.Errorf("%+v", r)
	}
	if full.Reservation.OK() || none.Reservation.OK() || wrong.Reservation != nil || allowed.Reservation != nil {
		t.Errorf("booked: %+v, %+v, %+v, %+v", full, none, wrong, allowed)
	}
	must(t, now.Reservation.Cancel(background)) // its time has come: nothing is given back
	wantReturned(t, log, "s", now.Decision, 1, 1)
	batch.Reserve(log, "s")
	wantBatch(t, batch, 1)

	ahead := limits.ListLog("ahead", loader.PerSecond(1))
	batch.Reserve(ahead, "s")
	batch.Reserve(ahead, "s")
	results, err := batch.Do(background)
	must(t, err)
	if d := results[1].Reservation.Delay(); d <= 0 || d > time.Second || results[1].Wait != time.Second {
		t.Errorf("a delay of %v, a wait of %v", d, results[1].Wait)
	}
}
