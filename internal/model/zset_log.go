package model

import (
	"fmt"
	"math"
)

const badZSet = "BADSTATE log: want scores in microseconds"

// zsetLog is zset_log_v1: the log is the sorted set, one member a permit. A grant removes up to 100 members
// that have left the window beyond those it adds.
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
	moments, readable := zsetMoments(members)
	newest, another := unreadable(readable)
	if newest && members[len(members)-1].Score >= float64(c.now) {
		return c.fails(badZSet)
	}
	l := log{granted: one(moments), now: c.now, limit: limit, window: window, expires: stored.Expires}
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
		set := scored(keptOfZSet(members, len(l.live()), granted))
		for k := range granted {
			set[member(id, k+1)] = float64(due)
		}
		outcome.After = c.store.With(key, Value{Type: "zset", ZSet: set, Expires: milliseconds(due + window)})
	}
	return outcome
}

// again is the outcome for an id that is live: nothing is charged. Not ok: it is not live.
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

// granted is what an id was granted last: for when, and how many permits, which share their moment.
func granted(set map[string]float64, id string) (at, permits int64, bad bool) {
	score, known := set[id]
	if !known {
		return 0, 0, false
	}
	at, ok := moment(score)
	for next, more := score, true; more && next == score; next, more = set[member(id, permits+1)] {
		permits++
	}
	return at, permits, !ok
}

// member is the name of an id's k-th permit.
func member(id string, k int64) string {
	if k == 1 {
		return id
	}
	return fmt.Sprintf("%s||%d", id, k)
}

// keptOfZSet are the members that a grant leaves: the live ones, and what it does not get round to remove.
func keptOfZSet(members []Member, live int, granted int64) []Member {
	if live == 0 {
		return nil
	}
	return members[min(len(members)-live, int(granted)+100):]
}

// zsetMoments reads the scores. One that is not readable is taken to be the whole microsecond above: a script may only
// count it, and reads the newest only where it is not before now.
func zsetMoments(members []Member) (moments []int64, readable []bool) {
	moments, readable = make([]int64, len(members)), make([]bool, len(members))
	for i, m := range members {
		moments[i], readable[i] = moment(m.Score)
	}
	return moments, readable
}

func moment(score float64) (at int64, ok bool) {
	return int64(math.Ceil(score)), score >= 0 && score <= mostMoment && score == math.Floor(score)
}
