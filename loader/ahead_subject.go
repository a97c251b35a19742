package loader

import (
	"strings"
	"sync"
	"time"
)

// aheadSubject is what an Ahead knows about one subject. docs/guarantees.md has the rule, and why it holds. There u is
// what unreported returns; it changes together with the last answer, under the lock of the shard.
type aheadSubject struct {
	subject  string
	unsent   int64         // permits granted here that are in no report
	oldest   time.Duration // when the first of them was granted
	inFlight int64         // permits in the report or the question on its way
	flight   *flight       // nil: nothing is on its way

	due   time.Duration // when it is to be reported
	place int           // in the queue of its shard, from 1; 0: it is not in it
	retry time.Duration // no report before then, because the last one was lost

	// The last answer.
	last      lastAnswer
	remaining int64         // permits that were left behind what it charged; 0 also if there is no answer yet
	asked     time.Duration // when it was asked for
	denied    int64         // that many permits were denied, for last.Wait; 0: none
}

// lastAnswer is the parts of a Decision that are kept.
type lastAnswer struct {
	Wait, ResetAfter time.Duration
	Limit            Limit
	Now              time.Time
}

// flight is one report or question on its way to Redis. Callers who need its answer wait for done.
type flight struct {
	sent    time.Duration
	oldest  time.Duration // of what it reports
	request *request      // nil until it is made
	void    bool          // its answer is out of date when it comes

	done chan struct{} // closed when lost is set
	lost bool          // there is no answer
}

// age returns how old the oldest permit was when it was sent.
func (f *flight) age() time.Duration { return f.sent - f.oldest }

func (s *aheadSubject) unreported() int64 { return s.unsent + s.inFlight }

// grant grants n permits ahead of Redis. It reports false if Redis has to be asked: the last answer left no room for all
// that is unreported, or that would be more than most.
func (s *aheadSubject) grant(n, most int64) bool {
	if n > min(s.remaining, most)-s.unreported() {
		return false
	}
	s.unsent += n
	return true
}

// take begins a flight with all that is unsent.
func (s *aheadSubject) take(now time.Duration) (reported int64) {
	if s.unsent == 0 {
		s.oldest = now
	}
	s.flight = &flight{done: make(chan struct{}), sent: now, oldest: s.oldest}
	s.inFlight, s.unsent = s.unsent, 0
	return s.inFlight
}

// answered ends a flight with the answer to a question for this many permits, 0 for a report.
func (s *aheadSubject) answered(d Decision, permits int64) {
	s.last = lastAnswer{d.Wait, d.ResetAfter, d.Limit, d.Now}
	s.remaining, s.asked, s.denied = d.Remaining, s.flight.sent, 0
	if !d.Granted && d.Wait > 0 {
		s.denied = max(permits, 1)
	}
	if s.flight.void {
		s.remaining, s.denied = 0, 0
	}
	s.flight, s.inFlight, s.retry = nil, 0, 0
}

// forget has Redis asked at the next call: what it said is out of date.
func (s *aheadSubject) forget() {
	s.remaining, s.denied = 0, 0
	if s.flight != nil {
		s.flight.void = true
	}
}

// lost ends a flight without an answer. What it reported is unsent again: Redis may count it twice.
func (s *aheadSubject) lost() {
	s.oldest = s.flight.oldest
	s.unsent += s.inFlight
	s.flight, s.inFlight = nil, 0
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
	d := Decision{Remaining: s.remaining}
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
	size     int         // bytes
	waiting  dueSubjects // to be reported
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
		if s.unsent == 0 && s.flight == nil {
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

// close leaves what is unreported, and lets Redis decide about everything else.
func (shard *aheadShard) close() {
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.closed = true
}
