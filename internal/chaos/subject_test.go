package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/audit"
	"github.com/sluice-redis/sluice/loader"
)

// patience is how long a caller waits for one decision.
const patience = time.Second

// The limits of the subjects: one that is used up again and again, and one that holds for the whole run.
var limits = []loader.Limit{
	{Permits: 4, Window: 2 * time.Second},
	{Permits: 4, Window: time.Hour},
}

// maker makes a limiter of a script.
type maker struct {
	script string
	make   func(l *loader.Loader, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter
	extra  func([]audit.Grant, loader.Limit) int64
}

var makers = []maker{
	makerOf("list_log", (*loader.Loader).ListLog, audit.ExtraInLog),
	makerOf("zset_log", (*loader.Loader).ZSetLog, audit.ExtraInLog),
	makerOf("gcra", (*loader.Loader).GCRA, audit.ExtraInBucket),
	makerOf("token_bucket", (*loader.Loader).TokenBucket, audit.ExtraInLog),
	{"slice_ring", func(l *loader.Loader, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
		return l.SliceRing(name, []loader.Limit{limit}, opts...)
	}, audit.ExtraInLog},
}

func makerOf[L loader.Limiter](script string,
	limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) L,
	extra func([]audit.Grant, loader.Limit) int64) maker {
	m := maker{script: script, extra: extra}
	m.make = func(l *loader.Loader, name string, limit loader.Limit, opts ...loader.LimiterOption) loader.Limiter {
		return limiter(l, name, limit, opts...)
	}
	return m
}

// patient is a limiter whose callers wait for half of their patience, where the script books ahead.
func (m maker) patient(l *loader.Loader, limit loader.Limit) loader.Limiter {
	if m.script == "slice_ring" {
		return m.make(l, "chaos", limit)
	}
	return m.make(l, "chaos", limit, loader.MaxWait(patience/2))
}

// subject is one of the subjects of a run, with all its answers.
type subject struct {
	name    string
	script  string
	limit   loader.Limit
	limits  *loader.Loader
	limiter loader.Limiter
	extra   func([]audit.Grant, loader.Limit) int64

	mu       sync.Mutex
	granted  []audit.Grant
	unknown  []audit.Grant // those whose outcome is unknown, when they were given up
	answered []answer
	failed   []time.Time // when calls ended in an error
}

// answer is when a call was made and when it was answered.
type answer struct{ asked, came time.Time }

// newSubjects are n subjects, each of one script and one limit; every second of a kind shares round trips.
func newSubjects(rdb redis.UniversalClient, n int) []*subject {
	alone, together := loader.New(rdb), loader.New(rdb, loader.ShareRoundTrips())
	subjects := make([]*subject, n)
	for i := range subjects {
		maker, limit := makers[i%len(makers)], limits[i/len(makers)%len(limits)]
		if maker.script == "zset_log" {
			// A repeated request with an id is answered with a later time than the grant's: only a
			// window that holds for the whole run can be audited by the replies.
			limit = limits[1]
		}
		from := alone
		if i/len(makers)/len(limits)%2 == 1 {
			from = together
		}
		subjects[i] = &subject{
			name: fmt.Sprint("s", i), script: maker.script, limit: limit,
			limits: from, limiter: maker.patient(from, limit), extra: maker.extra,
		}
	}
	return subjects
}

// question is one way to ask.
type question int

const (
	look question = iota
	allowTwo
	reserve
	inBatch
	allow     // as often as all the others together and more
	questions = 8
)

// ask asks once, in one of the ways, and writes down what came of it.
func (s *subject) ask(random *rand.Rand) (permits int64, d loader.Decision, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	asked := time.Now()
	permits, d, err = s.decide(ctx, question(random.IntN(questions)))
	s.note(asked, permits, d, err)
	return permits, d, err
}

func (s *subject) decide(ctx context.Context, q question) (permits int64, d loader.Decision, err error) {
	booker, books := s.limiter.(loader.Reserver)
	switch {
	case q == look:
		d, err = s.limiter.Peek(ctx, s.name)
		return 0, d, err
	case q == allowTwo:
		d, err = s.limiter.AllowN(ctx, s.name, 2)
		return 2, d, err
	case q == reserve && books:
		r, err := booker.Reserve(ctx, s.name)
		if err != nil {
			return 1, d, err
		}
		return 1, r.Decision(), nil
	case q == inBatch:
		batch := s.limits.Batch()
		batch.Peek(s.limiter, s.name)
		result := batch.Allow(s.limiter, s.name)
		_, _ = batch.Do(ctx) // the result has its error
		return 1, result.Decision, result.Err
	}
	d, err = s.limiter.Allow(ctx, s.name)
	return 1, d, err
}

func (s *subject) note(asked time.Time, permits int64, d loader.Decision, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	switch {
	case errors.Is(err, loader.ErrOutcomeUnknown):
		s.unknown = append(s.unknown, audit.Grant{At: now, Decided: now, Permits: permits})
		s.failed = append(s.failed, now)
	case err != nil:
		s.failed = append(s.failed, now)
	default:
		s.answered = append(s.answered, answer{asked, now})
		if d.Granted {
			s.granted = append(s.granted, audit.Grant{At: d.Now.Add(d.Wait), Decided: d.Now, Permits: permits})
		}
	}
}

// grantedWithin returns how many permits were granted after one time and up to another.
func (s *subject) grantedWithin(after, until time.Time) int64 {
	var n int64
	for _, a := range s.granted {
		if a.Decided.After(after) && !a.Decided.After(until) {
			n += a.Permits
		}
	}
	return n
}

// TestNewSubjects wants every script with every limit that it can be audited by, alone and together.
func TestNewSubjects(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	kinds := map[string]int{}
	for _, s := range newSubjects(rdb, 1000) {
		kinds[s.script+" "+s.limit.Window.String()]++
	}
	if len(kinds) != 2*len(makers)-1 || kinds["gcra 2s"] != 100 || kinds["zset_log 1h0m0s"] != 200 {
		t.Error(kinds)
	}
}
