package replay

import (
	"cmp"
	"container/heap"
	"time"

	"github.com/sluice-redis/sluice/policy"
)

// MaxDisorder is how far lines may be out of order: a line is decided at its time if it stands behind none that is
// newer by more than this. Servers write a line when the request ends, and some note when it began.
const MaxDisorder = time.Minute

// request is a line that was read.
type request struct {
	at      int64 // microseconds since 1970
	line    int64
	matches []policy.Match
	free    bits // the matches that do not charge for the response of the request
}

// bits is a set of small numbers.
type bits []uint64

func (b bits) has(i int) bool { return i/64 < len(b) && b[i/64]>>(i%64)&1 == 1 }

func (b *bits) add(i int) {
	for len(*b) <= i/64 {
		*b = append(*b, 0)
	}
	(*b)[i/64] |= 1 << (i % 64)
}

// sorter puts requests in the order of their times; those of the same time stay in the order of their lines.
type sorter struct {
	waiting requests
	newest  int64
	clock   int64 // of the last one that was passed on
	late    int64 // how many came too late: they are passed on with the clock as their time
	pass    func(request)
}

// add takes a request, and passes on those that no later line can overtake.
func (s *sorter) add(r request) {
	heap.Push(&s.waiting, r)
	s.newest = max(s.newest, r.at)
	s.passUpTo(s.newest - MaxDisorder.Microseconds())
}

// passUpTo passes on the requests up to a time.
func (s *sorter) passUpTo(at int64) {
	for len(s.waiting) > 0 && s.waiting[0].at <= at {
		r := heap.Pop(&s.waiting).(request)
		if r.at < s.clock {
			s.late++
			r.at = s.clock
		}
		s.clock = r.at
		s.pass(r)
	}
}

// requests is a heap.
type requests []request

func (h requests) Len() int { return len(h) }
func (h requests) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].line, h[j].line)) < 0
}
func (h requests) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *requests) Push(r any)   { *h = append(*h, r.(request)) }
func (h *requests) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = request{} // its keys are no longer needed
	*h = (*h)[:last]
	return r
}
