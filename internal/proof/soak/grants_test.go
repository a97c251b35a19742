package soak

import (
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

func TestExtra(t *testing.T) {
	second0 := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(after time.Duration, permits int64) Grant { return Grant{At: second0.Add(after), Permits: permits} }
	limit := loader.Limit{Permits: 2, Window: time.Second}
	for _, test := range []struct {
		name        string
		grants      []Grant
		log, bucket int64
	}{
		{"nothing", nil, 0, 0},
		{"the limit at once", []Grant{at(0, 2)}, 0, 0},
		{"one more", []Grant{at(0, 2), at(0, 1)}, 1, 1},
		{"one more in one act", []Grant{at(0, 1), at(time.Millisecond, 2)}, 1, 1},
		{"in any order", []Grant{at(time.Second-1, 1), at(0, 2)}, 1, 0},
		{"a window later", []Grant{at(0, 2), at(time.Second, 2)}, 0, 0},
		{"just before that", []Grant{at(0, 2), at(time.Second-time.Millisecond, 2)}, 2, 1},
		{"half a window later", []Grant{at(0, 2), at(time.Second/2, 1)}, 1, 0},
		{"what is too much does not count again", []Grant{at(0, 2), at(time.Second/2, 2), at(time.Second, 2)}, 2, 2},
	} {
		log, bucket := ExtraInLog(test.grants, limit), ExtraInBucket(test.grants, limit)
		if log != test.log || bucket != test.bucket {
			t.Errorf("%s: %d beyond a log, %d beyond a bucket; want %d, %d", test.name, log, bucket, test.log, test.bucket)
		}
	}
}

func TestExtraOfSpent(t *testing.T) {
	second0 := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	between := func(from, to time.Duration) Spent { return Spent{second0.Add(from), second0.Add(to), 1} }
	const half, whole = time.Second / 2, time.Second
	limit := loader.Limit{Permits: 2, Window: whole}
	for _, test := range []struct {
		name        string
		spent       []Spent
		log, bucket int64
	}{
		{"nothing", nil, 0, 0},
		{"the limit at once", []Spent{between(0, 0), between(0, 0)}, 0, 0},
		{"one more", []Spent{between(0, 0), between(0, 0), between(0, 0)}, 1, 1},
		{"one more, perhaps later", []Spent{between(0, 0), between(0, 0), between(0, whole)}, 0, 0},
		{"one more, perhaps as the bucket refills", []Spent{between(0, 0), between(0, 0), between(0, half)}, 1, 0},
		{"one more, just not later", []Spent{between(0, 0), between(0, 0), between(0, half-time.Millisecond)}, 1, 1},
		{"one more, perhaps earlier", []Spent{between(0, 0), between(0, 0), between(-whole, 0)}, 0, 0},
		{"in any order", []Spent{between(half, half), between(0, 0), between(0, half)}, 1, 0},
		{"two more", []Spent{between(0, 1), between(0, 2), between(0, 3), between(0, 4)}, 2, 2},
	} {
		log, bucket := ExtraInLogOf(test.spent, limit), ExtraInBucketOf(test.spent, limit)
		if log != test.log || bucket != test.bucket {
			t.Errorf("%s: %d beyond a log, %d beyond a bucket; want %d, %d", test.name, log, bucket, test.log, test.bucket)
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
