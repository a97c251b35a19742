package model

import (
	"slices"
	"strconv"
)

const badList = "BADSTATE log: want moments in microseconds"

// listLog is list_log_v1: the log is the list, entry for entry. A grant removes up to 10000 entries that have
// left the window beyond those it adds.
func listLog(c call) Outcome {
	limit, window, permits := c.args.number["limit"], c.args.number["window"], c.args.number["permits"]
	if permits > limit {
		return c.fails("BADARG permits: want up to limit")
	}
	key := c.keys[0]
	stored, ok := c.holds(key, "list")
	if !ok {
		return c.fails(wrongType)
	}
	moments, readable := listMoments(stored.List)
	newest, another := unreadable(readable)
	if newest {
		return c.fails(badList)
	}
	l := log{granted: one(moments), now: c.now, limit: limit, window: window, expires: stored.Expires}
	outcome := Outcome{After: c.store}
	if another && len(l.live()) > 0 {
		outcome.Or = badList
	}
	granted, due, after := l.ask(permits, c.args.number["max_wait"])
	outcome.Reply = after.reply(granted, due)
	if granted > 0 {
		kept := keptOfList(stored.List, len(l.live()), granted)
		for range granted {
			kept = append(kept, strconv.FormatInt(due, 10))
		}
		outcome.After = c.store.With(key, Value{Type: "list", List: kept, Expires: milliseconds(due + window)})
	}
	return outcome
}

// keptOfList are the entries that a grant leaves: the live ones, and what it does not get round to remove.
func keptOfList(entries []string, live int, granted int64) []string {
	if live == 0 {
		return nil
	}
	gone := min(len(entries)-live, int(granted)+10000)
	return slices.Clone(entries[gone:])
}

// listMoments reads the entries. One that is not readable is taken to be as new as the one after it.
func listMoments(entries []string) (moments []int64, readable []bool) {
	moments, readable = make([]int64, len(entries)), make([]bool, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		moments[i], readable[i] = decimal(entries[i], 0, mostMoment)
		if !readable[i] && i+1 < len(entries) {
			moments[i] = moments[i+1]
		}
	}
	return moments, readable
}
