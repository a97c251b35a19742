package lua51

import (
	"strings"
	"sync"
	"time"
)

// deadline is when a key expires, in milliseconds since 1970. told is the clock's millisecond for which miniredis knows
// the key's TTL: it keeps TTLs as lengths, which do not follow the clock.
type deadline struct{ due, told int64 }

// overdueTTL is what miniredis is told of a key whose time has come and which stays all the same; no
// command can set so short a TTL.
const overdueTTL = time.Nanosecond

// SetTime sets the server's clock to us microseconds since 1970, for TIME and for expiry together. It
// may go backwards: expiry times are absolute, so a step back lengthens every TTL by the step, as it
// does on Redis. As there, keys go one millisecond after their TTL has run down to 0.
//
// Cost: it does not grow with the number of keys, except for a step back.
func (r *Redis) SetTime(us int64) {
	if us < r.now {
		r.settleAll() // what has expired by now stays away
	}
	r.now = us
	r.mini.SetTime(time.UnixMilli(us / 1000))
	if r.unswept++; r.unswept > sweepAfter+2*len(r.deadlines) {
		r.sweep()
	}
}

// sweepAfter is the minimum number of calls of SetTime between two sweeps.
const sweepAfter = 100

// Now returns the server's clock in microseconds since 1970.
func (r *Redis) Now() int64 { return r.now }

// NeverExpire says whether keys stay for ever after their TTL has run down; PTTL then says 0. Turning
// it off expires what is overdue.
func (r *Redis) NeverExpire(never bool) {
	r.settleAll() // under the old rule
	r.neverExpire = never
	r.settleAll()
}

// settleAll tells miniredis what is left of every TTL.
func (r *Redis) settleAll() {
	for k := range r.deadlines {
		r.settle(k)
	}
}

// sweep removes the keys that have expired since the last sweep and that no command has named.
func (r *Redis) sweep() {
	r.unswept = 0
	for k, d := range r.deadlines {
		if d.due < r.now/1000 {
			r.settle(k)
		}
	}
}

// settle tells miniredis what is left of a key's TTL.
func (r *Redis) settle(key string) {
	d, ok := r.deadlines[key]
	if !ok || d.told == r.now/1000 && d.due > d.told {
		return
	}
	store := r.mini.DB(0)
	switch left := d.due - r.now/1000; {
	case left > 0:
		store.SetTTL(key, time.Duration(left)*time.Millisecond)
	case left == 0 || r.neverExpire:
		store.SetTTL(key, overdueTTL)
	default:
		store.Del(key)
		delete(r.deadlines, key)
		return
	}
	r.deadlines[key] = deadline{d.due, r.now / 1000}
}

// note notes when a key expires that a command may have changed.
func (r *Redis) note(key string) {
	switch ttl := r.mini.DB(0).TTL(key); ttl {
	case 0:
		delete(r.deadlines, key)
	case overdueTTL: // as before
	default:
		r.deadlines[key] = deadline{r.now/1000 + ttl.Milliseconds(), r.now / 1000}
	}
}

// prepare settles the keys that a command may touch.
func (r *Redis) prepare(words []string) {
	if key, ok := r.onlyKey(words); ok {
		r.settle(key)
		return
	}
	r.settleAll()
}

// noteChanges notes what a command may have changed.
func (r *Redis) noteChanges(words []string) {
	if spec, known := lookUp(words); known && !spec.write {
		return
	}
	if key, ok := r.onlyKey(words); ok {
		r.note(key)
		return
	}
	for k := range r.deadlines {
		r.note(k)
	}
	for _, key := range r.mini.DB(0).Keys() {
		r.note(key)
	}
}

// onlyKey returns the one key that a command touches, false if there may be others.
func (r *Redis) onlyKey(words []string) (string, bool) {
	if len(words) < 2 {
		return "", false
	}
	switch name := strings.ToLower(words[0]); {
	case oneKey()[name], (name == "unlink" || name == "exists") && len(words) == 2:
		return words[1], true
	}
	return "", false
}

// oneKey is the commands, of those that the scripts call, whose only key is their second word. All others are taken to
// touch every key, which takes longer.
var oneKey = sync.OnceValue(func() map[string]bool {
	found := map[string]bool{}
	for name := range strings.FieldsSeq("get getrange hdel hget hmget hset lindex llen lrem ltrim persist pexpire " +
		"pexpireat pttl rpush set setrange strlen zadd zcard zcount zrange zrem zremrangebyrank zrevrange zscore") {
		found[name] = true
	}
	return found
})
