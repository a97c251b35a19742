// Package play runs traffic, which a link describes, through rate limiters side by side: our scripts and other ways. It
// audits what they granted. The browser's playground, its tests and the recorder are thin mains around it.
//
// All is computed from the link alone, so a link gives the same decisions on every machine.
package play

import (
	"encoding/binary"
	"math"
)

// maxDecisions is how many decisions a run makes in all lanes together.
const maxDecisions = 50_000

// RecordSize is the length of a record in bytes: 8 float64 in little-endian order. They are the lane, the time, the
// client, the permits, the outcome (0 denied, 1 granted, 2 booked, 3 failed, 4 released, settled, given back or
// reported, 5 renewed, 6 too late for that), the wait, the remaining permits (-1: unknown) and the number of the try,
// from 1.
const RecordSize = 8 * 8

// Run is one run of a link. It is for one goroutine.
type Run struct {
	scenario  *Scenario
	arrivals  []arrival
	lanes     []*lane
	decisions int
	until     int64
	replay    *replay // for Detail, if there is one
}

// Open prepares the run of a link. Close it when it is no longer needed. The error is a *LinkError if the link is
// wrong.
func Open(link string) (*Run, error) {
	s, err := Parse(link)
	if err != nil {
		return nil, err
	}
	r := &Run{scenario: s, arrivals: s.arrivals(maxDecisions + 1)}
	for _, id := range s.Lanes {
		l, err := s.newLane(id)
		if err != nil {
			r.Close()
			return nil, err
		}
		r.lanes = append(r.lanes, l)
	}
	return r, nil
}

// Close frees the lanes' servers.
func (r *Run) Close() {
	r.endReplay()
	for _, l := range r.lanes {
		l.redis.Close()
	}
}

// Step makes decisions until there are no more, into is full, or more says no. It writes their records and returns how
// many. All lanes advance together in time. Cost: about 0.03 ms a decision, ten times that in a browser.
func (r *Run) Step(into []byte, more func() bool) int {
	n := 0
	for ; (n+1)*RecordSize <= len(into) && (n == 0 || more()); n++ {
		i := r.nextLane()
		if i < 0 || r.decisions == maxDecisions {
			break
		}
		r.advance(i, into[n*RecordSize:])
	}
	return n
}

// Done reports whether every decision has been made. cut is true if there would have been more than a run makes.
func (r *Run) Done() (done, cut bool) {
	over := r.nextLane() < 0
	cut = !over && r.decisions == maxDecisions
	return over || cut, cut
}

// nextLane returns the lane with the earliest call, the first of several, or -1.
func (r *Run) nextLane() int {
	next, earliest := -1, int64(math.MaxInt64)
	for i, l := range r.lanes {
		if at, ok := l.nextCall(r.arrivals); ok && at < earliest {
			next, earliest = i, at
		}
	}
	return next
}

func (l *lane) nextCall(arrivals []arrival) (at int64, ok bool) {
	switch {
	case l.comingIsNext(arrivals):
		return l.coming[0].at, true
	case l.next < len(arrivals):
		return arrivals[l.next].at, true
	}
	return 0, false
}

// comingIsNext reports whether a request that has come before calls before the next new one comes, or at the same time.
func (l *lane) comingIsNext(arrivals []arrival) bool {
	return len(l.coming) > 0 && (l.next == len(arrivals) || l.coming[0].at <= arrivals[l.next].at)
}

// advance makes the next decision of a lane.
func (r *Run) advance(i int, record []byte) {
	l := r.lanes[i]
	c := l.takeCall(r.arrivals)
	a := r.arrivals[c.arrival]
	answer, err := l.decide(a, c)
	if err == nil && l.wasLostEarly(c, answer) {
		answer.outcome, err = failed, errLostEarly
	}
	c.outcome = answer.outcome
	l.calls = append(l.calls, c)
	l.count(answer, err)
	l.goOn(a, c, answer)
	r.decisions++
	r.until = c.at
	put(record, int64(i), c.at, a.client+1, answer.permits, int64(answer.outcome), answer.wait, answer.remaining,
		int64(c.try))
}

func put(record []byte, fields ...int64) {
	for i, n := range fields {
		binary.LittleEndian.PutUint64(record[8*i:], math.Float64bits(float64(n)))
	}
}

func (l *lane) takeCall(arrivals []arrival) call {
	if l.comingIsNext(arrivals) {
		return l.coming.pop()
	}
	l.next++
	return call{arrival: l.next - 1, try: 1, at: arrivals[l.next-1].at}
}

// goOn brings the audit up to date, and notes what the request does next.
func (l *lane) goOn(a arrival, c call, answer answer) {
	switch answer.outcome {
	case denied:
		l.comeBack(c, answer)
	case granted, booked:
		c.asked, c.due = c.at, c.at+answer.wait
		l.follow(a, c)
	case renewed:
		c.asked = c.at
		l.follow(a, c)
	}
	l.account(a, c, answer)
	if l.follows == reports {
		l.queueReport(a, c)
	}
}

// comeBack notes when a denied request comes again, if it does.
func (l *lane) comeBack(c call, a answer) {
	s := l.scenario
	if s.Denied == deniedLeave || int64(c.try) == s.Tries {
		return
	}
	wait := s.Every
	if s.Denied == deniedWait && a.wait > 0 {
		wait = a.wait
	}
	c.at += wait
	c.try++
	l.coming.push(c)
}

// count counts a call for the audit.
func (l *lane) count(answer answer, err error) {
	l.tally.calls++
	l.tally.outcomes[answer.outcome]++
	if err != nil && l.tally.firstError == "" {
		l.tally.firstError = shortened(err.Error())
	}
}
