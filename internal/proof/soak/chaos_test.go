//go:build unix

package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// run is callers who ask for subjects while servers fail, and what came of it.
type run struct {
	t        *testing.T
	name     string
	subjects []*subject
	started  time.Time
	callers  *crowd
	calls    tally
	faults   tally
	outages  []*outage
}

// outage is the end of a server, or another reason why grants are out of sight, and how a deployment got over it.
type outage struct {
	name    string
	settles string // what the deployment says of itself when it has got over it
	settled func() bool
	about   []*subject

	// Decisions about these subjects after one time and up to another may have been undone.
	after, until time.Time

	// From until: when the deployment had settled, and when the first answer and the last error came.
	whole, first, last time.Duration
}

// begin starts the callers. They ask until the run is audited.
func begin(t *testing.T, name string, rdb redis.UniversalClient) *run {
	r := &run{t: t, name: name, subjects: newSubjects(rdb, 1000), started: time.Now()}
	r.callers = startCrowd(callers, func(ctx context.Context, _ int) {
		if !rest(ctx, rand.N(2*pause)) {
			return
		}
		if err := r.subjects[rand.IntN(len(r.subjects))].ask(); err != nil && kindOf(err) == unexpected {
			t.Errorf("a caller saw: %v", err)
		}
		r.calls.add("decisions", 1)
	})
	t.Cleanup(r.callers.stop)
	return r
}

// awaitDecisions lets the run go on for so many decisions.
func (r *run) awaitDecisions(n int64) {
	r.t.Helper()
	awaitMore(r.t, "decisions", n, func() int64 { return r.calls.of("decisions") })
}

// awaitMore waits until a count has grown so much. Each step of it may take half a minute.
func awaitMore(t *testing.T, what string, by int64, count func() int64) {
	t.Helper()
	for n, enough := count(), count()+by; n < enough; n = count() {
		redistest.Await(t, "more "+what, func() bool { return count() > n })
	}
}

// overcome waits until a deployment has got over an outage and most subjects are served again.
func (r *run) overcome(o *outage) {
	r.t.Helper()
	redistest.Await(r.t, o.settles, o.settled)
	settled := time.Now()
	redistest.Await(r.t, "those subjects are served again", func() bool {
		served := 0
		for _, s := range o.about {
			if s.servedSince(settled) {
				served++
			}
		}
		return 4*served > len(o.about) || len(o.about) == 0
	})
	o.whole = settled.Sub(o.until)
	for _, s := range o.about {
		s.mu.Lock()
		for _, a := range s.answers {
			switch took := a.came.Sub(o.until); {
			case a.err != nil:
				o.last = max(o.last, took)
			case a.asked.After(o.until) && (o.first == 0 || took < o.first):
				o.first = took
			}
		}
		s.mu.Unlock()
	}
	r.faults.add(o.name, 1)
	r.outages = append(r.outages, o)
}

// flushScripts flushes the scripts of one node after another, until what it returns is called.
func (r *run) flushScripts(nodes ...*redistest.Server) (stop func()) {
	clients := make([]*redis.Client, len(nodes))
	for i, node := range nodes {
		clients[i] = redis.NewClient(&redis.Options{ // one that does not hold up the others when it is dead
			Addr: node.Addr, DisableIdentity: true, MaxRetries: -1, DialerRetries: 1,
		})
		r.t.Cleanup(func() { _ = clients[i].Close() })
	}
	return startCrowd(1, func(ctx context.Context, _ int) {
		rest(ctx, rand.N(60*time.Millisecond))
		if clients[rand.IntN(len(clients))].ScriptFlush(ctx).Err() == nil { // some are dead
			r.faults.add("SCRIPT FLUSH", 1)
		}
	}).stop
}

// extras is what was granted beyond the limits.
type extras struct {
	permits, subjects int64
	explained         int64 // so many permits the outages explain at most
	worst             int64 // as permits, with those whose outcome is unknown
}

// end stops the callers, audits every subject and prints the figures.
func (r *run) end() {
	r.callers.stop()
	took := time.Since(r.started)
	e, unexplained := r.audit()
	for _, text := range unexplained {
		r.t.Error(text)
	}
	var ends tally
	for _, s := range r.subjects {
		for _, a := range s.answers {
			ends.add(a.end(), 1)
		}
	}
	r.t.Logf("%s: %d decisions about %d subjects in %.0f s: %v; faults: %v", r.name, r.calls.of("decisions"),
		len(r.subjects), took.Seconds(), &ends, &r.faults)
	r.t.Logf("%d permits of %d subjects beyond a limit, %d if every unknown outcome was a grant; up to %d explained",
		e.permits, e.subjects, e.worst, e.explained)
	for _, o := range r.outages {
		r.t.Logf("%s: grants lost, of the last %v", o.name, round(o.until.Sub(o.after)))
		r.t.Logf("%s after %v, the first answer came after %v, the last error after %v", o.settles, round(o.whole),
			round(o.first), round(o.last))
	}
}

// audit says of every subject that was granted more than its limit and the outages explain what is unexplained.
func (r *run) audit() (sum extras, unexplained []string) {
	explained := map[*subject]int64{}
	for _, o := range r.outages {
		for _, s := range o.about {
			for _, grant := range s.granted(o.after, o.until, false) {
				explained[s] += grant.Permits
			}
		}
	}
	for _, s := range r.subjects {
		began, ended := time.Time{}, time.Now().Add(time.Hour)
		extra := s.script.extra(s.granted(began, ended, false), s.limit)
		if extra > explained[s] {
			unexplained = append(unexplained, fmt.Sprintf("%s (%s, %d in %v) was granted %d permits too many, of which "+
				"faults explain %d", s.name, s.script.name, s.limit.Permits, s.limit.Window, extra, explained[s]))
		}
		sum.permits, sum.explained = sum.permits+extra, sum.explained+explained[s]
		sum.worst += s.script.extra(s.granted(began, ended, true), s.limit)
		if extra > 0 {
			sum.subjects++
		}
	}
	return sum, unexplained
}

// A grant beyond the limit is found unless an outage explains it: of that subject, and of grants that were made after
// what was replicated and before the kill.
func TestUnexplainedGrant(t *testing.T) {
	second0 := time.Now()
	at := func(seconds float64, permits int64) answer {
		when := second0.Add(time.Duration(seconds * float64(time.Second)))
		return answer{permits: permits, decided: loader.Decision{Granted: true, Now: when}}
	}
	for name, test := range map[string]struct {
		grants []answer
		lost   bool // the loss is of this subject
		want   int
	}{
		"the limit":                 {[]answer{at(11, 4)}, true, 0},
		"lost, and granted again":   {[]answer{at(11, 3), at(12, 1), at(20, 4)}, true, 0},
		"one more":                  {[]answer{at(11, 4), at(20, 5)}, true, 1},
		"replicated before":         {[]answer{at(10, 4), at(20, 1)}, true, 1},
		"granted after the kill":    {[]answer{at(12.1, 4), at(20, 1)}, true, 1},
		"lost by another's subject": {[]answer{at(11, 4), at(20, 1)}, false, 1},
	} {
		s := &subject{script: scripts[0], limit: subjectLimits[1], answers: test.grants}
		o := &outage{after: at(10, 0).decided.Now, until: at(12, 0).decided.Now}
		if test.lost {
			o.about = []*subject{s}
		}
		r := &run{subjects: []*subject{s}, outages: []*outage{o}}
		if _, unexplained := r.audit(); len(unexplained) != test.want {
			t.Errorf("%s: %q, want %d", name, unexplained, test.want)
		}
	}
}
