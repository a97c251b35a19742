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

// subject is one of the subjects of a run, with all its answers.
type subject struct {
	name    string
	slot    int // of a cluster
	script  *script
	limit   loader.Limit
	limits  *limits
	limiter loader.Limiter

	mu      sync.Mutex
	answers []answer
}

// newSubjects are n subjects, each of one script and one limit; every second of a kind shares round trips. Where the
// script books ahead, callers wait for half of their patience.
func newSubjects(rdb redis.UniversalClient, n int) []*subject {
	alone, together := loader.New(rdb, loader.WithoutSharing()), loader.New(rdb)
	subjects := make([]*subject, n)
	for i := range subjects {
		s := &subject{name: fmt.Sprint("s", i), script: scripts[i%len(scripts)], limits: alone}
		s.limit = subjectLimits[i/len(scripts)%len(subjectLimits)]
		if s.script.repeats { // only a window that holds for the whole run can be audited by the replies
			s.limit = subjectLimits[1]
		}
		if i/len(scripts)/len(subjectLimits)%2 == 1 {
			s.limits = together
		}
		var ahead []loader.LimiterOption
		if s.script != sliceRing {
			ahead = append(ahead, loader.MaxWait(callPatience/2))
		}
		s.limiter = s.script.make(s.limits, "chaos", s.limit, ahead...)
		subjects[i] = s
	}
	return subjects
}

// ask asks once, mostly by an Allow, and writes down what came of it.
func (s *subject) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	a := answer{limiter: s.limiter, subject: s.name, permits: 1}
	look, h, m := a, direct, allow
	look.permits = 0
	answers := []answer{a}
	switch rand.IntN(8) {
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
	a.asked, a.came = asked, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers = append(s.answers, a)
	return a.err
}

// servedSince reports whether the last call that has ended began after a time and was answered.
func (s *subject) servedSince(since time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.answers)
	return n > 0 && s.answers[n-1].err == nil && s.answers[n-1].asked.After(since)
}

// end is what a call ended with, in a word or two.
func (a answer) end() string {
	switch {
	case a.err != nil:
		return kindOf(a.err)
	case a.permits == 0:
		return "looked"
	}
	return fmt.Sprintf("granted %v", a.decided.Granted)
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
