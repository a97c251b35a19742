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
	// An unreadable entry among them, if the script does not read it, stays. If that leaves fewer, so does the expiry.
	kept := withoutNewest(stored.List, stored.List[first], last-first)
	returned := len(stored.List) - len(kept)
	outcome.Reply = []int64{int64(returned)}
	if last == len(times) && first > 0 && returned == last-first {
		stored.Expires = c.lowered(stored.Expires, moment-times[first-1])
	}
	stored.List = kept
	return c.left(outcome, stored, len(stored.List))
}

// withoutNewest returns the entries without the newest n that are this text, or as many as there are.
func withoutNewest(entries []string, text string, n int) []string {
	kept := slices.Clone(entries)
	for i := len(kept) - 1; i >= 0 && n > 0; i-- {
		if kept[i] == text {
			kept, n = slices.Delete(kept, i, i+1), n-1
		}
	}
	return kept
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
