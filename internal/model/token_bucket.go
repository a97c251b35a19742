package model

import (
	"encoding/binary"
	"strconv"
)

const (
	badConfig  = "BADSTATE config: want rate, interval and scope in their ranges"
	badPermits = "BADSTATE permits: want moments and packed running totals"
)

// tokenBucket is token_bucket_v1: a log whose limit and window are the rate and interval in force. A grant
// removes up to 100 entries whose permits have come back.
func tokenBucket(c call) Outcome {
	force, bad := c.force()
	if bad != "" {
		return c.fails(bad)
	}
	permits := c.args.number["permits"]
	if permits > force.rate {
		return c.fails("BADARG permits: want up to rate")
	}
	key := c.keys[1+force.scope]
	stored, ok := c.holds(key, "zset")
	if !ok {
		return c.fails(wrongType)
	}
	b, bad := bucketOf(stored, log{now: c.now, limit: force.rate, window: force.interval, expires: stored.Expires})
	if bad != "" {
		return c.fails(bad)
	}
	outcome := Outcome{After: c.store, Or: b.or, Any: b.senseless}
	granted, due, after := b.log.ask(permits, c.args.number["max_wait"])
	outcome.Reply = append(after.reply(granted, due), force.rate, force.interval)
	if granted > 0 {
		expires := milliseconds(due + force.interval)
		set := scored(b.kept())
		set[packed(b.total, granted)] = float64(due)
		outcome.After = c.store.
			With(key, Value{Type: "zset", ZSet: set, Expires: expires}).
			With(c.keys[0], c.config(force, expires))
	}
	return outcome
}

// tokenBucketSet is token_bucket_set_v1.
func tokenBucketSet(c call) Outcome {
	stored, ok := c.holds(c.keys[0], "hash")
	if !ok {
		return c.fails(wrongType)
	}
	r := rates{c.args.number["rate"], c.args.number["interval"], c.args.number["scope"]}
	config := Value{Type: "hash", Hash: set(stored.Hash, r.fields())}
	return Outcome{Reply: []int64{r.rate, r.interval, r.scope}, After: c.store.With(c.keys[0], config)}
}

// rates are what a config says.
type rates struct{ rate, interval, scope int64 }

func (r rates) fields() []string {
	return []string{
		"rate", strconv.FormatInt(r.rate, 10),
		"interval", strconv.FormatInt(r.interval, 10),
		"scope", strconv.FormatInt(r.scope, 10),
	}
}

// force are the rates in force: those that are stored, or the call's.
func (c call) force() (r rates, bad string) {
	stored, ok := c.holds(c.keys[0], "hash")
	if !ok {
		return r, wrongType
	}
	if stored.Type == "" {
		return rates{c.args.number["rate"], c.args.number["interval"], c.args.number["scope"]}, ""
	}
	rate, ok1 := decimal(stored.Hash["rate"], 1, 1_000_000)
	interval, ok2 := decimal(stored.Hash["interval"], 1000, 31_622_400_000_000)
	scope, ok3 := decimal(stored.Hash["scope"], 0, 1)
	if !ok1 || !ok2 || !ok3 {
		return r, badConfig
	}
	return rates{rate, interval, scope}, ""
}

// config is the stored config after a grant: it lives as long as the longest-lived permits, and one that
// was set to stay stays.
func (c call) config(force rates, expires int64) Value {
	stored := c.store[c.keys[0]]
	switch {
	case stored.Type == "":
		return Value{Type: "hash", Hash: set(nil, force.fields()), Expires: expires}
	case stored.Expires != 0 && c.farAhead(stored.Expires, force):
		stored.Expires = expires
	case stored.Expires != 0:
		stored.Expires = max(stored.Expires, expires)
	}
	return stored
}

// farAhead reports whether a TTL is from a clock that was further ahead than one may step back: permits
// that were booked 60 s ahead, an interval and 60 s ago, come back an interval later; and a second.
func (c call) farAhead(expires int64, force rates) bool {
	left := expires - c.now/1000
	return left*1000 > 2*force.interval+121_000_000
}

// bucket are the permits of a token bucket.
type bucket struct {
	members []Member
	log     log   // what counts, and nothing before the oldest of that
	back    int   // how many members' permits have come back
	total   int64 // permits granted so far
	or      string

	senseless bool // totals that do not rise from entry to entry
}

// bucketOf reads the members. Those in use are all permits between the start of the first live member and
// the end of the last, whoever removed a member between them: its permits come back with the next one's.
func bucketOf(stored Value, l log) (b bucket, bad string) {
	b = bucket{members: stored.Ranked(), log: l}
	if len(b.members) == 0 {
		return b, ""
	}
	newest, ok := entryOf(b.members[len(b.members)-1])
	if !ok {
		return b, badPermits
	}
	b.log.granted = []grant{{newest.at, newest.count}}
	if len(b.log.live()) == 0 {
		b.log.granted = nil
		return b, ""
	}
	b.total, b.log.granted = newest.before+newest.count, nil
	taken := int64(-1) // permits granted before what is read next
	for _, m := range b.members {
		e, ok := entryOf(m)
		switch {
		case m.Score <= float64(l.now-l.window):
			b.back++
			continue
		case m.Score < float64(l.now-l.window+1):
			continue // no moment of a script's, and none that counts
		case !ok && taken < 0, taken < 0 && (e.before > newest.before || e.before+e.count > b.total):
			return b, badPermits
		case !ok:
			b.or = badPermits
			continue
		case taken < 0:
			taken = e.before
		}
		if e.before < taken || e.before+e.count > b.total {
			b.or, b.senseless = badPermits, true
		}
		if n := e.before + e.count - taken; n > 0 {
			b.log.granted = append(b.log.granted, grant{e.at, n})
			taken += n
		}
	}
	return b, ""
}

// kept are the members that a grant leaves: the live ones, and what it does not get round to remove.
func (b bucket) kept() []Member {
	if len(b.log.live()) == 0 {
		return nil
	}
	return b.members[min(b.back, 100):]
}

// bucketEntry is one grant: how many permits, and how many were granted before.
type bucketEntry struct{ at, before, count int64 }

func entryOf(m Member) (e bucketEntry, ok bool) {
	at, ok := moment(m.Score)
	if !ok || len(m.Name) != 12 {
		return e, false
	}
	before := binary.BigEndian.Uint64([]byte(m.Name))
	count := int64(binary.BigEndian.Uint32([]byte(m.Name[8:])))
	if before > mostMoment || count == 0 || int64(before)+count > mostMoment {
		return e, false
	}
	return bucketEntry{at, int64(before), count}, true
}

func packed(before, count int64) string {
	name := binary.BigEndian.AppendUint64(nil, uint64(before))
	return string(binary.BigEndian.AppendUint32(name, uint32(count)))
}
