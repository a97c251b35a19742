package lua51

import "time"

type dbKey struct {
	db  int
	key string
}

const allDatabases = 16

// overdueTTL is what miniredis is told of a key whose time has come and which stays all the same; no
// command can set so short a TTL.
const overdueTTL = time.Nanosecond

// SetTime sets the server's clock to us microseconds since 1970, for TIME and for expiry together. It
// may go backwards: expiry times are absolute, so a step back lengthens every TTL by the step, as it
// does on Redis. As there, keys go one millisecond after their TTL has run down to 0.
func (r *Redis) SetTime(us int64) {
	before := r.now
	r.now = us
	r.mini.SetTime(time.UnixMilli(us / 1000))
	r.expire(before / 1000)
}

// Now returns the server's clock in microseconds since 1970.
func (r *Redis) Now() int64 { return r.now }

// NeverExpire says whether keys stay for ever after their TTL has run down; PTTL then says 0. Turning
// it off expires what is overdue.
func (r *Redis) NeverExpire(never bool) {
	r.neverExpire = never
	r.expire(r.now / 1000)
}

// expire tells miniredis what is left of every TTL, after the clock stood at before (milliseconds).
func (r *Redis) expire(before int64) {
	for db := range r.databases {
		store := r.mini.DB(db)
		for _, key := range store.Keys() {
			ttl := store.TTL(key)
			if ttl == 0 {
				continue
			}
			due := r.dueTime(dbKey{db, key}, ttl, before)
			switch left := due - r.now/1000; {
			case left > 0:
				store.SetTTL(key, time.Duration(left)*time.Millisecond)
			case left == 0 || r.neverExpire:
				r.overdue[dbKey{db, key}] = due
				store.SetTTL(key, overdueTTL)
			default:
				store.Del(key)
			}
		}
	}
}

// dueTime is when a key with a TTL expires, in milliseconds since 1970.
func (r *Redis) dueTime(k dbKey, ttl time.Duration, now int64) int64 {
	if due, ok := r.overdue[k]; ok && ttl == overdueTTL {
		return due
	}
	return now + ttl.Milliseconds()
}
