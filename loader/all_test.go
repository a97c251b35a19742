package loader_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// three are the limiters of most of these tests: 3, 4 and 5 permits an hour.
func three(
	limits *loader.Loader, opts ...loader.LimiterOption,
) (address loader.ListLog, account loader.ZSetLog, service loader.SliceRing) {
	return limits.ListLog("address", loader.PerHour(3), opts...), limits.ZSetLog("account", loader.PerHour(4), opts...),
		limits.SliceRing("service", []loader.Limit{loader.PerHour(5)}, opts...)
}

// allOf is an All of the three for one subject each, with n permits of the account.
func allOf(limits *loader.Loader, n int64, opts ...loader.LimiterOption) *loader.All {
	address, account, service := three(limits, opts...)
	all := limits.All()
	all.Allow(address, "192.0.2.7")
	all.AllowN(account, "ada", n)
	all.Allow(service, "login")
	return all
}

// wantLeft looks at the three.
func wantLeft(t *testing.T, limits *loader.Loader, address, account, service int64) {
	t.Helper()
	a, b, c := three(limits)
	wantRemaining(t, a, "192.0.2.7", address)
	wantRemaining(t, b, "ada", account)
	wantRemaining(t, c, "login", service)
}

// roundTrips counts the round trips of a client with scripts.
func roundTrips(rdb *redis.Client) *atomic.Int64 {
	var n atomic.Int64
	rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if cmds[0].Name() == "evalsha" {
			n.Add(1)
		}
		return send()
	}))
	return &n
}

func TestAll(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		each(t, func(t *testing.T, rdb *redis.Client) {
			limits := loader.New(rdb, opts...)
			must(t, limits.Preload(background))
			asked := roundTrips(rdb)
			d, err := allOf(limits, 2).Do(background)
			if err != nil || !d.Granted || d.Remaining != 2 || d.Limit.Permits != 3 || d.Degraded || d.Denied != nil {
				t.Errorf("%+v, %v; want the grant of the tightest", d, err)
			}
			if len(d.Parts) != 3 || d.Parts[1].Limiter != "account" || d.Parts[1].Subject != "ada" || d.Parts[1].Permits != 2 {
				t.Errorf("%+v", d.Parts)
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%d round trips, want 1", n)
			}
			wantLeft(t, limits, 2, 2, 4)

			_, account, _ := three(limits)
			wantError(t, errOf(account.GiveBack(background, "ada", d.Decision, 1)), `loader: account: decision "": want one `+
				`of this limiter about this subject: sluice:account:{ada}:zl1; of an All take Parts[i].Decision`)
			wantReturned(t, account, "ada", d.Parts[1].Decision, 1, 1)
			wantLeft(t, limits, 2, 3, 4)
		})
	})
}

// TestAllRefused has one or two limiters be full: nothing is charged in the others.
func TestAllRefused(t *testing.T) {
	eachMode(t, func(t *testing.T, how string, opts []loader.Option) {
		each(t, func(t *testing.T, rdb *redis.Client) {
			limits := loader.New(rdb, opts...)
			must(t, limits.Preload(background))
			address, account, service := three(limits)
			wantGrant(t, account, "ada", 3)
			asked := roundTrips(rdb)
			d, err := allOf(limits, 2).Do(background)
			if err != nil || d.Granted || len(d.Denied) != 1 || d.Denied[0].Limiter != "account" ||
				d.Denied[0].Subject != "ada" || d.Wait != d.Denied[0].Wait || d.Wait <= 0 || d.Parts != nil {
				t.Errorf("%+v, %v; want a denial by the account", d, err)
			}
			must(t, limits.Flush(background))
			if n := asked.Load(); n != 2 {
				t.Errorf("%d round trips, want 2", n)
			}
			wantLeft(t, limits, 3, 1, 5)

			wantGrant(t, service, "login", 5)
			d, err = allOf(limits, 2).Do(background)
			if err != nil || d.Granted || len(d.Denied) != 2 || d.Wait != max(d.Denied[0].Wait, d.Denied[1].Wait) ||
				d.Denied[0].Limiter != "service" { // its slices make it wait longer
				t.Errorf("%+v, %v; want two denials", d, err)
			}
			must(t, limits.Flush(background))
			wantRemaining(t, address, "192.0.2.7", 3)
			wantRemaining(t, account, "ada", 1)
		})
	})
}

// holdReturn holds the second pipeline of a client, which returns what the first one was granted, until through closes.
func holdReturn(rdb *redis.Client) (through chan struct{}) {
	var pipelines atomic.Int64
	through = make(chan struct{})
	rdb.AddHook(hook{piped: func([]redis.Cmder) {
		if pipelines.Add(1) == 2 {
			<-through
		}
	}})
	return through
}

// TestAllDoesNotWait has the return be in flight for as long as the test wants.
func TestAllDoesNotWait(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	_, account, _ := three(limits)
	wantGrant(t, account, "ada", 4)
	through := holdReturn(rdb)
	d, err := allOf(limits, 1).Do(background)
	if err != nil || d.Granted {
		t.Errorf("%+v, %v; want a denial", d, err)
	}
	ctx, cancel := context.WithCancel(background)
	cancel()
	if err := limits.Flush(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the return is in flight: %v", err)
	}
	close(through)
	must(t, limits.Flush(background))
	wantLeft(t, limits, 3, 0, 5)
}

// TestAllRemembered has this process know that one refuses: nothing is sent, for any.
func TestAllRemembered(t *testing.T) {
	rdb := real(t)
	w := &watcher{t: t}
	limits := loader.New(rdb, loader.Observe(w))
	must(t, limits.Preload(background))
	address, account, service := three(limits, loader.RememberDenials(10))
	ask := func(account loader.ZSetLog) loader.AllDecision {
		t.Helper()
		all := limits.All()
		all.Allow(address, "192.0.2.7")
		all.Allow(account, "ada")
		all.Allow(service, "login")
		d, err := all.Do(background)
		must(t, err)
		must(t, limits.Flush(background))
		return d
	}
	wantGrant(t, account, "ada", 4)
	if d := ask(account); d.Granted {
		t.Errorf("%+v, want a denial", d)
	}
	asked := roundTrips(rdb)
	for range 3 {
		w.forget()
		d := ask(account)
		if d.Granted || len(d.Denied) != 1 || d.Denied[0].Limiter != "account" || d.Denied[0].Index != 1 ||
			asked.Load() != 0 {
			t.Errorf("%+v after %d round trips; want a denial by the account", d, asked.Load())
		}
		w.saw(t, loader.Event{
			Method: "Allow", Script: "zset_log_v1", Limiter: "account", Subject: "ada", Permits: 1, Decision: d.Decision,
		})
	}
	if d := ask(account.With(loader.Limit{})); d.Granted || d.Wait != loader.Never || asked.Load() != 0 {
		t.Errorf("%+v after %d round trips; want a denial by the limit of 0", d, asked.Load())
	}
	// What is given back is forgotten: the address is not full.
	must(t, account.Reset(background, "ada"))
	if d := ask(account); !d.Granted {
		t.Errorf("%+v, want a grant", d)
	}
}

// TestAllForgets has a refused All hold the last permit for a while: this process does not remember the denial that it
// causes.
func TestAllForgets(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	must(t, limits.Preload(background))
	address := limits.ListLog("address", loader.PerHour(1), loader.RememberDenials(10))
	account := limits.ListLog("account", loader.PerHour(1))
	wantGrant(t, account, "ada", 1)
	through := holdReturn(rdb)
	twice := limits.ListLog("other", loader.PerHour(9))
	all := limits.All()
	all.Allow(address, "a")
	all.Allow(twice, "a")
	all.Allow(account, "ada")
	must(t, errOf(all.Do(background)))
	wantDenial(t, address, "a", 1) // and is remembered
	close(through)
	must(t, limits.Flush(background))
	wantGrant(t, address, "a", 1)
}

// TestAllWrong has callers add what cannot be in an All: nothing is sent.
func TestAllWrong(t *testing.T) {
	limits := loader.New(neverAsked(t))
	log := limits.ListLog("log", loader.PerHour(3))
	for _, wrong := range []struct {
		limiter loader.Returner
		n       int64
		is      error
		want    string
	}{
		{limits.ZSetLog("ids", loader.PerHour(3)).WithID("order"), 1, nil,
			"loader: ids: All WithID: want a ZSetLog without WithID"},
		{loader.New(neverAsked(t)).ListLog("x", loader.PerHour(3)), 1, nil,
			"loader: limiter of entry 1: want one that the same Loader made"},
		{struct{ loader.ListLog }{log}, 1, nil, "loader: limiter of entry 1: want one that the same Loader made"},
		{log, 0, nil, "loader: log: n 0: want 1 or more"},
		{log, 4, loader.ErrExceedsLimit, "loader: log: Allow(n=4) exceeds limit 3"},
	} {
		all := limits.All()
		all.Allow(log, "other")
		all.AllowN(wrong.limiter, "s", wrong.n)
		wantError(t, all.Check(), wrong.want)
		d, err := all.Do(background)
		wantError(t, err, wrong.want)
		if d.Granted || wrong.is != nil && !errors.Is(err, wrong.is) {
			t.Errorf("%+v, %v", d, err)
		}
		wantError(t, all.Check(), "loader: All without limiters: want at least one")
	}
	d, err := limits.All().Do(background)
	if wantError(t, err, "loader: All without limiters: want at least one"); d.Granted {
		t.Errorf("%+v", d)
	}
}

// TestAllExceeds has parts ask for more than could ever be granted: they deny for ever, and nothing is sent.
func TestAllExceeds(t *testing.T) {
	limits := loader.New(neverAsked(t))
	log := limits.ListLog("log", loader.PerHour(5))
	ring := limits.SliceRing("ring", []loader.Limit{loader.PerHour(9), loader.PerMinute(5)})
	type part struct {
		limiter loader.Returner
		subject string
		n       int64
	}
	for _, row := range []struct {
		parts []part
		want  string
		limit loader.Limit
		index int
	}{
		{[]part{{ring, "s", 1}, {log, "s", 6}}, "loader: log: Allow(n=6) exceeds limit 5", loader.PerHour(5), 1},
		{[]part{{ring, "s", 6}, {log, "s", 1}}, "loader: ring: Allow(n=6) exceeds limit 5", loader.PerMinute(5), 0},
	} {
		all := limits.All()
		for _, p := range row.parts {
			all.AllowN(p.limiter, p.subject, p.n)
		}
		d, err := all.Do(background)
		if wantError(t, err, row.want); !errors.Is(err, loader.ErrExceedsLimit) || d.Granted || d.Wait != loader.Never ||
			len(d.Denied) != 1 || d.Denied[0].Limit != row.limit || d.Limit != row.limit || d.Denied[0].Index != row.index {
			t.Errorf("%+v, %v", d, err)
		}
	}
	twice := limits.All()
	twice.Allow(log, "s")
	twice.Allow(log, "other")
	twice.Allow(ring, "s")
	twice.Allow(limits.ListLog("no", loader.PerHour(0)), "s")
	twice.Allow(limits.ListLog("none", loader.PerHour(0)), "s")
	must(t, twice.Check())
	twice.Allow(log.With(loader.PerHour(9)), "s")
	twice.Allow(ring.With(loader.PerHour(9)), "s")
	wantError(t, twice.Check(), "loader: log: subject of entry 5: want each limiter once about it, with the sum\n"+
		"loader: ring: subject of entry 6: want each limiter once about it, with the sum")
}

// TestAllFails has one part fail for good: the error tells which, and the others are given back.
func TestAllFails(t *testing.T) {
	rdb := real(t)
	limits := loader.New(rdb)
	must(t, rdb.Set(background, "sluice:account:{ada}:zl1", "x", 0).Err())
	d, err := allOf(limits, 1).Do(background)
	if e := as[*loader.StateError](t, err); d.Granted || d.Parts != nil || !strings.HasPrefix(err.Error(),
		"loader: All: account: ") {
		t.Errorf("%+v, %v, %v", d, e, err)
	}
	must(t, limits.Flush(background))
	must(t, rdb.Del(background, "sluice:account:{ada}:zl1").Err())
	wantLeft(t, limits, 3, 4, 5)
}

// TestAllRepliesLate has the replies come after the time is up: what they granted is given back.
func TestAllRepliesLate(t *testing.T) {
	limits, direct, slow := slowly(t)
	slow.delay.Store(int64(400 * time.Millisecond))
	d, err := allOf(limits, 2).Do(within(t, 50*time.Millisecond))
	if d.Granted || strings.Count(err.Error(), "loader: All: ") != 3 {
		t.Errorf("%+v, %v; want three errors", d, err)
	}
	as[*loader.OutcomeUnknownError](t, err)
	await(t, func() bool {
		address, _, _ := three(direct)
		return charged(t, address, "192.0.2.7", 3) == 1
	})
	must(t, limits.Flush(background))
	wantLeft(t, direct, 3, 4, 5)
}

// TestAllRepliesLost has only the first reply come: it is given back, and so is what has an id.
func TestAllRepliesLost(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb, loader.Timeout(time.Second))
	p.next(fault{first: 1})
	d, err := allOf(limits, 2).Do(background)
	if d.Granted || err == nil || !errors.Is(err, loader.ErrOutcomeUnknown) || strings.Contains(err.Error(), "address") {
		t.Errorf("%+v, %v; want the outcome of the ring to be unknown", d, err)
	}
	must(t, limits.Flush(background))
	wantLeft(t, loader.New(direct), 3, 4, 4)
}

// TestAllReturnFails has the return fail: the others stay charged, and the observer is told.
func TestAllReturnFails(t *testing.T) {
	rdb := real(t)
	w := &watcher{t: t}
	limits := loader.New(rdb, loader.Observe(w))
	must(t, limits.Preload(background))
	_, account, _ := three(limits)
	wantGrant(t, account, "ada", 4)
	w.forget()
	var pipelines atomic.Int64
	rdb.AddHook(around(func(_ context.Context, cmds []redis.Cmder, send func() error) error {
		if len(cmds) == 2 && pipelines.Add(1) == 1 {
			for _, cmd := range cmds {
				cmd.SetErr(serverError("OOM no room"))
			}
			return serverError("OOM no room")
		}
		return send()
	}))
	must(t, errOf(allOf(limits, 1).Do(background)))
	must(t, limits.Flush(background))
	failed := 0
	w.mu.Lock()
	for _, e := range w.events {
		if e.Method == "GiveBack" && e.Err != nil && e.Returned == 0 && e.Permits == 1 {
			failed++
		}
	}
	w.mu.Unlock()
	if failed != 2 {
		t.Errorf("%d returns failed, want 2: %+v", failed, w.events)
	}
	wantLeft(t, limits, 2, 0, 4)
}

// TestAllDegraded has fallbacks answer for some or all of the parts.
func TestAllDegraded(t *testing.T) {
	p, rdb, direct := lossy(t)
	limits := loader.New(rdb)
	address, account, _ := three(limits)
	shut := limits.ListLog("shut", loader.PerHour(1), loader.FailLocal(1))
	opened := limits.ListLog("open", loader.PerHour(30), loader.FailOpen())
	for _, want := range []bool{true, false} { // the local bucket holds one
		all := limits.All()
		all.Allow(address, "192.0.2.7")
		all.Allow(shut, "s")
		all.Allow(opened, "s")
		p.next(fault{first: 1}) // the others go without a reply
		d, err := all.Do(background)
		if err != nil || d.Granted != want || !d.Degraded || !errors.Is(d.Cause, loader.ErrOutcomeUnknown) {
			t.Errorf("%+v, %v; want granted %v, degraded", d, err, want)
		}
		must(t, limits.Flush(background))
	}
	wantRemaining(t, loader.New(direct).ListLog("address", loader.PerHour(3)), "192.0.2.7", 2)

	all := limits.All()
	all.Allow(address, "192.0.2.7") // the tightest, which Redis decides
	all.Allow(opened, "s")
	p.next(fault{first: 1})
	d, err := all.Do(background)
	if err != nil || !d.Granted || d.Limit.Permits != 3 || d.Remaining != 1 || !d.Degraded || d.Cause == nil {
		t.Errorf("%+v, %v; want the grant of the address, degraded", d, err)
	}

	all.Allow(opened, "s")
	all.Allow(account, "ada") // the tightest, which is asked again by its id
	p.next(fault{dropReply: true})
	if d, err := all.Do(background); err != nil || !d.Granted || d.Limit.Permits != 4 || !d.Degraded || d.Cause == nil {
		t.Errorf("%+v, %v; want the grant of the account, degraded", d, err)
	}

	all.Allow(opened, "s")
	all.Allow(account, "ada")
	p.next(fault{first: 1})
	if d, err := all.Do(background); err != nil || !d.Granted || d.Degraded {
		t.Errorf("%+v, %v; want it granted: the second is asked again by its id", d, err)
	}
}

func TestAllInACluster(t *testing.T) {
	nodes, addrs := newCluster(t)
	limits := loader.New(clusterClient(t, addrs))
	log := limits.ListLog("all", loader.PerHour(3))
	subjects := make([]string, 3)
	for n := range subjects {
		subjects[n], _ = subjectOn(t, nodes, n, "all")
	}
	ask := func() loader.AllDecision {
		all := limits.All()
		for _, subject := range subjects {
			all.Allow(log, subject)
		}
		d, err := all.Do(background)
		must(t, err)
		must(t, limits.Flush(background))
		return d
	}
	if d := ask(); !d.Granted {
		t.Errorf("%+v, want a grant", d)
	}
	wantGrant(t, log, subjects[1], 2)
	if d := ask(); d.Granted || len(d.Denied) != 1 || d.Denied[0].Subject != subjects[1] {
		t.Errorf("%+v, want a denial by the second", d)
	}
	for n, want := range []int64{2, 0, 2} {
		wantRemaining(t, log, subjects[n], want)
	}
}
