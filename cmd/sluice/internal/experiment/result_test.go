package experiment

import (
	"strings"
	"testing"
	"time"
)

// bursts is so many acts at the start of each of a number of seconds.
func bursts(seconds, acts int) []time.Duration {
	var all []time.Duration
	for second := range seconds {
		for range acts {
			all = append(all, time.Duration(second)*time.Second)
		}
	}
	return all
}

func TestBroken(t *testing.T) {
	good := Result{
		Way: Way{Name: "list_log", Kind: Booking}, Duration: 12 * time.Second,
		Booked: bursts(12, 5), Real: bursts(12, 5), Granted: 61, Calls: 61,
	}
	tests := []struct {
		name   string
		change func(*Result)
		margin time.Duration
		want   string // in the only complaint; "" for none
	}{
		{"good", func(*Result) {}, 0, ""},
		{"two lost at the ends", func(r *Result) { r.Booked = r.Booked[2:] }, 0, ""},
		{"three lost", func(r *Result) { r.Booked = r.Booked[3:] }, 0, "57 acts, below 58"},
		{"three lost, of those that a margin costs", func(r *Result) { r.Booked = r.Booked[3:] }, 50 * time.Millisecond, ""},
		{"slice_ring may lose more", func(r *Result) { r.Kind = Asking; r.Booked = r.Booked[8:] }, 0, ""},
		{"but not so much", func(r *Result) { r.Kind = Asking; r.Booked = r.Booked[9:] }, 0, "51 acts, below 52"},
		{"a machine that stopped lost them", func(r *Result) { stalled(r, 12) }, 0, ""},
		{"but not all of them", func(r *Result) { stalled(r, 13) }, 0, "47 acts, below 48"},
		{"six in a second", func(r *Result) { r.Booked = append(r.Booked, 11*time.Second) }, 0,
			"booked 6 acts for one second"},
		{"six in a second that really happened", func(r *Result) { r.Real = append(r.Real, 11*time.Second) }, 0, ""},
		{"a call too many", func(r *Result) { r.Calls++ }, 0, "62 calls for 61 permits"},
		{"slice_ring calls as often as it likes", func(r *Result) { r.Kind = Asking; r.Calls = 1000 }, 0, ""},
		{"nothing at all", func(r *Result) { r.Booked = nil }, 0, "0 acts"},
		{"faulty limiters promise nothing", func(r *Result) {
			r.Kind, r.Booked, r.Calls = Faulty, bursts(12, 10), 1000
		}, 0, ""},
	}
	for _, test := range tests {
		r := good
		r.Booked, r.Real = bursts(12, 5), bursts(12, 5)
		test.change(&r)
		got := strings.Join(r.Broken(test.margin), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

func TestCapacity(t *testing.T) {
	r := Result{Duration: 12 * time.Second, Booked: bursts(12, 4), Granted: 50, Calls: 100}
	if r.Possible() != 60 || r.Capacity() != 0.8 || r.CallsPerPermit() != 2 {
		t.Errorf("possible %d, capacity %v, calls a permit %v", r.Possible(), r.Capacity(), r.CallsPerPermit())
	}
}

// stalled makes the result one of slice_ring on a machine that stopped for a second, with the first lost acts missing.
func stalled(r *Result, lost int) {
	r.Stalled, r.Kind, r.Booked = time.Second, Asking, r.Booked[lost:]
}

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
