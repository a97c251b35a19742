package loader

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/internal/ahead"
)

// aheadSubject is what an Ahead knows about one subject, under the lock of its shard.
type aheadSubject struct {
	ahead.Account
	subject string
	oldest  time.Duration // when the first of what is unsent was granted
	flight  *flight       // nil: nothing is on its way
	due     time.Duration // when it is to be reported
	retry   time.Duration // no report before then, because the last one was lost

	// The last answer.
	last   lastAnswer
	asked  time.Duration // when it was asked for
	denied int64         // that many permits were denied, for last.Wait; 0: none
}

// lastAnswer is the parts of a Decision that are kept.
type lastAnswer struct {
	Wait, ResetAfter time.Duration
	Limit            Limit
	Now              time.Time
}

// flight is one report or question on its way to Redis.
type flight struct {
	sent    time.Duration
	oldest  time.Duration // of what it reports
	request *request      // nil until it is made
	void    bool          // its answer is out of date when it comes
	done    chan struct{} // closed when it has ended
}

// age returns how old the oldest permit was when it was sent.
func (f *flight) age() time.Duration { return f.sent - f.oldest }

// wait waits for the end of a flight, or of the context, whose error it returns.
func (f *flight) wait(ctx context.Context) error {
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// beginFlight begins a flight with all that is unsent.
func (s *aheadSubject) beginFlight(now time.Duration) (reported int64) {
	if s.Unsent == 0 {
		s.oldest = now
	}
	s.flight = &flight{done: make(chan struct{}), sent: now, oldest: s.oldest}
	return s.Take()
}

// answered takes the answer to a question for this many permits, 0 for a report.
func (s *aheadSubject) answered(d Decision, permits int64) {
	s.Answered(d.Remaining)
	s.last = lastAnswer{d.Wait, d.ResetAfter, d.Limit, d.Now}
	s.asked, s.denied, s.retry = s.flight.sent, 0, 0
	if !d.Granted && d.Wait > 0 {
		s.denied = ahead.Denied(permits)
	}
	if s.flight.void {
		s.forget()
	}
}

// forget has Redis asked at the next call: what it said is out of date.
func (s *aheadSubject) forget() {
	s.Remaining, s.denied = 0, 0
	if s.flight != nil {
		s.flight.void = true
	}
}

// denies returns the last answer if it still denies this many permits.
func (s *aheadSubject) denies(n int64, now time.Duration) (Decision, bool) {
	if n != s.denied {
		return Decision{}, false
	}
	since := time.Duration(divideUp(now-s.asked, time.Microsecond)) * time.Microsecond
	if since >= s.last.Wait {
		return Decision{}, false
	}
	d := Decision{Remaining: s.Remaining}
	d.Wait, d.ResetAfter, d.Limit, d.Now = s.last.Wait, s.last.ResetAfter, s.last.Limit, s.last.Now
	return d.later(since), true
}

// Bounds of the table of subjects.
const (
	aheadShards      = 64       // each with a lock of its own
	maxAheadBytes    = 64 << 20 // of all subjects together
	aheadSubjectSize = 240      // bytes for each subject, besides its text
	evictionTries    = 8        // subjects that are looked at for some that may go
)

// aheadShard is a part of the subjects.
type aheadShard struct {
	mu       sync.Mutex
	subjects map[string]*aheadSubject
	size     int // bytes
	closed   bool
}

// add adds a subject, in place of others if there is no room. It returns nil if all have something unreported.
func (shard *aheadShard) add(subject string) *aheadSubject {
	const maxSize = maxAheadBytes / aheadShards
	size, tries := aheadSubjectSize+len(subject), 0
	for other, s := range shard.subjects {
		if tries++; shard.size+size <= maxSize || tries > evictionTries+size/aheadSubjectSize {
			break
		}
		if s.Unsent == 0 && s.flight == nil {
			delete(shard.subjects, other)
			shard.size -= aheadSubjectSize + len(other)
		}
	}
	if shard.size+size > maxSize {
		return nil
	}
	s := &aheadSubject{subject: strings.Clone(subject)} // it may be a part of something larger
	shard.subjects[s.subject] = s
	shard.size += size
	return s
}

// Ahead is a SliceRing that grants in this process and tells Redis later. SliceRing.Ahead makes it. Close it when the
// program ends. It is safe for concurrent use.
type Ahead struct {
	ring  SliceRing // with the limits that Redis enforces
	most  int64     // permits ahead of Redis, for each subject
	every time.Duration
	start time.Time // zero of clock
	seed  maphash.Seed

	counts time.Duration // how long a permit counts at most, in the widest window
	shards [aheadShards]aheadShard
	queue  reportQueue
}

// clock returns the time since the Ahead was made. All ages are measured with this monotonic clock.
func (a *Ahead) clock() time.Duration { return time.Since(a.start) }

func (a *Ahead) shard(subject string) *aheadShard {
	return &a.shards[maphash.String(a.seed, subject)%aheadShards]
}

// reportQueue is the subjects that have something to report, in the order in which they are due. A goroutine reports
// them, while there are any. It skips those that are due later by now: they are in the queue again.
type reportQueue struct {
	mu      sync.Mutex
	urgent  []dueReport // due at once
	waiting []dueReport
	running bool
	closed  bool
	wake    chan struct{} // receives a value when it should look at once
}

type dueReport struct {
	*aheadSubject
	at time.Duration
}
