package model

import (
	"slices"
	"strconv"
)

const badList = "BADSTATE log: want times in microseconds"

// listLog is list_log_v1: the list holds the log, one entry for each permit. A grant removes up to 100 entries that
// have left the window, in addition to the number of entries that it adds.
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
	times, readable := listTimes(stored.List)
	newest, another := unreadable(readable)
	if newest {
		return c.fails(badList)
	}
	l := log{granted: one(times), now: c.now, limit: limit, window: window, expires: stored.Expires}
	outcome := Outcome{After: c.store}
	if another && len(l.live()) > 0 {
		outcome.Or = badList
	}
	granted, due, after := l.ask(permits, c.args.number["max_wait"])
	outcome.Reply = after.reply(granted, due)
	if granted > 0 {
		entries := kept(stored.List, len(l.live()), granted+100)
		for range granted {
			entries = append(entries, strconv.FormatInt(due, 10))
		}
		outcome.After = c.store.With(key, Value{Type: "list", List: entries, Expires: milliseconds(due + window)})
	}
	return outcome
}

// kept returns the entries that a grant keeps: the live ones, and those beyond what one call may remove.
func kept[E any](entries []E, live int, removable int64) []E {
	if live == 0 {
		return nil
	}
	return slices.Clone(entries[min(len(entries)-live, int(removable)):])
}

// listTimes parses the entries. An unreadable entry gets the time of the next one.
func listTimes(entries []string) (times []int64, readable []bool) {
	times, readable = make([]int64, len(entries)), make([]bool, len(entries))
	for i := len(entries) - 1; i >= 0; i-- {
		times[i], readable[i] = decimal(entries[i], 0, maxTime)
		if !readable[i] && i+1 < len(entries) {
			times[i] = times[i+1]
		}
	}
	return times, readable
}
