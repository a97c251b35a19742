package model

import "slices"

// maxReturnLater is how many later entries may stand behind those that are given back.
const maxReturnLater = 1000

// listLogReturn is list_log_return_v1: it removes entries of one moment.
func listLogReturn(c call) Outcome {
	moment, permits := c.args.number["moment"], int(c.args.number["permits"])
	stored, ok := c.holds(c.keys[0], "list")
	if !ok {
		return c.fails(wrongType)
	}
	times, readable := listTimes(stored.List)
	newest, another := unreadable(readable)
	if newest {
		return c.fails(badList)
	}
	outcome := Outcome{Reply: []int64{0}, After: c.store}
	if another {
		outcome.Or = badList
	}
	last := len(times)
	for last > 0 && times[last-1] > moment {
		last--
	}
	first := last
	for first > 0 && last-first < permits && times[first-1] == moment {
		first--
	}
	if first == last || len(times)-last > maxReturnLater {
		return outcome
	}
	taken := stored.List[first:last]
	// An unreadable entry among them, if the script does not read it, stays, and so does the expiry.
	kept := slices.DeleteFunc(slices.Clone(taken), func(entry string) bool { return entry == taken[0] })
	outcome.Reply = []int64{int64(len(taken) - len(kept))}
	if last == len(times) && first > 0 && len(kept) == 0 {
		stored.Expires = c.lowered(stored.Expires, moment-times[first-1])
	}
	stored.List = slices.Concat(stored.List[:first], kept, stored.List[last:])
	return c.left(outcome, stored, len(stored.List))
}

// lowered is when a log expires whose newest permit is so many microseconds earlier than before.
func (c call) lowered(expires, earlier int64) int64 {
	now := c.now / 1000
	if expires <= now || earlier < 1000 {
		return expires // never, overdue, or by less than a millisecond
	}
	return max(expires-earlier/1000, now+1)
}

// left is the outcome with what is left of the value; if that is nothing, without the key.
func (c call) left(outcome Outcome, value Value, entries int) Outcome {
	outcome.After = c.store.With(c.keys[0], value)
	if entries == 0 {
		outcome.After = c.store.Without(c.keys[0])
	}
	return outcome
}
