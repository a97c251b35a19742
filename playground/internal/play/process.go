package play

import (
	"container/heap"
	"fmt"
	"math"
	"slices"

	"github.com/sluice-redis/sluice/internal/ahead"
)

// process is what a process that grants by itself knows of one subject. That of a cached_counter has the same account,
// without a bound.
type process struct {
	ahead.Account
	first  int   // the request that was granted first of those that are in no report
	oldest int64 // when
	due    int64 // when they are reported: the call is among those that come
	asked  int64 // when the last answer came
	denied int64 // so many permits were denied then; 0: none
	wait   int64 // for so long
	ends   int64 // of the window that a cached_counter counts, by the server's clock
}

// processOf returns what the process to which a request has come knows of its subject.
func (l *lane) processOf(a arrival) *process {
	key := [2]int64{a.process}
	if l.scenario.KeyPerClient {
		key[1] = a.client
	}
	p := l.processes[key]
	if p == nil {
		p = &process{due: never}
		l.processes[key] = p
	}
	return p
}

// startProcesses sets when processes report, and how far each may be ahead of Redis.
func (l *lane) startProcesses() {
	if l.follows != reports {
		return
	}
	s := l.scenario
	l.processes = map[[2]int64]*process{}
	limit, window := s.Limits[0].Permits, s.Limits[0].Window
	for _, other := range s.limitsOf(l.limiter) {
		limit, window = min(limit, other.Permits), min(window, other.Window)
	}
	l.every = max(min(window/20, second), second/1000)
	if l.most = math.MaxInt64; l.ours == nil {
		return
	}
	share := func(limit int64) int64 { return ahead.Share(limit, int(s.Processes), float64(s.Error)/100) }
	if l.most = share(limit); l.most < 1 {
		enough := 200 * s.Processes / s.Error
		for share(enough) < 1 {
			enough++
		}
		l.refused = fmt.Errorf("ahead with a limit of %d, processes %d, error %d %%: "+
			"want a limit of %d, fewer processes or a larger error", limit, s.Processes, s.Error, enough)
	}
}

// decideHere decides a call in its process, if that may. Otherwise the call takes the report with it.
func (l *lane) decideHere(a arrival, c call) (d answer, here bool) {
	if l.follows != reports {
		return d, false
	}
	p := l.processOf(a)
	if c.purpose == asking {
		d, here = l.decideIn(p, a, c)
	}
	if !here {
		p.Take()
	}
	return d, here
}

func (l *lane) decideIn(p *process, a arrival, c call) (d answer, here bool) {
	d = answer{denied, max(p.Remaining, 0), p.wait - (c.at - p.asked), a.permits}
	if l.ours == nil {
		now, limit := l.scenario.serverTime(c.at), l.scenario.Limits[0]
		if now >= p.ends {
			p.Remaining, p.ends = limit.Permits, now-now%limit.Window+limit.Window
		}
		d.remaining, d.wait = max(p.Remaining-p.Unreported(), 0), p.ends-now
	} else if a.permits == p.denied && d.wait > 0 {
		return d, true
	}
	isFirst := p.Unsent == 0
	if !p.Grant(a.permits, l.most) {
		return d, l.ours == nil
	}
	if isFirst {
		p.first, p.oldest = c.arrival, c.at
	}
	return answer{granted, p.Remaining - p.Unreported(), 0, a.permits}, true
}

// answered tells a process the answer to its call, and returns what that means.
func (l *lane) answered(a arrival, c call, d answer) answer {
	p := l.processOf(a)
	means := d
	if means.permits = a.permits; c.purpose == ending {
		means = answer{ended, unknown, unknown, p.InFlight}
	}
	p.Answered(d.remaining)
	p.asked, p.wait, p.denied = c.at, d.wait, 0
	switch {
	case d.wait > 0 && c.purpose == ending: // no room for one
		p.denied = 1
	case d.wait > 0:
		p.denied = a.permits
	}
	return means
}

// queueReport has the report of a process come when its oldest grant is old enough, or at once if half of what it may
// be ahead is used.
func (l *lane) queueReport(a arrival, c call) {
	p, due := l.processOf(a), int64(never)
	if p.Unsent > 0 {
		if due = p.oldest + l.every; p.Unsent >= l.most-l.most/2 {
			due = c.at
		}
	}
	if due == p.due {
		return
	}
	report := call{arrival: p.first, try: 1, purpose: ending, at: p.due}
	if i := slices.Index(l.coming, report); i >= 0 {
		heap.Remove(&l.coming, i)
	}
	if p.due, report.at = due, due; due < never {
		l.coming.push(report)
	}
}
