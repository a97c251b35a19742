package model

import (
	"fmt"
	"math"
)

const badZSet = "BADSTATE log: want scores in microseconds"

// zsetLog is zset_log_v1: the sorted set holds the log, one member for each permit. A grant removes up to 100 members
// that have left the window, in addition to the number of members that it adds.
func zsetLog(c call) Outcome {
	limit, window, permits := c.args.number["limit"], c.args.number["window"], c.args.number["permits"]
	if permits > limit {
		return c.fails("BADARG permits: want up to limit")
	}
	key, id := c.keys[0], c.args.text["id"]
	stored, ok := c.holds(key, "zset")
	if !ok {
		return c.fails(wrongType)
	}
	members := stored.Ranked()
	times, readable := zsetTimes(members)
	newest, another := unreadable(readable)
	if newest && members[len(members)-1].Score >= float64(c.now) {
		return c.fails(badZSet)
	}
	l := log{granted: one(times), now: c.now, limit: limit, window: window, expires: stored.Expires}
	outcome := Outcome{After: c.store}
	if newest || another {
		outcome.Or = badZSet
	}
	if permits > 0 && len(l.live()) > 0 {
		if again, ok := c.again(l, outcome, stored.ZSet, id); ok {
			return again
		}
	}
	granted, due, after := l.ask(permits, c.args.number["max_wait"])
	outcome.Reply = after.reply(granted, due)
	if granted > 0 {
		set := scored(kept(members, len(l.live()), granted+100))
		for k := range granted {
			set[member(id, k+1)] = float64(due)
		}
		outcome.After = c.store.With(key, Value{Type: "zset", ZSet: set, Expires: milliseconds(due + window)})
	}
	return outcome
}

// again returns the outcome for a live id: nothing is charged. ok is false if the id is not live.
func (c call) again(l log, outcome Outcome, set map[string]float64, id string) (again Outcome, ok bool) {
	booked, of, bad := granted(set, id)
	switch {
	case bad:
		return c.fails(badZSet), true
	case of == 0 || booked <= l.now-l.window:
		return outcome, false
	case of != c.args.number["permits"]:
		refused := c.fails("BADARG id: want the permits it was granted before")
		refused.Or = outcome.Or
		return refused, true
	}
	outcome.Reply = l.reply(of, max(booked, l.now))
	return outcome, true
}

// granted returns the time and the number of permits that an id was granted last. They share one time.
func granted(set map[string]float64, id string) (at, permits int64, bad bool) {
	score, known := set[id]
	if !known {
		return 0, 0, false
	}
	at, ok := parseScore(score)
	for next, more := score, true; more && next == score; next, more = set[member(id, permits+1)] {
		permits++
	}
	return at, permits, !ok
}

// member returns the name of an id's k-th permit.
func member(id string, k int64) string {
	if k == 1 {
		return id
	}
	return fmt.Sprintf("%s||%d", id, k)
}

// zsetTimes parses the scores. An unreadable score gets the whole microsecond above it: a script may only count it, and
// reads the newest only if it is not before now.
func zsetTimes(members []Member) (times []int64, readable []bool) {
	times, readable = make([]int64, len(members)), make([]bool, len(members))
	for i, m := range members {
		times[i], readable[i] = parseScore(m.Score)
	}
	return times, readable
}

func parseScore(score float64) (at int64, ok bool) {
	return int64(math.Ceil(score)), score >= 0 && score <= maxTime && score == math.Floor(score)
}
