//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

const (
	callers = 16
	pause   = 4 * time.Millisecond // between two calls of a caller, on average
)

// run is callers who ask for subjects while faults happen, and what came of it.
type run struct {
	t        *testing.T
	name     string
	settles  string // what the deployment says of itself when it has got over a killed server
	subjects []*subject
	started  time.Time
	ended    <-chan struct{}
	cancel   context.CancelFunc
	callers  sync.WaitGroup

	asked atomic.Int64

	// Of the goroutine that injects the faults.
	faults     map[string]int64
	losses     []loss
	recoveries []recovery
}

// loss is decisions that a fault may have undone: those that a server made after one time and up to
// another about some of the subjects.
type loss struct {
	why          string
	of           func(*subject) bool
	after, until time.Time
}

// begin starts the callers. They ask until the run is audited.
func begin(t *testing.T, name, settles string, rdb redis.UniversalClient, subjects int) *run {
	ctx, cancel := context.WithCancel(context.Background())
	r := &run{
		t: t, name: name, settles: settles, subjects: newSubjects(rdb, subjects),
		started: time.Now(), ended: ctx.Done(), cancel: cancel, faults: map[string]int64{},
	}
	t.Cleanup(r.stop)
	for i := range callers {
		r.callers.Go(func() { r.call(rand.New(rand.NewPCG(uint64(i), 1))) })
	}
	return r
}

// call is one caller.
func (r *run) call(random *rand.Rand) {
	for {
		select {
		case <-r.ended:
			return
		case <-time.After(rand.N(2 * pause)):
		}
		if err := r.subjects[random.IntN(len(r.subjects))].ask(random); err != nil && KindOf(err) == Unexpected {
			r.t.Errorf("a caller saw: %v", err)
		}
		r.asked.Add(1)
	}
}

// awaitDecisions lets the run go on until there have been so many.
func (r *run) awaitDecisions(n int64) {
	for asked := r.asked.Load(); asked < n; asked = r.asked.Load() {
		redistest.Await(r.t, "more decisions", func() bool { return r.asked.Load() > asked })
	}
}

// stop ends the callers.
func (r *run) stop() {
	r.cancel()
	r.callers.Wait()
}

// end stops the callers, audits every subject and prints the figures.
func (r *run) end() {
	r.stop()
	took := time.Since(r.started)
	found, unexplained := r.audit()
	for _, text := range unexplained {
		r.t.Error(text)
	}
	r.print(took, found)
}

// extras is what was granted beyond the limits.
type extras struct {
	permits, subjects int64
	explained         int64 // so many permits the losses explain at most
	worst             int64 // as permits, with those whose outcome is unknown
}

// audit says of every subject that was granted more than its limit and the losses explain what is unexplained.
func (r *run) audit() (sum extras, unexplained []string) {
	for _, s := range r.subjects {
		began, ended := time.Time{}, time.Now().Add(time.Hour)
		extra, explained := s.script.extra(s.granted(began, ended, false), s.limit), int64(0)
		for _, l := range r.losses {
			for _, grant := range s.granted(l.after, l.until, false) {
				if l.of(s) {
					explained += grant.Permits
				}
			}
		}
		if extra > explained {
			unexplained = append(unexplained, fmt.Sprintf("%s (%s, %d in %v) was granted %d permits too many, of which "+
				"faults explain %d", s.name, s.script.name, s.limit.Permits, s.limit.Window, extra, explained))
		}
		sum.permits, sum.explained = sum.permits+extra, sum.explained+explained
		sum.worst += s.script.extra(s.granted(began, ended, true), s.limit)
		if extra > 0 {
			sum.subjects++
		}
	}
	return sum, unexplained
}

// A grant beyond the limit is found unless a loss explains it: of that subject, and of grants that were made after what
// was replicated and before the kill.
func TestUnexplainedGrant(t *testing.T) {
	second0 := time.Now()
	at := func(seconds float64, permits int64) served {
		when := second0.Add(time.Duration(seconds * float64(time.Second)))
		return served{permits: permits, decided: loader.Decision{Granted: true, Now: when}}
	}
	for name, test := range map[string]struct {
		grants []served
		lost   bool // the loss is of this subject
		want   int
	}{
		"the limit":                 {[]served{at(11, 4)}, true, 0},
		"lost, and granted again":   {[]served{at(11, 3), at(12, 1), at(20, 4)}, true, 0},
		"one more":                  {[]served{at(11, 4), at(20, 5)}, true, 1},
		"replicated before":         {[]served{at(10, 4), at(20, 1)}, true, 1},
		"granted after the kill":    {[]served{at(12.1, 4), at(20, 1)}, true, 1},
		"lost by another's subject": {[]served{at(11, 4), at(20, 1)}, false, 1},
	} {
		s := &subject{script: scripts[0], limit: subjectLimits[1], answers: test.grants}
		r := &run{subjects: []*subject{s}, losses: []loss{{
			of: func(*subject) bool { return test.lost }, after: at(10, 0).decided.Now, until: at(12, 0).decided.Now,
		}}}
		if _, unexplained := r.audit(); len(unexplained) != test.want {
			t.Errorf("%s: %q, want %d", name, unexplained, test.want)
		}
	}
}
