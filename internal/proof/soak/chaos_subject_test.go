//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// callPatience is how long a caller waits for one decision.
const callPatience = time.Second

// The limits of the subjects: one that is used up again and again, and one that holds for the whole run.
var subjectLimits = []loader.Limit{
	{Permits: 4, Window: 2 * time.Second},
	{Permits: 4, Window: time.Hour},
}

// forSubjects is a limiter whose callers wait for half of their patience, where the script books ahead.
func (s *script) forSubjects(l *limits, limit loader.Limit) loader.Limiter {
	if s == sliceRing {
		return s.make(l, "chaos", limit)
	}
	return s.make(l, "chaos", limit, loader.MaxWait(callPatience/2))
}

// subject is one of the subjects of a run, with all its answers.
type subject struct {
	name    string
	script  *script
	limit   loader.Limit
	limits  *limits
	limiter loader.Limiter

	mu       sync.Mutex
	granted  []Grant
	unknown  []Grant // those whose outcome is unknown, when they were given up
	answered []served
	failed   []failedCall
}

// served is an answered call: when it was made and answered.
type served struct {
	asked, came time.Time
	permits     int64 // asked for; 0: a look
	granted     bool
}

// failedCall is when a call ended in an error, and its kind.
type failedCall struct {
	at   time.Time
	kind string
}

// newSubjects are n subjects, each of one script and one limit; every second of a kind shares round trips.
func newSubjects(rdb redis.UniversalClient, n int) []*subject {
	alone, together := loader.New(rdb, loader.WithoutSharing()), loader.New(rdb)
	subjects := make([]*subject, n)
	for i := range subjects {
		script, limit := scripts[i%len(scripts)], subjectLimits[i/len(scripts)%len(subjectLimits)]
		if script.repeats { // only a window that holds for the whole run can be audited by the replies
			limit = subjectLimits[1]
		}
		from := alone
		if i/len(scripts)/len(subjectLimits)%2 == 1 {
			from = together
		}
		subjects[i] = &subject{
			name: fmt.Sprint("s", i), script: script, limit: limit, limits: from, limiter: script.forSubjects(from, limit),
		}
	}
	return subjects
}

// questions are the ways in which a subject is asked about: mostly an Allow.
const questions = 8

// ask asks once, in one of the ways, and writes down what came of it.
func (s *subject) ask(random *rand.Rand) error {
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	a := answer{limiter: s.limiter, subject: s.name, permits: 1}
	look, h, m := a, direct, allow
	look.permits = 0
	answers := []answer{a}
	switch random.IntN(questions) {
	case 0:
		answers = []answer{look}
	case 1:
		answers[0].permits = 2
	case 2:
		m = reserve
	case 3:
		h, answers = inBatch, []answer{look, a}
	}
	asked := time.Now()
	h.ask(ctx, s.limits, m, answers)
	a = answers[len(answers)-1]
	s.note(asked, a.permits, a.decided, a.err)
	return a.err
}

func (s *subject) note(asked time.Time, permits int64, d loader.Decision, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if err != nil {
		s.failed = append(s.failed, failedCall{now, KindOf(err)})
		if errors.Is(err, loader.ErrOutcomeUnknown) {
			s.unknown = append(s.unknown, Grant{At: now, Decided: now, Permits: permits})
		}
		return
	}
	s.answered = append(s.answered, served{asked, now, permits, d.Granted})
	if d.Granted {
		s.granted = append(s.granted, Grant{At: d.Now.Add(d.Wait), Decided: d.Now, Permits: permits})
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
		kinds[s.script.name+" "+s.limit.Window.String()]++
	}
	if len(kinds) != 2*len(scripts)-1 || kinds["gcra 2s"] != 100 || kinds["zset_log 1h0m0s"] != 200 {
		t.Error(kinds)
	}
}
