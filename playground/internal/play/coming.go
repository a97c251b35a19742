package play

import (
	"cmp"
	"container/heap"
)

// coming are the calls of requests that have come before, a heap: the earliest first, of equal times that of the
// request that came first.
type coming []call

func (q coming) Len() int      { return len(q) }
func (q coming) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *coming) Push(c any)   { *q = append(*q, c.(call)) }

func (q coming) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), cmp.Compare(q[i].arrival, q[j].arrival)) < 0
}

func (q *coming) Pop() any {
	last := len(*q) - 1
	c := (*q)[last]
	*q = (*q)[:last]
	return c
}

func (q *coming) push(c call) { heap.Push(q, c) }
func (q *coming) pop() call   { return heap.Pop(q).(call) }
