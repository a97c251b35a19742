package audit

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
