package experiment

import (
	"slices"
	"testing"
	"time"
)

// ms returns times given in milliseconds.
func ms(times ...int) []time.Duration {
	var all []time.Duration
	for _, m := range times {
		all = append(all, time.Duration(m)*time.Millisecond)
	}
	return all
}

func TestMaxInWindow(t *testing.T) {
	tests := []struct {
		name  string
		times []time.Duration
		want  int
	}{
		{"nothing", nil, 0},
		{"one", ms(0), 1},
		{"a window apart: two half-open windows", ms(0, 1000), 1},
		{"less by a nanosecond", []time.Duration{0, time.Second - 1}, 2},
		{"all at once", ms(7, 7, 7), 3},
		{"all at once, and again a window later", ms(0, 0, 0, 1000, 1000, 1000), 3},
		{"across the edge of two calendar seconds", ms(900, 950, 990, 1000, 1010, 1020), 6},
		{"the fullest window in the middle", ms(0, 2000, 2100, 2999, 3000, 5000), 3},
		{"in any order", ms(3000, 0, 2999, 5000, 2100, 2000), 3},
		{"evenly spread", ms(0, 200, 400, 600, 800, 1000, 1200, 1400), 5},
	}
	for _, test := range tests {
		if got := MaxInWindow(test.times, time.Second); got != test.want {
			t.Errorf("%s: MaxInWindow = %d, want %d", test.name, got, test.want)
		}
	}
}

func TestCountsInWindow(t *testing.T) {
	got := CountsInWindow(ms(1000, 0, 999, 1000, 2000), time.Second)
	if want := []int{1, 2, 2, 3, 1}; !slices.Equal(got, want) {
		t.Errorf("CountsInWindow = %d, want %d", got, want)
	}
}

// TestMaxInWindowAgainstCounting compares MaxInWindow with a count of every window that starts at one of the times.
func TestMaxInWindowAgainstCounting(t *testing.T) {
	var times []time.Duration
	for i := range 400 {
		times = append(times, time.Duration(i*i%7919)*time.Millisecond)
	}
	for _, window := range ms(1, 10, 100, 1000, 10000) {
		want := 0
		for _, start := range times {
			inside := 0
			for _, at := range times {
				if start <= at && at < start+window {
					inside++
				}
			}
			want = max(want, inside)
		}
		if got := MaxInWindow(times, window); got != want {
			t.Errorf("window %v: MaxInWindow = %d, want %d", window, got, want)
		}
	}
}
