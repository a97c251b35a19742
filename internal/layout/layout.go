// Package layout makes the bytes that the scripts store, as the STATE of their headers says, from plain numbers, and
// decodes them. What makes bytes is for tests, which put them under a key or compare them with what a script wrote: it
// checks no ranges, so tests can also make values that no script writes. What decodes them checks as the scripts do.
package layout

import "encoding/binary"

// Integer is the last width bytes, 1 to 8, of n in big-endian order.
func Integer(width int, n uint64) string {
	return string(binary.BigEndian.AppendUint64(nil, n)[8-width:])
}

// GCRA is the bucket of gcra: tat, numerator, limit, written and widest, and where grants under narrower windows came
// later, the widest of those and drained.
func GCRA(fields ...uint64) (bucket string) {
	for i, n := range fields {
		bucket += Integer([]int{7, 3, 3, 7, 6, 6, 7}[i], n)
	}
	return bucket
}

// TokenBucketEntry is an entry of token_bucket: when it was granted, the permits granted before it, and its permits.
func TokenBucketEntry(at, before, permits uint64) string {
	return Integer(8, at) + Integer(8, before) + Integer(4, permits)
}

// SliceRing is a ring of slice_ring: when it was charged last, the total, the total before the oldest slice of the window
// then, and its cells: the total before the slice of each.
func SliceRing(last, total, oldest uint64, cells ...uint64) string {
	ring := Integer(7, last) + Integer(6, total) + Integer(6, oldest)
	for _, before := range cells {
		ring += Integer(6, before)
	}
	return ring
}

// A Window is one that was charged for an id of a budget: the length of a slice in microseconds, and its slices.
type Window struct{ Slice, Size uint64 }

// Budget is what budget and budget_settle store of an id: when it was charged, how many permits were, and until they are
// settled the windows.
func Budget(at, permits uint64, settled bool, windows ...Window) string {
	state := 2 * permits
	if settled {
		state++
	}
	id := Integer(7, at) + Integer(4, state)
	for _, w := range windows {
		id += Integer(5, w.Slice) + Integer(2, w.Size)
	}
	return id
}
