package layout

import "testing"

func TestParseBucket(t *testing.T) {
	const most = 1<<53 - 1
	tests := []struct {
		packed string
		want   Bucket
		ok     bool
	}{
		{GCRA(100, 0, 7, 40, 5), Bucket{100, 7, 40, 5}, true},
		{GCRA(100, 6, 7, 40, 5), Bucket{101, 7, 40, 5}, true},
		{GCRA(100, 6, 7, 40, 5, 3, 60), Bucket{101, 7, 40, 5}, true},
		{GCRA(most, 0, 10_000_000, 0, 0), Bucket{most, 10_000_000, 0, 0}, true},
		{GCRA(100, 0, 1, 1<<56-1, 1<<48-1), Bucket{100, 1, 1<<56 - 1, 1<<48 - 1}, true},
		{packed: GCRA(100, 7, 7, 40, 5)},
		{packed: GCRA(100, 0, 0, 40, 5)},
		{packed: GCRA(100, 0, 10_000_001, 40, 5)},
		{packed: GCRA(most+1, 0, 7, 40, 5)},
		{packed: GCRA(100, 0, 7, 40, 5)[1:]},
		{packed: GCRA(100, 0, 7, 40, 5) + "x"},
	}
	for _, test := range tests {
		got, ok := ParseBucket(test.packed)
		if got != test.want || ok != test.ok {
			t.Errorf("%x: %+v, %t, want %+v, %t", test.packed, got, ok, test.want, test.ok)
		}
	}
}

// TestBucketOverTime has a clock that is stepped back by more than the widest window and a minute.
func TestBucketOverTime(t *testing.T) {
	b := Bucket{Full: 90_000_000, Limit: 1, Written: 80_000_000, Widest: 5_000_000}
	const first = 15_000_000
	for now, want := range map[int64]int64{first - 1: 0, first: 75_000_000, 89_999_999: 1, 90_000_000: 0, 90_000_001: 0} {
		if got := b.Backlog(now); got != want || b.Void(now) != (now == first-1) {
			t.Errorf("at %d: %d, void %t, want %d", now, got, b.Void(now), want)
		}
	}
}

func TestParseBudget(t *testing.T) {
	for _, test := range []struct {
		packed      string
		permits     int64
		settled, ok bool
	}{
		{Budget(7, 0, false, 1000, 60), 0, false, true},
		{Budget(7, 3, true), 3, true, true},
		{Budget(1<<48-1, 1e9, true), 1e9, true, true},
		{packed: Budget(7, 3, true)[1:]},
		{Budget(7, 1e9+1, false), 1e9 + 1, false, false},
		{packed: Budget(7, 3, true) + "x"},
	} {
		permits, settled, ok := ParseBudget(test.packed)
		if permits != test.permits || settled != test.settled || ok != test.ok {
			t.Errorf("%x: %d, %t, %t", test.packed, permits, settled, ok)
		}
	}
}

func TestParseRing(t *testing.T) {
	for part, want := range map[string]bool{
		"1000x1": true, "86400000000x1000": true, "999x1": false, "86400000001x1": false, "1000x0": false, "1000x1001": false,
		"": false, "1000": false, "x": false, "01000x1": false, "1000x+1": false, "1000x1x": false, "1000x1 ": false,
	} {
		if _, err := ParseRing(part, string(make([]byte, RingBytes))); (err == nil) != want {
			t.Errorf("%q: %v", part, err)
		}
	}
}

// TestRingOverTime has 1, 2 and 4 permits in the last three slices; the totals wrap between the first and the second.
func TestRingOverTime(t *testing.T) {
	const minute, last = 60_000_000, 100
	ring, _ := ParseRing("60000000x3", SliceRing(last*minute+5, 6, 1<<48-1, 0, 2, 1<<48-1)) // cells of 99, 100, 98
	for now, want := range map[int64]int64{
		(last-4)*minute + 4: 0, (last-4)*minute + 5: 7, last * minute: 7, (last+1)*minute - 1: 7, (last + 1) * minute: 6,
		(last+2)*minute + 1: 4, (last+3)*minute - 1: 4, (last + 3) * minute: 0, (last + 9) * minute: 0,
	} {
		if got := ring.Count(now); got != want {
			t.Errorf("at %d: %d, want %d", now, got, want)
		}
	}
}
