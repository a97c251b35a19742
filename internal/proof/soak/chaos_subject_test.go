//go:build unix

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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

	mu      sync.Mutex
	answers []served
}

// served is a call that has ended: when it was made and answered.
type served struct {
	asked, came time.Time
	permits     int64 // asked for; 0: a look
	decided     loader.Decision
	err         error
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, served{asked, time.Now(), a.permits, a.decided, a.err})
	return a.err
}

// granted returns what was granted for sure after one time and up to another, by the server's clock; and, if every call
// of which the outcome is unknown was granted when it was given up, those of all times.
func (s *subject) granted(after, until time.Time, unknown bool) (spent []Spent) {
	for _, a := range s.answers {
		at := a.decided.Now.Add(a.decided.Wait)
		switch {
		case a.decided.Granted && a.decided.Now.After(after) && !a.decided.Now.After(until):
			spent = append(spent, Spent{From: at, To: at, Permits: a.permits})
		case unknown && errors.Is(a.err, loader.ErrOutcomeUnknown):
			spent = append(spent, Spent{From: a.came, To: a.came, Permits: a.permits})
		}
	}
	return spent
}
