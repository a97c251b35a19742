package demo

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
	good := result{
		way: way{name: "list_log", kind: books}, duration: 12 * time.Second,
		booked: bursts(12, 5), real: bursts(12, 5), granted: 61, calls: 61,
	}
	tests := []struct {
		name   string
		change func(*result)
		margin time.Duration
		want   string // in the only complaint; "" for none
	}{
		{"good", func(*result) {}, 0, ""},
		{"two lost at the ends", func(r *result) { r.booked = r.booked[2:] }, 0, ""},
		{"three lost", func(r *result) { r.booked = r.booked[3:] }, 0, "57 acts, below 58"},
		{"three lost, of those that a margin costs", func(r *result) { r.booked = r.booked[3:] }, 50 * time.Millisecond, ""},
		{"slice_ring may lose more", func(r *result) { r.kind = asks; r.booked = r.booked[8:] }, 0, ""},
		{"but not so much", func(r *result) { r.kind = asks; r.booked = r.booked[9:] }, 0, "51 acts, below 52"},
		{"a machine that stopped lost them", func(r *result) { stalled(r, 12) }, 0, ""},
		{"but not all of them", func(r *result) { stalled(r, 13) }, 0, "47 acts, below 48"},
		{"six in a second", func(r *result) { r.booked = append(r.booked, 11*time.Second) }, 0,
			"booked 6 acts for one second"},
		{"six in a second that really happened", func(r *result) { r.real = append(r.real, 11*time.Second) }, 0, ""},
		{"a call too many", func(r *result) { r.calls++ }, 0, "62 calls for 61 permits"},
		{"slice_ring calls as often as it likes", func(r *result) { r.kind = asks; r.calls = 1000 }, 0, ""},
		{"nothing at all", func(r *result) { r.booked = nil }, 0, "0 acts"},
		{"faulty limiters promise nothing", func(r *result) {
			r.kind, r.booked, r.calls = faulty, bursts(12, 10), 1000
		}, 0, ""},
	}
	for _, test := range tests {
		r := good
		r.booked, r.real = bursts(12, 5), bursts(12, 5)
		test.change(&r)
		got := strings.Join(r.broken(test.margin), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// stalled makes the result one of slice_ring on a machine that stopped for a second, with the first lost acts missing.
func stalled(r *result, lost int) {
	r.stalled, r.kind, r.booked = time.Second, asks, r.booked[lost:]
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
		{"evenly spread", ms(0, 200, 400, 600, 800, 1000, 1200, 1400), 5},
	}
	for _, test := range tests {
		if got := maxInWindow(test.times, time.Second); got != test.want {
			t.Errorf("%s: maxInWindow = %d, want %d", test.name, got, test.want)
		}
	}
}
