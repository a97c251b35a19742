package chaos

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/audit"
	"github.com/sluice-redis/sluice/internal/redistest"
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

	mu     sync.Mutex
	counts counts

	// Of the goroutine that injects the faults.
	faults     map[string]int64
	losses     []loss
	recoveries []recovery
}

// counts are of decisions.
type counts struct {
	asked, granted, permits, denied, looked int64
	errors                                  map[string]int64
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
		started: time.Now(), ended: ctx.Done(), cancel: cancel,
		counts: counts{errors: map[string]int64{}}, faults: map[string]int64{},
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
		permits, d, err := r.subjects[random.IntN(len(r.subjects))].ask(random)
		r.count(permits, d, err)
	}
}

func (r *run) count(permits int64, d loader.Decision, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.asked++
	switch {
	case err != nil:
		kind := audit.KindOf(err)
		if r.counts.errors[kind]++; kind == audit.Unexpected {
			r.t.Errorf("a caller saw: %v", err)
		}
	case permits == 0:
		r.counts.looked++
	case d.Granted:
		r.counts.granted++
		r.counts.permits += permits
	default:
		r.counts.denied++
	}
}

// asked is how many decisions there have been.
func (r *run) asked() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts.asked
}

// awaitDecisions lets the run go on until there have been so many.
func (r *run) awaitDecisions(n int64) {
	for asked := r.asked(); asked < n; asked = r.asked() {
		redistest.Await(r.t, "more decisions", func() bool { return r.asked() > asked })
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
	r.print(took, r.audit())
}

// extras is what was granted beyond the limits.
type extras struct {
	permits, subjects int64
	explained         int64 // so many permits the losses explain at most
	worst             int64 // as permits, with those whose outcome is unknown
}

// audit fails the test for every subject that was granted more than its limit and the losses explain.
func (r *run) audit() extras {
	var sum extras
	for _, s := range r.subjects {
		extra, explained := s.extra(s.granted, s.limit), int64(0)
		for _, l := range r.losses {
			if l.of(s) {
				explained += s.grantedWithin(l.after, l.until)
			}
		}
		if extra > explained {
			r.t.Errorf("%s (%s, %d in %v) was granted %d permits too many, of which faults explain %d",
				s.name, s.script, s.limit.Permits, s.limit.Window, extra, explained)
		}
		sum.permits, sum.explained = sum.permits+extra, sum.explained+explained
		sum.worst += s.extra(append(s.unknown, s.granted...), s.limit)
		if extra > 0 {
			sum.subjects++
		}
	}
	return sum
}
