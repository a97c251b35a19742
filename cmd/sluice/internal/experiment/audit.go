package experiment

import (
	"slices"
	"time"
)

// MaxInWindow returns the highest number of times in any half-open interval [t, t+window). The times may have any
// order.
func MaxInWindow(times []time.Duration, window time.Duration) int {
	highest := 0
	for _, n := range CountsInWindow(times, window) {
		highest = max(highest, n)
	}
	return highest
}

// CountsInWindow returns for each time t, in ascending order, the number of times in (t-window, t]. The highest of
// these is the highest of any window.
func CountsInWindow(times []time.Duration, window time.Duration) []int {
	sorted := slices.Sorted(slices.Values(times))
	counts := make([]int, len(sorted))
	first := 0
	for i, at := range sorted {
		for at-sorted[first] >= window {
			first++
		}
		counts[i] = i - first + 1
	}
	return counts
}
