package replay

import (
	"slices"
	"time"
)

// MaxColumns is the maximum number of columns of a timeline.
const MaxColumns = 60

// steps is the lengths that a column may have. Each divides the next one, so that columns can be joined.
var steps = func() []int64 {
	var all []int64
	for _, d := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute,
		5 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour} {
		all = append(all, d.Microseconds())
	}
	for days := int64(1); days <= 1<<16; days *= 2 {
		all = append(all, days*24*time.Hour.Microseconds())
	}
	return all
}()

// Column is the requests of one key in one column of a timeline.
type Column struct {
	Granted uint32 `json:"granted"`
	Denied  uint32 `json:"denied"`
}

// timeline counts the requests of one key over time. It has MaxColumns columns at most, whatever time it spans: it
// grows with the columns that have requests, and joins them when there are too many.
type timeline struct {
	step  uint8 // index in steps
	cells []cell
}

type cell struct {
	number int64 // the column, counted from 1970
	Column
}

// add counts a request. Times ascend.
func (t *timeline) add(at int64, denied bool) {
	number := at / steps[t.step]
	if n := len(t.cells); n == 0 || t.cells[n-1].number < number {
		t.cells = append(t.cells, cell{number: number})
	}
	last := &t.cells[len(t.cells)-1]
	if denied {
		last.Denied++
	} else {
		last.Granted++
	}
	for len(t.cells) > MaxColumns {
		t.join()
	}
}

// join makes the columns longer by one step.
func (t *timeline) join() {
	t.step++
	times := steps[t.step] / steps[t.step-1]
	joined := t.cells[:0]
	for _, c := range t.cells {
		c.number /= times
		if n := len(joined); n > 0 && joined[n-1].number == c.number {
			joined[n-1].Granted += c.Granted
			joined[n-1].Denied += c.Denied
			continue
		}
		joined = append(joined, c)
	}
	t.cells = joined
}

// stepOf returns the shortest step with which a time from the first to the last has at most MaxColumns columns.
func stepOf(first, last int64) uint8 {
	return uint8(slices.IndexFunc(steps, func(step int64) bool { return last/step-first/step < MaxColumns }))
}

// columns returns the counts of all columns from the first time to the last, of this step.
func (t timeline) columns(step uint8, first, last int64) []Column {
	t.cells = slices.Clone(t.cells)
	for t.step < step {
		t.join()
	}
	from := first / steps[step]
	all := make([]Column, last/steps[step]-from+1)
	for _, c := range t.cells {
		all[c.number-from] = c.Column
	}
	return all
}
