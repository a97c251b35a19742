package loader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

var _, _, _ loader.Returner = loader.ListLog{}, loader.ZSetLog{}, loader.SliceRing{}

// eachReturner runs a test for each limiter that can give back.
func eachReturner(t *testing.T, test func(t *testing.T, m making)) {
	for _, m := range makers {
		if m.name != "GCRA" && m.name != "TokenBucket" {
			t.Run(m.name, func(t *testing.T) { test(t, m) })
		}
	}
}

// returner makes a limiter that can give back.
func (m making) returner(l *loader.Loader, limit loader.Limit, opts ...loader.LimiterOption) loader.Returner {
	return m.make(l, limit, opts...).(loader.Returner)
}

// TestGiveBack gives back what was granted to another process, whose decision comes as JSON, to a server that has lost
// its scripts.
func TestGiveBack(t *testing.T) {
	eachReturner(t, func(t *testing.T, m making) {
		each(t, func(t *testing.T, rdb *redis.Client) {
			limiter := m.returner(loader.New(rdb), loader.PerMinute(5))
			wantGrant(t, limiter, "s", 1)
			d := wantGrant(t, limiter, "s", 4)
			if d.Permits != 4 || !strings.HasPrefix(d.Key, "sluice:test:{s}:"+m.tail) || (d.ID != "") != (m.name == "ZSetLog") {
				t.Errorf("%+v", d)
			}
			text, err := json.Marshal(d)
			must(t, err)
			d = loader.Decision{}
			must(t, json.Unmarshal(text, &d))
			denial := wantDenial(t, limiter, "s", 1)
			must(t, rdb.ScriptFlush(background).Err())
			wantReturned(t, limiter, "s", denial, 0, 1)
			wantReturned(t, limiter, "s", d, 3, 3)
			wantRemaining(t, limiter, "s", 3)
			wantReturned(t, limiter, "s", d, 1, 1)
			wantRemaining(t, limiter, "s", 4)
			wantGrant(t, limiter, "s", 4)
			wantDenial(t, limiter, "s", 1)
		})
	})
}

// TestGiveBackWrong has callers give back what they were not granted: nothing is sent.
func TestGiveBackWrong(t *testing.T) {
	eachReturner(t, func(t *testing.T, m making) {
		_, rdb := fake(t)
		d := wantGrant(t, m.make(loader.New(rdb), loader.PerMinute(5)), "s", 2)
		limits := loader.New(neverAsked(t))
		limiter := m.returner(limits, loader.PerMinute(5))
		unlike := fmt.Sprintf("loader: test: decision %q: want one of this limiter about this subject: sluice:test:{", d.Key)
		for _, wrong := range []struct {
			limiter loader.Returner
			subject string
			d       loader.Decision
			n       int64
			want    string
		}{
			{limiter, "s", d, 3, "loader: test: n 3: want up to 2, as many as were granted"},
			{limiter, "s", d, 0, "loader: test: n 0: want 1 or more"},
			{limiter, "s", d, -1, "loader: test: n -1: want 1 or more"},
			{limiter, "other", d, 1, unlike + "other}:" + m.tail},
			{limiter, "", d, 1, `loader: test: subject of 0 bytes: want 1 to 65536 bytes`},
			{limiter, "s", loader.Decision{Granted: true, Permits: 1}, 1, strings.Replace(unlike, fmt.Sprintf("%q", d.Key),
				`""`, 1) + "s}:" + m.tail + "; of an All take Parts[i].Decision"},
		} {
			returned, err := wrong.limiter.GiveBack(background, wrong.subject, wrong.d, wrong.n)
			if e := as[*loader.ArgumentError](t, err); returned != 0 || e.Error() != wrong.want {
				t.Errorf("%d, %v\nwant %s", returned, err, wrong.want)
			}
		}
		for name, none := range map[string]loader.Decision{
			"a denial": {Wait: time.Second}, "a fallback's": {Granted: true, Permits: 1, Degraded: true},
		} {
			if returned, err := limiter.GiveBack(background, "s", none, 1); returned != 0 || err != nil {
				t.Errorf("%s: %d, %v", name, returned, err)
			}
		}
	})
	// An id is the caller's own words.
	_, rdb := fake(t)
	log := loader.New(rdb).ZSetLog("x", loader.PerMinute(5))
	for _, wrong := range []loader.Decision{
		{Granted: true, Permits: 1, ID: "a|b"}, {Granted: true, Permits: 501, ID: "a"},
	} {
		as[*loader.ArgumentError](t, errOf(log.GiveBack(background, "s", wrong, wrong.Permits)))
	}
}

// TestGiveBackIsSentOnce loses the reply to a return. It is repeated only if it gives back all that an id was granted,
// also by Call.
func TestGiveBackIsSentOnce(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		p, rdb, direct := lossy(t)
		limits := loader.New(rdb, opts...)
		eachReturner(t, func(t *testing.T, m making) {
			limiter := m.returner(limits, loader.PerHour(10))
			left := m.make(loader.New(direct), loader.PerHour(10))
			for _, n := range []int64{2, 4} {
				d := wantGrant(t, limiter, "s", 4)
				remaining, sent := d.Remaining, p.seen.Load()
				p.next(fault{dropReply: true})
				returned, err := limiter.GiveBack(background, "s", d, n)
				sent = p.seen.Load() - sent
				if m.name == "ZSetLog" && n == 4 {
					if err != nil || returned != 0 || sent != 2 {
						t.Errorf("all of an id: %d, %v after %d commands; want it repeated", returned, err, sent)
					}
				} else if !errors.Is(err, loader.ErrOutcomeUnknown) || returned != 0 || sent != 1 {
					t.Errorf("%d: %d, %v after %d commands; want one of unknown outcome", n, returned, err, sent)
				}
				wantRemaining(t, left, "s", remaining+n)
			}
		})
		log := limits.ZSetLog("part", loader.PerHour(10))
		d := wantGrant(t, log, "s", 4)
		p.next(fault{dropReply: true})
		_, err := log.GiveBack(background, "s", d, 1)
		as[*loader.OutcomeUnknownError](t, err)
		wantRemaining(t, log, "s", 7)
	})
}

// TestObserverOfReturns wants one event of each return, with how many permits were given back.
func TestObserverOfReturns(t *testing.T) {
	eachReturner(t, func(t *testing.T, m making) {
		w := &watcher{t: t}
		_, rdb := fake(t)
		limits := loader.New(rdb, loader.Observe(w))
		must(t, limits.Preload(background))
		limiter := m.returner(limits, loader.PerMinute(5))
		d := wantGrant(t, limiter, "ada", 2)
		w.forget()
		wantReturned(t, limiter, "ada", d, 2, 2)
		script := strings.Replace(m.script, "_v1", "_return_v1", 1)
		w.saw(t, loader.Event{
			Method: "GiveBack", Script: script, Limiter: "test", Subject: "ada", Permits: 2, Returned: 2, Attempts: 1,
		})
		must(t, rdb.Set(background, d.Key, "x", 0).Err())
		must(t, rdb.Del(background, d.Key).Err())
		must(t, rdb.HSet(background, d.Key, "x", "y").Err())
		as[*loader.StateError](t, errOf(limiter.GiveBack(background, "ada", d, 2)))
		w.saw(t, loader.Event{
			Method: "GiveBack", Script: script, Limiter: "test", Subject: "ada", Permits: 2, Attempts: 1,
		})
	})
}

func TestReservationCancel(t *testing.T) {
	for _, m := range makers[:2] {
		t.Run(m.name, func(t *testing.T) {
			each(t, func(t *testing.T, rdb *redis.Client) { testReservationCancel(t, rdb, m) })
		})
	}
}

func testReservationCancel(t *testing.T, rdb *redis.Client, m making) {
	limits := loader.New(rdb)
	log := m.make(limits, loader.PerMinute(3)).(loader.Reserver)
	now, err := log.ReserveN(background, "s", 3)
	must(t, err)
	must(t, now.Wait(background))
	must(t, now.Cancel(background)) // its time has come: the permits may have been used
	wantDenial(t, log, "s", 1)

	ahead := m.make(limits, loader.Limit{Permits: 3, Window: 30 * time.Second}).(loader.Reserver)
	wantGrant(t, ahead, "t", 3)
	var booked [3]*loader.Reservation // for the same moment
	for i := range booked {
		if booked[i], err = ahead.Reserve(background, "t"); err != nil || !booked[i].OK() || booked[i].Delay() == 0 {
			t.Fatalf("%+v, %v: not booked ahead", booked[i], err)
		}
	}
	due := func(r *loader.Reservation) time.Time { return r.Decision().Now.Add(r.Decision().Wait) }
	for range 3 { // only the first time gives back, and only its own
		must(t, booked[1].Cancel(background))
	}
	again, err := ahead.Reserve(background, "t")
	must(t, err)
	next, err := ahead.Reserve(background, "t")
	must(t, err)
	if !due(again).Equal(due(booked[0])) || !due(next).After(due(booked[0])) {
		t.Errorf("due at %v, then %v; want one for %v, which is full then", due(again), due(next), due(booked[0]))
	}
}

// TestCancelUnsupported wants the error at once, and the limiters that can.
func TestCancelUnsupported(t *testing.T) {
	for _, m := range makers {
		if m.name != "GCRA" && m.name != "TokenBucket" {
			continue
		}
		_, rdb := fake(t)
		limiter := m.make(loader.New(rdb), loader.PerMinute(1)).(loader.Reserver)
		for range 2 {
			r, err := limiter.Reserve(background, "s")
			must(t, err)
			rdb.AddHook(hook{before: func(cmd redis.Cmder) {
				if strings.HasPrefix(cmd.Name(), "eval") && strings.Contains(fmt.Sprint(cmd.Args()...), "return") {
					t.Errorf("%v was sent", cmd)
				}
			}})
			err = r.Cancel(background)
			wantError(t, err,
				"loader: test: "+m.name+" cannot give permits back, ListLog and ZSetLog can: unsupported operation")
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Error(err)
			}
		}
	}
}

// TestCancelAgain cancels after an error. If nothing ran, it is done now; if it may have, a ListLog leaves it.
func TestCancelAgain(t *testing.T) {
	for _, m := range makers[:2] {
		t.Run(m.name, func(t *testing.T) {
			p, rdb, direct := lossy(t)
			limiter := m.make(loader.New(rdb), loader.Limit{Permits: 1, Window: 30 * time.Second}).(loader.Reserver)
			key := "sluice:test:{s}:" + m.tail
			count := func() int64 {
				return direct.LLen(background, key).Val() + direct.ZCard(background, key).Val()
			}
			wantGrant(t, limiter, "s", 1)
			first, err := limiter.Reserve(background, "s")
			must(t, err)
			p.next(fault{answer: "-OOM command not allowed\r\n"})
			if err := first.Cancel(background); err == nil || count() != 2 {
				t.Errorf("%v, %d are booked", err, count())
			}
			must(t, first.Cancel(background))
			if n := count(); n != 1 {
				t.Errorf("%d are booked, want 1", n)
			}
			second, err := limiter.Reserve(background, "s")
			must(t, err)
			p.next(fault{dropRequest: true}, fault{dropRequest: true}, fault{dropRequest: true}, fault{dropRequest: true})
			as[*loader.OutcomeUnknownError](t, second.Cancel(background))
			p.next()
			must(t, second.Cancel(background))
			if n, want := count(), map[string]int64{"ListLog": 2, "ZSetLog": 1}[m.name]; n != want {
				t.Errorf("%d are booked, want %d", n, want)
			}
		})
	}
}

// TestFlush waits for what is sent in the background, and no longer than its context.
func TestFlush(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb)
	must(t, limits.Flush(background))
	log := limits.ListLog("x", loader.Limit{Permits: 1, Window: 30 * time.Second})
	wantGrant(t, log, "s", 1)
	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(20*time.Millisecond, func() {
		p.next(fault{late: 40 * time.Millisecond})
		cancel()
	})
	if err := log.Wait(ctx, "s"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := limits.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the return was in flight: %v", err)
	}
	must(t, limits.Flush(background))
	if n := direct.LLen(background, "sluice:x:{s}:ll1").Val(); n != 1 {
		t.Errorf("%d are booked, want 1", n)
	}
}

// TestReturnPanics has a hook panic in a return that nobody waits for: it is logged.
func TestReturnPanics(t *testing.T) {
	_, rdb := fake(t)
	logger, b := newLog()
	limits := loader.New(rdb, loader.Logger(logger))
	log := limits.ListLog("x", loader.Limit{Permits: 1, Window: 30 * time.Second})
	wantGrant(t, log, "s", 1)
	ctx, cancel := context.WithCancel(background)
	rdb.AddHook(hook{before: func(cmd redis.Cmder) {
		if cmd.Args()[1] == sluice.ListLogReturnV1().SHA1 {
			panic("a hook")
		}
	}})
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := log.Wait(ctx, "s"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, limits.Flush(background))
	if !strings.Contains(b.String(), `panic="a hook"`) && !strings.Contains(b.String(), `"a hook"`) {
		t.Errorf("logged: %s", b)
	}
}
