package layout

import (
	"fmt"
	"testing"
)

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
		{Budget(7, 0, false), 0, false, true},
		{Budget(7, 3, true), 3, true, true},
		{Budget(7, 3, false, Window{1000, 2}, Window{1000, 3}), 3, false, true},
		{Budget(1<<48-1, 1e9, true), 1e9, true, true},
		{packed: Budget(7, 3, true)[1:]},
		{packed: Budget(7, 3, true) + "x"},
	} {
		permits, settled, ok := ParseBudget(test.packed)
		if permits != test.permits || settled != test.settled || ok != test.ok {
			t.Errorf("%x: %d, %t, %t", test.packed, permits, settled, ok)
		}
	}
}

// TestRingOverTime is a ring of 3 slices of 10 us: 5 permits in the slice of 20, then 2 in that of 40.
func TestRingOverTime(t *testing.T) {
	r, err := ParseRing(SliceRing(45, 7, 0, 0, 5, 0), 10, 3)
	if err != nil || r.Span() != 30 || !r.Counts(20) || !r.Counts(11) || r.Counts(21) || r.Held() != 7 {
		t.Fatalf("%+v, %v", r, err)
	}
	for now, want := range map[int64]string{
		0: "2 false false", 45: "2 false false", 50: "3 true false", 69: "4 true false", 70: "5 true true",
	} {
		if got := fmt.Sprint(r.Oldest(now), r.Moved(now), r.Empty(now)); got != want {
			t.Errorf("at %d: %s, want %s", now, got, want)
		}
	}
	ahead, _ := ParseRing(SliceRing(60_000_031, 7, 0), 10, 3)
	if !ahead.Empty(0) || ahead.Empty(1) {
		t.Error("a clock that is the window and 60 s behind is believed, one that is further behind is not")
	}
	if _, err := ParseRing("short", 10, 3); err == nil {
		t.Error("5 bytes are no ring")
	}
}
