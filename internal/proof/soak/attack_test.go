//go:build unix

package soak

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

var (
	attackFor  = flag.Duration("attack", 0, "how long TestAttack runs; 0: each fault once, shortly, on a single server")
	attackSeed = flag.Uint64("seed", 0, "what decides the faults; 0: another one every time")
)

// Of the long form; the short one hurries.
const (
	shortestFault = 300 * time.Millisecond
	longestFault  = 2 * time.Second
	faultPause    = 1500 * time.Millisecond

	backWithin = time.Second // service is back so long after a fault
	tooLong    = 10 * time.Second

	// reconnectWithin is how long after the begin of a fault that lets new connections through service is back. Each
	// stale connection of go-redis's pool costs one call its timeout, so one caller may lose several calls, one after
	// another. It is mostly 2 to 4 s, with pools of 16 and timeouts of 1 s.
	reconnectWithin = tooLong

	flushFor = 200 * time.Millisecond // for returns in the background
)

// setting is what attacks differ in.
type setting struct {
	full   bool
	modes  []*mode
	tight  loader.Limit  // of the limiters that are soon used up
	leases loader.Limit  // of their slots
	pause  time.Duration // between two calls of a worker, on average
	rest   time.Duration // from the end of one fault to the begin of the next, at least
	steady bool          // what is in use must not grow: no server is gone for good
}

// attack is the sites, those who call and what has come of it.
type attack struct {
	setting
	t      *testing.T
	seed   uint64
	random *rand.Rand // makes up the events
	sites  []*site
	rows   []*row
	events int      // how many there have been
	faults []string // of them

	generation int          // of the ledgers; it changes while the gate is shut
	gate       sync.RWMutex // callers are inside while they hold it for reading
	pulse      *pulse

	last       atomic.Pointer[event] // the fault that happens, or the one before; nil: there has been none
	starts     atomic.Pointer[chan struct{}]
	panicking  atomic.Bool
	cancelling atomic.Bool

	counts       tally
	mu           sync.Mutex
	failures     map[string]*failure // by rule, fault and mode
	first, worst sample
}

// attempts is how often an attack is begun where the machine was too slow to judge half of it. What each could judge
// adds up.
const attempts = 3

// TestAttack attacks all limiters with all faults.
func TestAttack(t *testing.T) {
	judged := 0.0
	for attempt := range attempts {
		t.Run(fmt.Sprint(attempt+1), func(t *testing.T) { judged += attackOnce(t) })
		if judged >= 0.5 || t.Failed() {
			return
		}
	}
	t.Errorf("too slow a machine to judge when service is back, %d times", attempts)
}

// attackOnce returns the share of it that could be judged.
func attackOnce(t *testing.T) float64 {
	sites := []*site{newSite(t, false)}
	if *attackFor > 0 {
		sites = append(sites, newSite(t, true))
	}
	a := newAttack(t, attackSetting(), sites...)
	a.run(func() {
		begun := time.Now()
		for e := range a.eventsOf(faults) {
			if a.events >= len(faults) && time.Since(begun) >= *attackFor {
				return
			}
			a.inject(e)
		}
	})
	a.sites[0].everythingExpires(t)
	return a.report()
}

func attackSetting() setting {
	with := setting{full: *attackFor > 0, modes: modes, tight: loader.PerSecond(4),
		leases: loader.Limit{Permits: 1, Window: slotTTL}, pause: 300 * time.Millisecond, steady: true}
	if with.full {
		with.rest = faultPause
	}
	return with
}

// newAttack makes all rows of sites.
func newAttack(t *testing.T, with setting, sites ...*site) *attack {
	t.Helper()
	a := &attack{setting: with, t: t, seed: *attackSeed, sites: sites, failures: map[string]*failure{}}
	if a.seed == 0 {
		a.seed = 1 + rand.Uint64N(1_000_000)
	}
	a.random = rand.New(rand.NewPCG(a.seed, 1<<63))
	a.pulse = newPulse(t)
	for i, s := range a.sites {
		a.rows = append(a.rows, newRows(a, s, int(a.seed)+i)...)
		must(t, s.honest.Preload(context.Background()))
	}
	a.starts.Store(new(make(chan struct{})))
	return a
}

// run has callers ask while something happens. That nothing is left of them is seen when all tests have ended.
func (a *attack) run(happens func()) {
	a.t.Logf("seed %d: %d limiters and modes, %d callers", a.seed, len(a.rows), workersARow*len(a.rows))
	pulse := startCrowd(hearts, a.pulse.beat)
	var workers []*worker
	for i, r := range a.rows {
		for k := range workersARow {
			random := rand.New(rand.NewPCG(a.seed, uint64(workersARow*i+k)))
			workers = append(workers, &worker{row: r, attack: a, random: random})
		}
	}
	callers := startCrowd(len(workers), func(ctx context.Context, i int) { workers[i].work(ctx) })
	a.quiet(nil)
	time.Sleep(a.rest)
	happens()
	callers.stop()
	pulse.stop()
}

// eventsOf are what the seed has happen, without end: all faults in random order, again and again.
func (a *attack) eventsOf(faults []*fault) iter.Seq[*event] {
	return func(yield func(*event) bool) {
		for {
			for _, i := range a.random.Perm(len(faults)) {
				if !yield(a.event(faults[i])) {
					return
				}
			}
		}
	}
}

// event makes up when and where a fault happens. In a cluster it is one server or all.
func (a *attack) event(f *fault) *event {
	e := &event{fault: f, where: "all", victims: map[*site]uint{}}
	e.random = rand.New(rand.NewPCG(a.random.Uint64(), 0))
	e.lasts = shortestFault + upTo(e.random, longestFault-shortestFault)
	if !a.full {
		e.lasts = shortestFault / 2
	}
	everywhere, one := e.random.IntN(2) == 0, e.random.IntN(3)
	for _, s := range a.sites {
		e.victims[s] = 1<<len(s.servers) - 1
		if e.server > 0 {
			one, everywhere = e.server-1, false
		}
		if len(s.servers) > 1 && !everywhere && !(e.anywhere && e.server == 0) {
			e.victims[s], e.where = 1<<one, fmt.Sprint("server ", one+1)
		}
	}
	return e
}

// inject has a fault happen, sees service come back and audits what was granted.
func (a *attack) inject(e *event) {
	a.t.Helper()
	a.events++
	e.number = a.events
	if !slices.Contains(a.faults, e.name) {
		a.faults = append(a.faults, e.name)
	}
	e.begun = time.Now()
	a.last.Store(e) // calls that it hits are counted as such
	e.begin(a, e)
	next := make(chan struct{})
	close(*a.starts.Swap(&next)) // wakes the workers that rest
	time.Sleep(e.lasts)
	if a.full { // until it has met a call of every row, but not for ever: report says what was missed
		soon(func() bool {
			return !slices.ContainsFunc(a.rows, func(r *row) bool { return r.met.of(e.name) == 0 })
		})
	}
	lasting := ""
	if e.reconnects {
		worst := a.check(e, "reconnect", e.begun, reconnectWithin)
		lasting = fmt.Sprintf(" (while it lasted, %v after its begin)", round(worst))
	}
	e.end(a, e)
	ended := time.Now()
	e.ended.Store(&ended)
	worst := a.check(e, "service", ended, backWithin+e.late)
	time.Sleep(a.rest - time.Since(ended) - a.rest/4)
	e.served.Store(new(time.Now()))
	s := a.quiet(e)
	a.t.Logf("%3d %-26s %v on %s: back after %v at worst%s; %v", e.number, e.name, round(ended.Sub(e.begun)), e.where,
		round(worst), lasting, s)
}

// now is the fault that happens; nil: none.
func (a *attack) now() *event {
	e := a.last.Load()
	if e == nil || e.ended.Load() != nil {
		return nil
	}
	return e
}

// calmAfter reports whether a fault no longer had effects at a time: service must be back by then, and it was seen.
// That it comes back in time is judged by itself. Before the first fault the clients are making their connections.
func (a *attack) calmAfter(e *event, at time.Time) bool {
	if e == nil || e.served.Load() == nil {
		return false
	}
	return at.After(*e.served.Load()) && at.Sub(*e.ended.Load()) > backWithin+e.late
}

// quiet shuts the gate, audits what was granted until then, measures what is in use, and lets the callers go on.
func (a *attack) quiet(e *event) sample {
	a.t.Helper()
	if !endsWithin(tooLong, a.gate.Lock) { // no caller enters from now on
		a.stuck()
	}
	defer a.gate.Unlock()
	var rows sync.WaitGroup
	for _, r := range a.rows {
		rows.Go(func() {
			if e != nil {
				r.settle()
				r.forget(a, e)
				r.closeLedgers(a)
				r.auditTight(a)
			}
			r.openLedgers(a, a.generation+1)
		})
	}
	rows.Wait()
	a.generation++
	return a.measure(e)
}

// stuck ends the attack for calls that do not end.
func (a *attack) stuck() {
	a.t.Helper()
	a.t.Errorf("seed %d: calls have not ended %v after the fault:\n%s", a.seed, tooLong,
		strings.Join(goroutines(), "\n\n"))
	a.report()
	a.t.FailNow()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
