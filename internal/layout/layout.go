// Package layout makes the bytes that the scripts store, as the STATE of their headers says, from plain numbers, and
// decodes them. What makes bytes is for tests, which put them under a key or compare them with what a script wrote: it
// checks no ranges, so tests can also make values that no script writes. What decodes them checks as the scripts do.
package layout

import (
	"encoding/binary"
	"strings"
)

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

// SliceRingHeader is what a slice_ring begins with: when the last permits were granted, how many were in all, and its
// sections.
func SliceRingHeader(last, total uint64, sections ...string) string {
	return Integer(1, uint64(len(sections))) + Integer(7, last) + Integer(6, total) + strings.Join(sections, "")
}

// SliceRingSection is the header of a section: the length of a slice in microseconds, the number of slices, how much
// its own total is above that of the ring, and the cell of the oldest slice of the window.
func SliceRingSection(slice, size, shift uint64, first string) string {
	return Integer(5, slice) + Integer(2, size) + Integer(6, shift) + first
}

// SliceRingCell is the cell of one slice: the total before it, and the first slice, from this one on, in which permits
// were granted. Only the last 12 bits of that slice's number are stored.
func SliceRingCell(total, link uint64) string {
	return Integer(7, total<<12|link%4096)
}

// Budget is what budget and budget_settle store of an id: when it was charged, and how many permits were.
func Budget(at, permits uint64, settled bool) string {
	state := 2 * permits
	if settled {
		state++
	}
	return Integer(7, at) + Integer(4, state)
}
