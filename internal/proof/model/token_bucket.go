package model

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

const badConfig = "BADSTATE config: want rate, interval and scope in their ranges"

// tokenBucket is token_bucket_v1: a log with the stored rate as limit and the stored interval as window. A grant
// removes up to 10000 entries whose permits have come back.
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
	stored, ok := c.holds(key, "list")
	if !ok {
		return c.fails(wrongType)
	}
	name := []string{"all", "by_client"}[force.scope]
	unreadable := fmt.Sprintf("BADSTATE %s: want times and packed running totals", name)
	l := log{now: c.now, limit: force.rate, window: force.interval, expires: stored.Expires}
	b, ok := bucketOf(stored, l, unreadable)
	if !ok {
		return c.fails(unreadable)
	}
	outcome := Outcome{After: c.store, Or: b.or, Any: b.senseless}
	granted, due, after := b.log.ask(permits, c.args.number["max_wait"])
	outcome.Reply = append(after.reply(granted, due), force.rate, force.interval)
	if granted > 0 {
		expires := milliseconds(due + force.interval)
		entries := append(b.kept(), packed(due, b.total, granted))
		outcome.After = c.store.
			With(key, Value{Type: "list", List: entries, Expires: expires}).
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

// rates is a decoded config.
type rates struct{ rate, interval, scope int64 }

func (r rates) fields() []string {
	return []string{
		"rate", strconv.FormatInt(r.rate, 10),
		"interval", strconv.FormatInt(r.interval, 10),
		"scope", strconv.FormatInt(r.scope, 10),
	}
}

// force returns the rates in force: the stored ones, or those of the call.
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

// config returns the stored config after a grant. It expires with the last permits. If its expiry must be extended, it
// is extended by 0.1 s more than needed. A config without expiry keeps none.
func (c call) config(force rates, expires int64) Value {
	stored := c.store[c.keys[0]]
	later := expires + 100
	switch {
	case stored.Type == "":
		return Value{Type: "hash", Hash: set(nil, force.fields()), Expires: later}
	case stored.Expires != 0 && (stored.Expires <= expires || c.farAhead(stored.Expires, force)):
		stored.Expires = later
	}
	return stored
}

// farAhead reports whether a TTL was set by a clock that was too far ahead: by more than two intervals, 120 s (a step
// back and a booking) and a second.
func (c call) farAhead(expires int64, force rates) bool {
	left := expires - c.now/1000
	return left*1000 > 2*force.interval+121_000_000
}

// bucket holds the permits of a token bucket.
type bucket struct {
	entries []string
	log     log   // live permits
	back    int   // number of entries whose permits have come back
	total   int64 // permits granted so far
	or      string

	senseless bool // times or totals that do not rise from entry to entry
}

// bucketOf parses the entries. The permits in use are all between the start of the first live entry and the end of the
// last one. If an entry between them was removed, its permits come back with those of the next entry. or is the error of
// what cannot be read.
func bucketOf(stored Value, l log, or string) (b bucket, ok bool) {
	b = bucket{entries: stored.List, log: l}
	if len(b.entries) == 0 {
		return b, true
	}
	entries, readable := bucketEntries(b.entries)
	newest, another := unreadable(readable)
	if newest {
		return b, false
	}
	final := entries[len(entries)-1]
	b.log.granted = []grant{{final.at, final.count}}
	if len(b.log.live()) == 0 {
		b.log.granted = nil
		return b, true
	}
	if another {
		b.or = or
	}
	b.back = slices.IndexFunc(entries, func(e bucketEntry) bool { return e.at > l.now-l.window })
	b.total, b.log.granted = final.after(), nil
	first := entries[b.back]
	b.senseless = !slices.IsSortedFunc(entries, func(a, b bucketEntry) int { return cmp.Compare(a.at, b.at) })
	if !readable[0] || !b.senseless && (!readable[b.back] || first.before > final.before || first.after() > b.total) {
		return b, false
	}
	taken := first.before // permits granted before the next entry
	for i, e := range entries[b.back:] {
		if !readable[b.back+i] {
			continue
		}
		b.senseless = b.senseless || e.before < taken || e.after() > b.total
		if n := e.after() - taken; n > 0 {
			b.log.granted = append(b.log.granted, grant{e.at, n})
			taken += n
		}
	}
	if b.senseless {
		b.or = or
	}
	return b, true
}

// kept returns the entries that a grant keeps: the live ones, and those beyond what one call may remove.
func (b bucket) kept() []string {
	if len(b.log.live()) == 0 {
		return nil
	}
	return slices.Clone(b.entries[min(b.back, 10000):])
}

// bucketEntry is one grant: its time, its permits, and the total granted before it.
type bucketEntry struct{ at, before, count int64 }

func (e bucketEntry) after() int64 { return e.before + e.count }

// bucketEntries parses entries. An unreadable entry gets the time of the next one.
func bucketEntries(packed []string) (entries []bucketEntry, readable []bool) {
	entries, readable = make([]bucketEntry, len(packed)), make([]bool, len(packed))
	for i := len(packed) - 1; i >= 0; i-- {
		entries[i], readable[i] = entryOf(packed[i])
		if !readable[i] && i+1 < len(packed) {
			entries[i].at = entries[i+1].at
		}
	}
	return entries, readable
}

func entryOf(packed string) (e bucketEntry, ok bool) {
	if len(packed) != 20 {
		return e, false
	}
	at, before := binary.BigEndian.Uint64([]byte(packed)), binary.BigEndian.Uint64([]byte(packed[8:]))
	count := int64(binary.BigEndian.Uint32([]byte(packed[16:])))
	if at > maxTime || before > maxTime || count == 0 || int64(before)+count > maxTime {
		return e, false
	}
	return bucketEntry{int64(at), int64(before), count}, true
}

func packed(at, before, count int64) string {
	entry := binary.BigEndian.AppendUint64(nil, uint64(at))
	entry = binary.BigEndian.AppendUint64(entry, uint64(before))
	return string(binary.BigEndian.AppendUint32(entry, uint32(count)))
}
