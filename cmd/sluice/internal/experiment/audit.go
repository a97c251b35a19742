package experiment

import (
	"slices"
	"time"
)

// Most returns the largest number of moments that any half-open interval [t, t+window) holds. The
// moments may come in any order.
func Most(moments []time.Duration, window time.Duration) int {
	most := 0
	for _, n := range Behind(moments, window) {
		most = max(most, n)
	}
	return most
}

// Behind returns for each moment, in ascending order, how many moments the window that ends with it
// holds: those in (moment-window, moment]. Where a window holds most, it ends with one of them.
func Behind(moments []time.Duration, window time.Duration) []int {
	sorted := slices.Sorted(slices.Values(moments))
	counts := make([]int, len(sorted))
	first := 0
	for i, moment := range sorted {
		for moment-sorted[first] >= window {
			first++
		}
		counts[i] = i - first + 1
	}
	return counts
}
