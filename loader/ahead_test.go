package loader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

var _ loader.Returner = (*loader.Ahead)(nil)

// aheadOf runs a test of a ring of 100 permits in 10 s, of which one process may be 10 ahead, for 400 ms. The clocks
// are the bubble's.
func aheadOf(t *testing.T, test func(p *aheadTest), opts ...loader.LimiterOption) {
	m := miniredis.RunT(t)
	synctest.Test(t, func(t *testing.T) {
		p := &aheadTest{t: t, m: m, rdb: redis.NewClient(options(m.Addr()))}
		defer func() { _ = p.rdb.Close() }()
		p.rdb.AddHook(hook{before: p.see})
		p.limits = loader.New(p.rdb, loader.Timeout(never), loader.Observe(loader.ObserverFunc(p.observe)))
		must(t, p.limits.Preload(background))
		p.ring = p.limits.SliceRing("x", []loader.Limit{{Permits: 100, Window: 10 * time.Second}}, opts...)
		p.ahead = p.newAhead()
		defer func() { _ = p.ahead.Close(background) }()
		test(p)
	})
}

type aheadTest struct {
	t      *testing.T
	m      *miniredis.Miniredis
	rdb    *redis.Client
	limits *loader.Loader
	ring   loader.SliceRing
	ahead  *loader.Ahead
	sent   atomic.Int64 // questions and reports
	mu     sync.Mutex
	events []loader.Event
}

func (p *aheadTest) newAhead() *loader.Ahead {
	made, err := p.ring.Ahead(loader.AheadOptions{Processes: 1, Error: 0.2, Every: 400 * time.Millisecond})
	must(p.t, err)
	return made
}

func (p *aheadTest) see(cmd redis.Cmder) {
	p.m.SetTime(time.Now())
	if cmd.Name() == "evalsha" {
		p.sent.Add(1)
	}
}

func (p *aheadTest) observe(_ context.Context, e loader.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Method != "Peek" {
		p.events = append(p.events, e)
	}
}

// last returns the last event.
func (p *aheadTest) last() loader.Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[len(p.events)-1]
}

// take asks for n permits, and checks whether they are granted, and ahead.
func (p *aheadTest) take(n int64, granted, ahead bool) loader.Decision {
	p.t.Helper()
	d, err := p.ahead.AllowN(background, "s", n)
	must(p.t, err)
	if d.Granted != granted || d.Ahead != ahead {
		p.t.Errorf("%d permits: %+v, want granted %t, ahead %t", n, d, granted, ahead)
	}
	return d
}

// want checks what Redis counts, what is not reported, and how many commands were sent.
func (p *aheadTest) want(counted, unreported, sent int64) {
	p.t.Helper()
	synctest.Wait()
	seen := p.sent.Load()
	d, err := p.ring.Peek(background, "s")
	must(p.t, err)
	p.sent.Add(-1)
	got := [3]int64{100 - d.Remaining, p.ahead.Unreported(), seen}
	if want := [3]int64{counted, unreported, sent}; got != want {
		p.t.Fatalf("counted, unreported, sent: %v, want %v", got, want)
	}
}

func TestAheadReports(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(1, true, false) // nothing is known about the subject
		p.want(1, 0, 1)
		d := p.take(2, true, true)
		if d.Remaining != 97 || d.Permits != 2 || d.Limit.Permits != 100 || d.ResetAfter < 10*time.Second ||
			!d.Now.Equal(time.Now()) {
			t.Errorf("%+v", d)
		}
		if e := p.last(); !e.Decision.Ahead || e.Attempts != 0 || e.Permits != 2 {
			t.Errorf("event %+v", e)
		}
		time.Sleep(300 * time.Millisecond)
		p.take(1, true, true)
		p.want(1, 3, 1)
		time.Sleep(100 * time.Millisecond) // 400 ms after the first
		p.want(4, 0, 2)
		if e := p.last(); e.Method != "Report" || e.Reported != 3 || e.ReportAge != 400*time.Millisecond ||
			e.ReportOver != 0 {
			t.Errorf("event %+v", e)
		}
		p.take(5, true, true) // half of what may be ahead
		p.want(9, 0, 3)
		p.take(9, true, true)
		p.want(18, 0, 4)
		p.take(11, true, false) // more than may be ahead
		p.want(29, 0, 5)
		p.take(4, true, true)
		p.take(7, true, false) // with the report in the question
		p.want(40, 0, 6)
		if e := p.last(); e.Method != "Allow" || e.Reported != 4 || e.Permits != 7 {
			t.Errorf("event %+v", e)
		}
		time.Sleep(200 * time.Millisecond)
		p.take(1, true, true)
		time.Sleep(200 * time.Millisecond) // 400 ms after what the question took along
		p.want(40, 1, 6)
		time.Sleep(200 * time.Millisecond)
		p.want(41, 0, 7)
	})
}

// Near the limit Redis is asked, and its denial holds for as long as it says.
func TestAheadDenies(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(96, true, false)
		p.take(5, false, false)
		p.take(5, false, false) // known
		p.want(96, 0, 2)
		p.take(4, true, true)
		p.want(96, 4, 2)
		_, err := p.ring.AllowN(background, "s", 4) // another process
		must(t, err)
		p.take(1, false, false)
		p.want(100, 0, 4)
		if e := p.last(); e.ReportOver != 4 || e.Reported != 4 {
			t.Errorf("event %+v", e)
		}
		d := p.take(1, false, false)
		p.want(100, 0, 4)
		began := time.Now()
		must(t, p.ahead.Wait(background, "s"))
		if slept := time.Since(began); slept != d.Wait {
			t.Errorf("waited %v, want %v", slept, d.Wait)
		}
		p.want(1, 0, 5)
	})
}

// While Redis is down, what may be ahead is granted; then the fallback answers. Reports wait for Redis.
func TestAheadWithoutRedis(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(1, true, false)
		p.m.SetError("LOADING")
		p.take(10, true, true)
		if d := p.take(1, true, false); !d.Degraded {
			t.Errorf("%+v", d)
		}
		time.Sleep(5 * time.Second)
		if got := p.ahead.Unreported(); got != 10 {
			t.Errorf("%d unreported", got)
		}
		ctx, cancel := context.WithTimeout(background, time.Second)
		defer cancel()
		if err := p.ahead.Flush(ctx); err == nil || !strings.Contains(err.Error(), "10 permits granted ahead of Redis are") {
			t.Errorf("flush: %v", err)
		}
		p.m.SetError("")
		time.Sleep(time.Second)
		if got := p.ahead.Unreported(); got != 0 {
			t.Errorf("%d unreported after Redis is back", got)
		}
		d, err := p.ring.Peek(background, "s")
		must(t, err)
		if d.Remaining != 89 {
			t.Errorf("%d remaining, want 89", d.Remaining)
		}
	}, loader.FailOpen())
}

func TestAheadCloses(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(1, true, false)
		d := p.take(3, true, true)
		if _, err := p.ahead.GiveBack(background, "s", d, 3); !isArgument(err, "decision") {
			t.Errorf("give back: %v", err)
		}
		if d, err := p.ahead.Peek(background, "s"); err != nil || d.Remaining != 96 {
			t.Errorf("peek: %+v %v", d, err)
		}
		must(t, p.ahead.Close(background))
		p.want(4, 0, 3)
		d = p.take(1, true, false)
		if n, err := p.ahead.GiveBack(background, "s", d, 1); err != nil || n != 1 {
			t.Errorf("give back: %d %v", n, err)
		}
	})
}

func TestAheadResets(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(1, true, false)
		p.take(3, true, true)
		must(t, p.ahead.Reset(background, "s"))
		p.want(0, 3, 1)
		p.take(1, true, false)
		p.want(4, 0, 2)
	})
}

// In an All its ring is asked.
func TestAheadInAll(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(1, true, false)
		all := p.limits.All()
		all.Allow(p.ahead, "s")
		d, err := all.Do(background)
		if err != nil || !d.Granted || d.Parts[0].Ahead {
			t.Errorf("%+v %v", d, err)
		}
	})
}

// Two processes, all that may be alive and die, grant what they may ahead of Redis and cannot report it. Another caller
// takes the rest, and together it is the limit.
func TestAheadStrict(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		var cut atomic.Bool
		rdb := redis.NewClient(options(p.m.Addr()))
		defer func() { _ = rdb.Close() }()
		rdb.AddHook(around(func(_ context.Context, _ []redis.Cmder, send func() error) error {
			if cut.Load() {
				return errors.New("cut")
			}
			return send()
		}))
		strict := loader.AheadOptions{Processes: 1, Error: 0.2, Every: 400 * time.Millisecond, Strict: true}
		ring := loader.New(rdb).SliceRing("x", []loader.Limit{{Permits: 100, Window: 10 * time.Second}})
		var aheads [2]*loader.Ahead
		for i := range aheads {
			var err error
			aheads[i], err = ring.Ahead(strict)
			must(t, err)
			if d := wantGrant(t, aheads[i], "s", 1); d.Limit.Permits != 80 || d.Ahead {
				t.Errorf("%+v, want it granted by Redis, under a limit of 80", d)
			}
		}
		cut.Store(true)
		for _, a := range aheads {
			if d := wantGrant(t, a, "s", 10); d.Limit.Permits != 80 || !d.Ahead {
				t.Errorf("%+v, want it granted ahead, under a limit of 80", d)
			}
			if d, err := a.Allow(background, "s"); err == nil {
				t.Errorf("%+v, want an error", d)
			}
		}
		another, err := p.ring.Ahead(strict)
		must(t, err)
		direct := another.Direct()
		wantGrant(t, direct, "s", 78)
		if d := wantDenial(t, direct, "s", 1); d.Limit.Permits != 80 {
			t.Errorf("%+v, want it denied under a limit of 80", d)
		}
		all := p.limits.All()
		all.Allow(another, "s")
		if d, err := all.Do(background); err != nil || d.Granted {
			t.Errorf("in an All: %+v, %v; want a denial", d, err)
		}
		cut.Store(false)
		for _, a := range aheads {
			must(t, a.Close(background))
		}
		p.want(100, 0, p.sent.Load())
	})
}

// What is taken off each limit of a list, where With has others, and what is wrong.
func TestAheadStrictLimits(t *testing.T) {
	_, rdb := fake(t)
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{loader.PerMinute(100), loader.PerHour(1000)})
	strict := loader.AheadOptions{Processes: 2, Error: 0.1, Strict: true} // 2 ahead
	a, err := ring.Ahead(strict)
	must(t, err)
	must(t, a.Check())
	for want, limits := range map[string][]loader.Limit{
		"92 992": {loader.PerMinute(100), loader.PerHour(1000)},
		"1012":   {loader.PerMinute(1124)}, // 28 ahead
		"39":     {loader.PerMinute(39)},   // none
		"0":      {loader.PerMinute(0)},
	} {
		direct := a.Direct().With(limits...)
		must(t, direct.Check())
		var got []string
		d, err := direct.Peek(background, "s")
		must(t, err)
		for _, w := range d.Windows {
			got = append(got, fmt.Sprint(w.Limit.Permits))
		}
		if len(got) == 0 {
			got = append(got, fmt.Sprint(d.Limit.Permits))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v: Redis enforces %v, want %s", limits, got, want)
		}
	}
	const nothing = "loader: x: strict ahead with a limit of 4, processes 2, error 100 %: want a smaller error: " +
		"it is taken off the limit, and nothing is left"
	all := loader.AheadOptions{Processes: 2, Error: 1, Strict: true}
	wantError(t, errOf(ring.With(loader.PerMinute(4)).Ahead(all)), nothing)
	b, err := ring.With(loader.PerMinute(5)).Ahead(all)
	must(t, err)
	wantError(t, b.Direct().With(loader.PerMinute(4)).Check(), nothing)
	const twice = "loader: x: SliceRing of Direct: want the one that its Ahead was made of"
	wantError(t, errOf(a.Direct().Ahead(strict)), twice)
	for o, want := range map[loader.AheadOptions]int64{strict: 92, {Processes: 2, Error: 0.1}: 100} {
		if got, err := o.Enforced([]loader.Limit{loader.PerMinute(100)}); err != nil || got[0].Permits != want {
			t.Errorf("%+v: %v, %v; want %d", o, got, err, want)
		}
	}
	wantError(t, errOf(all.Enforced([]loader.Limit{loader.PerMinute(4)})), strings.Replace(nothing, "x: ", "", 1))
}

func isArgument(err error, argument string) bool {
	e, ok := errors.AsType[*loader.ArgumentError](err)
	return ok && e.Argument == argument
}

func TestAheadOptions(t *testing.T) {
	_, rdb := fake(t)
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{{Permits: 100, Window: time.Minute}})
	for want, o := range map[string]loader.AheadOptions{
		"Processes 0: want 1 or more":                                   {Error: 0.1},
		"Error 0: want above 0 and up to 1: 0.05 is 5 %":                {Processes: 1},
		"Every 2m0s: want 1ms up to the smallest window":                {Processes: 1, Error: 0.1, Every: 2 * time.Minute},
		"processes 20, error 5 %: want a limit of 800, fewer processes": {Processes: 20, Error: 0.05},
	} {
		if _, err := ring.Ahead(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
	enough := ring.With(loader.PerMinute(800))
	if _, err := enough.Ahead(loader.AheadOptions{Processes: 20, Error: 0.05}); err != nil {
		t.Error(err)
	}
	if _, err := (loader.SliceRing{}).Ahead(loader.AheadOptions{Processes: 1, Error: 1}); err == nil {
		t.Error("a zero SliceRing")
	}
}

// Many callers of many subjects, on a real server: what is granted is what Redis counts in the end, and a single
// process is never above its limit by more than it may be ahead.
func TestServerAheadAtOnce(t *testing.T) {
	rdb := client(t, redistest.Start(t).Addr)
	limits := loader.New(rdb, loader.Timeout(never))
	ring := limits.SliceRing("x", []loader.Limit{{Permits: 400, Window: time.Minute}})
	a, err := ring.Ahead(loader.AheadOptions{Processes: 1, Error: 0.2, Every: 5 * time.Millisecond})
	must(t, err)
	const subjects = 20
	var granted [subjects]atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for i := range 300 {
				d, err := a.Allow(background, fmt.Sprint("s", i%subjects))
				if err != nil {
					t.Error(err)
				} else if d.Granted {
					granted[i%subjects].Add(1)
				}
			}
		})
	}
	wg.Wait()
	must(t, a.Close(background))
	for i := range granted {
		d, err := ring.Report(background, fmt.Sprint("s", i), 0)
		must(t, err)
		if got := granted[i].Load(); got < 400 || got > 440 {
			t.Errorf("s%d: %d granted of 400, %+v", i, got, d)
		}
	}
}

// Reports find the node of each subject, also where scripts were flushed, and wait for none that does not answer.
func TestServerAheadOnEachDeployment(t *testing.T) {
	eachDeployment(t, func(t *testing.T, d deployment) {
		var lost atomic.Int64
		limits := loader.New(d.rdb, loader.Timeout(10*time.Second), loader.Observe(loader.ObserverFunc(
			func(_ context.Context, e loader.Event) {
				if e.Err != nil {
					lost.Add(1)
				}
			})))
		ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(100)})
		a, err := ring.Ahead(loader.AheadOptions{Processes: 1, Error: 0.2, Every: 10 * time.Millisecond})
		must(t, err)
		grant := func(n int64) {
			for i := range 40 {
				must(t, errOf(a.AllowN(background, fmt.Sprint(i), n)))
			}
		}
		charged := func() (permits int64) {
			for i := range 40 {
				seen, err := ring.Peek(background, fmt.Sprint(i))
				must(t, err)
				permits += 100 - seen.Remaining
			}
			return permits
		}
		grant(1)
		grant(3)
		d.flush(t)
		await(t, func() bool { return a.Unreported() == 0 })
		grant(2)
		must(t, a.Flush(background))
		if n := charged(); n != 6*40 {
			t.Errorf("%d charged, want %d", n, 6*40)
		}
		if d.name != "ClusterClient" {
			return
		}
		paused := int64(0)
		for i := range 40 {
			if d.nodes[0].ClusterKeySlot(background, fmt.Sprint(i)).Val()*3/redistest.Slots == 0 {
				paused++
			}
		}
		must(t, d.nodes[0].Do(background, "CLIENT", "PAUSE", 60_000, "WRITE").Err())
		grant(1)
		await(t, func() bool { return a.Unreported() == paused })
		if n := lost.Load(); n > 0 {
			t.Errorf("reports waited for a node that does not answer: %d are lost", n)
		}
		must(t, d.nodes[0].Do(background, "CLIENT", "UNPAUSE").Err())
		await(t, func() bool { return a.Unreported() == 0 })
		if n := charged(); n != 7*40 {
			t.Errorf("%d charged, want %d", n, 7*40)
		}
	})
}

// The goroutine ends when what it waited for is reported, by itself or with the report of a question.
func TestAheadIsIdle(t *testing.T) {
	aheadOf(t, func(p *aheadTest) {
		p.take(1, true, false)
		for range 9 {
			p.take(5, true, true) // half of what may be ahead
			synctest.Wait()
			p.take(1, true, true)
			if queued, running := p.ahead.Queued(); queued != 1 || !running {
				t.Errorf("%d queued, running %t", queued, running)
			}
			must(t, p.ahead.Flush(background))
			time.Sleep(400 * time.Millisecond)
			synctest.Wait()
			if queued, running := p.ahead.Queued(); queued != 0 || running {
				t.Errorf("%d queued after Flush, running %t", queued, running)
			}
		}
		p.want(55, 0, 19)
	})
}

// frozen is an Ahead of 100 permits in a minute, all of which may be ahead, behind a proxy.
func frozen(t *testing.T, timeout time.Duration) (*redistest.Proxy, loader.SliceRing, *loader.Ahead) {
	proxy := redistest.StartProxy(t, redistest.Start(t).Addr)
	limits := loader.New(client(t, proxy.Addr), loader.Timeout(timeout))
	ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(200)})
	ahead, err := ring.Ahead(loader.AheadOptions{Processes: 1, Error: 1, Every: 10 * time.Millisecond})
	must(t, err)
	must(t, errOf(ahead.Allow(background, "s")))
	return proxy, ring, ahead
}

// Close says what is not reported, also if another report is on its way that has no answer in time.
func TestServerAheadCloseIsHonest(t *testing.T) {
	proxy, ring, ahead := frozen(t, time.Second)
	proxy.Swallow()
	for range 40 {
		must(t, errOf(ahead.Allow(background, "s")))
	}
	redistest.Await(t, "the report is on its way", func() bool { n, _ := ahead.Queued(); return n == 0 })
	for range 10 {
		must(t, errOf(ahead.Allow(background, "s")))
	}
	ctx, cancel := context.WithTimeout(background, 100*time.Millisecond)
	defer cancel()
	if err := ahead.Close(ctx); err == nil || !strings.Contains(err.Error(), "50 permits") {
		t.Errorf("close: %v", err)
	}
	proxy.Pass()
	must(t, ahead.Flush(background))
	if d, err := ring.Peek(background, "s"); err != nil || d.Remaining > 200-51 {
		t.Errorf("%d remaining, %v", d.Remaining, err)
	}
}

// kept is a context of a caller who stays until his deadline, as of a middleware.
type kept struct{ context.Context }

func (kept) Done() <-chan struct{} { return nil }
func (kept) Err() error            { return nil }

// A caller whose time is up fails alone.
func TestServerAheadDeadlines(t *testing.T) {
	proxy, _, ahead := frozen(t, 10*time.Second)
	proxy.Delay(100*time.Millisecond, 0)
	soon, cancel := context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		if d, err := ahead.AllowN(kept{soon}, "s", 110); err == nil {
			t.Errorf("%+v in 20 ms", d)
		}
	})
	time.Sleep(5 * time.Millisecond)
	for range 20 {
		wg.Go(func() { must(t, errOf(ahead.AllowN(background, "s", 101))) })
	}
	wg.Wait()
}
