package model

const badHolders = "BADSTATE holders: want scores in microseconds"

// maxEndedRemoved is how many ended leases one grant removes.
const maxEndedRemoved = 100

// concurrency is concurrency_v1: the sorted set holds a lease for each holder, with the time at which it ends.
func concurrency(c call) Outcome {
	stored, ok := c.holds(c.keys[0], "zset")
	if !ok {
		return c.fails(wrongType)
	}
	id, limit := c.args.text["id"], c.args.number["limit"]
	ended, live := leases(stored.Ranked(), c.now)
	own, known := stored.ZSet[id]
	known = known && id != ""
	if len(live) > 0 && (!readableLease(live[len(live)-1].Score) || known && !readableLease(own)) {
		return c.fails(badHolders)
	}
	held := known && own > float64(c.now)
	if id == "" || !held && (c.args.number["renew"] == 1 || int64(len(live)) >= limit) {
		wait, ok := c.untilFree(live, limit)
		if !ok {
			return c.fails(badHolders)
		}
		return Outcome{Reply: c.slots(0, live, limit, wait), After: c.store}
	}
	ends := float64(c.now + c.args.number["ttl"])
	if held && own >= ends {
		return Outcome{Reply: c.slots(1, live, limit, 0), After: c.store}
	}
	set := scored(append(ended[min(len(ended), maxEndedRemoved):], live...))
	set[id] = ends
	after := Value{Type: "zset", ZSet: set}
	_, live = leases(after.Ranked(), c.now)
	after.Expires = milliseconds(int64(live[len(live)-1].Score))
	return Outcome{Reply: c.slots(1, live, limit, 0), After: c.store.With(c.keys[0], after)}
}

// concurrencyRelease is concurrency_release_v1.
func concurrencyRelease(c call) Outcome {
	stored, ok := c.holds(c.keys[0], "zset")
	if !ok {
		return c.fails(wrongType)
	}
	id := c.args.text["id"]
	ends, known := stored.ZSet[id]
	switch {
	case known && !readableLease(ends):
		return c.fails(badHolders)
	case !known || ends <= float64(c.now):
		return Outcome{Reply: []int64{0}, After: c.store}
	}
	wasLast := stored.Ranked()[len(stored.ZSet)-1].Name == id
	stored.ZSet = without(stored.ZSet, []string{id})
	if len(stored.ZSet) == 0 {
		return Outcome{Reply: []int64{1}, After: c.store.Without(c.keys[0])}
	}
	if last := stored.Ranked()[len(stored.ZSet)-1].Score; wasLast && last != ends {
		if !readableLease(last) {
			return c.fails(badHolders)
		}
		stored.Expires = milliseconds(int64(last))
		if last <= float64(c.now) { // only ended leases are left
			stored.Expires = milliseconds(c.now + 1000)
		}
	}
	return Outcome{Reply: []int64{1}, After: c.store.With(c.keys[0], stored)}
}

// leases returns those that have ended and those that are live, in the order of their ends.
func leases(all []Member, now int64) (ended, live []Member) {
	for i, m := range all {
		if m.Score > float64(now) {
			return all[:i:i], all[i:]
		}
	}
	return all, nil
}

func readableLease(ends float64) bool {
	_, ok := parseScore(ends)
	return ok
}

// untilFree returns how long it takes until a slot is free, if no lease is renewed: until fewer than limit are left.
// ok is false if the end of the lease that frees it cannot be read.
func (c call) untilFree(live []Member, limit int64) (wait int64, ok bool) {
	surplus := int64(len(live)) - limit
	if surplus < 0 {
		return 0, true
	}
	ends := live[surplus].Score
	return int64(ends) - c.now, readableLease(ends)
}

// slots returns the five fields.
func (c call) slots(granted int64, live []Member, limit, wait int64) []int64 {
	reset := int64(0)
	if n := len(live); n > 0 {
		reset = int64(live[n-1].Score) - c.now
	}
	return []int64{granted, max(limit-int64(len(live)), 0), wait, reset, c.now}
}
