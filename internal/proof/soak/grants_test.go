package soak

import (
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

func TestExtra(t *testing.T) {
	second0 := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	between := func(from, to time.Duration) Spent { return Spent{second0.Add(from), second0.Add(to), 1} }
	at := func(after time.Duration, permits int64) Spent {
		return Spent{second0.Add(after), second0.Add(after), permits}
	}
	const half, whole = time.Second / 2, time.Second
	limit := loader.Limit{Permits: 2, Window: whole}
	for _, test := range []struct {
		name           string
		spent          []Spent
		window, bucket int64
	}{
		{"nothing", nil, 0, 0},
		{"the limit at once", []Spent{at(0, 2)}, 0, 0},
		{"one more", []Spent{at(0, 2), at(0, 1)}, 1, 1},
		{"one more in one act", []Spent{at(0, 1), at(time.Millisecond, 2)}, 1, 1},
		{"in any order", []Spent{at(whole-1, 1), at(0, 2)}, 1, 0},
		{"a window later", []Spent{at(0, 2), at(whole, 2)}, 0, 0},
		{"just before that", []Spent{at(0, 2), at(whole-time.Millisecond, 2)}, 2, 1},
		{"half a window later", []Spent{at(0, 2), at(half, 1)}, 1, 0},
		{"what is too much does not count again", []Spent{at(0, 2), at(half, 2), at(whole, 2)}, 2, 2},
		{"one more, perhaps later", []Spent{at(0, 2), between(0, whole)}, 0, 0},
		{"one more, perhaps as the bucket refills", []Spent{at(0, 2), between(0, half)}, 1, 0},
		{"one more, just not later", []Spent{at(0, 2), between(0, half-time.Millisecond)}, 1, 1},
		{"one more, perhaps earlier", []Spent{at(0, 2), between(-whole, 0)}, 0, 0},
		{"some perhaps later, in any order", []Spent{at(half, 1), at(0, 1), between(0, half)}, 1, 0},
		{"two more", []Spent{between(0, 1), between(0, 2), between(0, 3), between(0, 4)}, 2, 2},
		{"perhaps before all others", []Spent{between(1, 2), between(1, 3), between(0, 4)}, 1, 1},
	} {
		window, bucket := Extra(test.spent, limit, InWindow), Extra(test.spent, limit, InBucket)
		if window != test.window || bucket != test.bucket {
			t.Errorf("%s: %d beyond a window, %d beyond a bucket; want %d, %d", test.name, window, bucket, test.window,
				test.bucket)
		}
	}
}

func TestMostWithin(t *testing.T) {
	at := func(from, to int64) Spent { return Spent{time.UnixMilli(from), time.UnixMilli(to), 1} }
	for _, test := range []struct {
		name  string
		spent []Spent
		want  int64
	}{
		{"none", nil, 0},
		{"a window apart", []Spent{at(0, 1), at(999, 1000)}, 1},
		{"within a window", []Spent{at(0, 1), at(998, 999)}, 2},
		{"across an edge", []Spent{at(0, 1), at(900, 901), at(950, 951), at(1010, 1011), at(1020, 1021)}, 4},
	} {
		if got := MostWithin(test.spent, time.Second); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

func TestMostAtOnce(t *testing.T) {
	use := func(from, to int64) Spent { return Spent{From: time.UnixMicro(from), To: time.UnixMicro(to)} }
	for name, test := range map[string]struct {
		uses []Spent
		want int
	}{
		"none":                {nil, 0},
		"one after the other": {[]Spent{use(1, 5), use(5, 9)}, 1},
		"at once":             {[]Spent{use(1, 5), use(4, 9), use(2, 3)}, 2},
	} {
		if got := MostAtOnce(test.uses); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
