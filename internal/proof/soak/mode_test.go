//go:build unix

package soak

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// limits is what makes limiters.
type limits = loader.Loader

// day is longer than any attack: nothing that a ledger was charged comes free meanwhile.
const day = 24 * time.Hour

// script is one kind of limiter.
type script struct {
	name   string
	make   makeLimiter
	ledger loader.Limit // of the limiter whose charges are counted
	bucket bool         // it is a GCRA

	slots bool // what is granted is held for a while

	// repeats says that a grant may have been made at another time than the reply says: the first of two calls with
	// one id was granted, and its reply lost.
	repeats bool
}

// extra is how many permits were granted beyond a limit.
func (s *script) extra(spent []Spent, limit loader.Limit) int64 {
	if s.bucket {
		return Extra(spent, limit, InBucket)
	}
	return Extra(spent, limit, InWindow)
}

// charged is how many permits the ledger has charged since a time at which it was full. Each moves the time at which a
// GCRA is full again by one interval; the others forget none.
func (s *script) charged(since time.Time, now loader.Decision) int64 {
	if !s.bucket {
		return s.ledger.Permits - now.Remaining
	}
	interval := s.ledger.Window / time.Duration(s.ledger.Permits)
	return int64((now.Now.Add(now.ResetAfter).Sub(since) + interval/2) / interval)
}

var (
	thousands = loader.Limit{Permits: 10_000, Window: day}
	millions  = loader.Limit{Permits: 1_000_000, Window: day}

	listLog     = &script{name: "list_log", ledger: millions, make: limiterBy((*limits).ListLog)}
	zsetLog     = &script{name: "zset_log", ledger: thousands, make: limiterBy((*limits).ZSetLog), repeats: true}
	tokenBucket = &script{name: "token_bucket", ledger: millions, make: limiterBy((*limits).TokenBucket)}

	gcra = &script{
		name: "gcra", ledger: loader.Limit{Permits: 100, Window: day, Burst: 1_000_000}, bucket: true,
		make: limiterBy((*limits).GCRA),
	}
	sliceRing = &script{
		name: "slice_ring", ledger: millions,
		make: func(l *limits, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
			return l.SliceRing(name, []loader.Limit{limit}, opts...)
		},
	}

	scripts   = []*script{listLog, zsetLog, gcra, tokenBucket, sliceRing}
	returning = []*script{listLog, zsetLog, sliceRing} // take permits back
)

// makeLimiter makes a limiter of one script.
type makeLimiter func(l *limits, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter

func limiterBy[L loader.Limiter](
	method func(*limits, string, loader.Limit, ...loader.LimiterOption) L,
) makeLimiter {
	return func(l *limits, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
		return method(l, name, limit, opts...)
	}
}

var budget = &script{
	name: "budget", ledger: millions, repeats: true,
	make: func(l *limits, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
		windows := []loader.Limit{limit}
		return reserver{l.SliceRing(name, windows, opts...), l.Budget(name, windows)}
	},
}

// reserver is a Budget in the shape of a limiter, with another id for each call. Its SliceRing sees the same counts.
type reserver struct {
	loader.SliceRing
	budget loader.Budget
}

func (r reserver) AllowN(ctx context.Context, subject string, n int64) (loader.Decision, error) {
	return r.budget.Reserve(ctx, subject, rand.Text(), n)
}

// mode is one way to use limiters.
type mode struct {
	name    string
	scripts []*script
	options []loader.Option
	limiter []loader.LimiterOption
	kind    int // of client, from 1; 0: they take turns
	how     how

	bound    time.Duration // of a call without a deadline
	observed bool          // with an Observer and a Logger
}

// how is the way in which a mode asks.
type how int

const (
	direct how = iota
	inBatch
	waiting
	inMany     // in a Batch about several subjects of a server, which one command asks about
	inAll      // beside another limiter, all or none
	givingBack // and every second grant is given back
)

// keysAServer is how many subjects of each server a mode asks about.
func (m *mode) keysAServer() int {
	if m.how == inMany {
		return manyKeys
	}
	return 1
}

// returns reports whether it may give permits back in the background: a Wait does that if they came too late.
func (m *mode) returns() bool { return m.how == inAll || m.how == waiting }

// manyKeys is more than the loader sends one by one.
const manyKeys = 5

// The bounds of calls that have neither a deadline nor a Timeout.
const (
	defaultBound = time.Second
	policyBound  = 100 * time.Millisecond
)

var modes = []*mode{
	{name: "plain", scripts: scripts, bound: defaultBound, observed: true},
	{
		name: "Timeout 200ms", scripts: scripts, kind: 3, bound: 200 * time.Millisecond,
		options: []loader.Option{loader.Timeout(200 * time.Millisecond)},
	},
	{
		name: "FailOpen", scripts: scripts, bound: policyBound,
		limiter: []loader.LimiterOption{loader.FailOpen()},
	},
	{
		name: "FailLocal", scripts: scripts, bound: policyBound,
		limiter: []loader.LimiterOption{loader.FailLocal(0.5)},
	},
	{
		name: breakerMode, scripts: scripts, bound: 300 * time.Millisecond, observed: true,
		options: []loader.Option{loader.Breaker(5, 200*time.Millisecond), loader.Timeout(300 * time.Millisecond)},
		limiter: []loader.LimiterOption{loader.RememberDenials(1000)},
	},
	{name: "Batch", scripts: scripts, bound: defaultBound, how: inBatch, observed: true},
	{name: "Wait", scripts: scripts, how: waiting, observed: true},
	{name: "Reserve", scripts: []*script{budget}, bound: defaultBound, observed: true},
	{name: "Many", scripts: []*script{gcra, listLog}, bound: defaultBound, how: inMany, observed: true},
	{name: "All", scripts: returning, bound: defaultBound, how: inAll, observed: true},
	{name: "GiveBack", scripts: returning, bound: 2 * defaultBound, how: givingBack, observed: true},
	{name: "TryAcquire", scripts: []*script{slots}, bound: defaultBound, observed: true},
	{name: "Acquire", scripts: []*script{slots}, how: waiting, observed: true},
}

// patience is how long a caller waits for an answer.
func (m *mode) patience() time.Duration {
	if m.how == waiting {
		return defaultBound
	}
	return m.bound
}

// breakerMode is the mode in which calls may end because a breaker is open.
const breakerMode = "Breaker, RememberDenials"
