package model

const (
	// maxHeld is how many permits a ring may hold after a charge.
	maxHeld = 7_000_000_000_000

	badID = "BADSTATE id: want a slice and permits"
)

// budget is budget_v1: slice_ring, and an id that is charged once.
func budget(c call) Outcome {
	outcome := sliceRing(c)
	permits := c.args.number["permits"]
	if outcome.Err != "" || permits == 0 {
		return outcome
	}
	known, bad := c.chargedFor()
	switch {
	case bad != "":
		return c.fails(bad)
	case known == nil && (outcome.Any || outcome.Reply[0] == 0):
		return outcome
	case known == nil:
		last := bigEndian(outcome.After[c.keys[0]].Text[12:18])
		outcome.After = c.charged(outcome.After, charge{slice: last, permits: permits})
		return outcome
	case known.settled:
		return c.fails("BADARG id: want one that is not settled")
	case known.permits != permits:
		return c.fails("BADARG id: want the permits it was granted before")
	}
	c.args.number["permits"] = 0
	outcome = sliceRing(c)
	if !outcome.Any {
		outcome.Reply[0], outcome.Reply[2] = permits, 0
	}
	return outcome
}

// budgetSettle is budget_settle_v1.
func budgetSettle(c call) Outcome {
	r, bad := c.ring(c.args.number["size"])
	if bad != "" {
		return c.fails(bad)
	}
	known, bad := c.chargedFor()
	switch {
	case bad != "":
		return c.fails(bad)
	case known == nil && c.args.number["unknown"] == 0:
		return Outcome{Reply: []int64{0, 0, c.now}, After: c.store}
	case known == nil:
		known = &charge{slice: max(r.last, c.now/r.slice)}
	case known.settled:
		return Outcome{Reply: []int64{0, known.permits, c.now}, After: c.store}
	}
	more := c.args.number["permits"] - known.permits
	if more != 0 && !r.fresh && !r.sound() {
		return Outcome{Or: badCells, Any: true, After: c.store}
	}
	after := c.store
	switch {
	case more > 0:
		more, after = c.chargeMore(r, more)
	case more < 0:
		more, after = c.refund(r, known.slice, -more)
	}
	known.permits, known.settled = known.permits+more, true
	return Outcome{Reply: []int64{1, known.permits, c.now}, After: c.charged(after, *known)}
}

// chargeMore adds permits to the current slice, as many as the ring may hold.
func (c call) chargeMore(r ring, more int64) (charged int64, after Store) {
	current := max(r.last, c.now/r.slice)
	held := r.count(ringWindow{slices: r.size}, current)
	more = max(min(more, maxHeld-held), 0)
	if more == 0 {
		return 0, c.store
	}
	grown := r.grown(c.args.number["size"]).add(current, more)
	return more, c.store.With(c.keys[0], grown.value(r, c.store[c.keys[0]]))
}

// refund takes permits out of a slice, as many as it holds. charged is negative.
func (c call) refund(r ring, slice, permits int64) (charged int64, after Store) {
	if r.fresh || slice > r.last || slice <= r.last-r.size || slice < r.last-maxReturnSlices {
		return 0, c.store
	}
	permits = min(permits, r.granted[slice])
	if permits == 0 {
		return 0, c.store
	}
	stored := c.store[c.keys[0]]
	stored.Text = r.lowered(slice, permits)
	return -permits, c.store.With(c.keys[0], stored)
}

// charge is what is stored of an id.
type charge struct {
	slice, permits int64
	settled        bool
}

// chargedFor returns what is stored of the call's id; nil if nothing is.
func (c call) chargedFor() (known *charge, bad string) {
	stored, ok := c.holds(c.keys[1], "string")
	switch {
	case !ok:
		return nil, wrongType
	case stored.Type == "":
		return nil, ""
	case len(stored.Text) != 10 || bigEndian(stored.Text[6:])/2 > 1_000_000_000:
		return nil, badID
	}
	state := bigEndian(stored.Text[6:])
	return &charge{bigEndian(stored.Text[:6]), state / 2, state%2 == 1}, ""
}

// charged returns the store with an id.
func (c call) charged(store Store, of charge) Store {
	state := 2 * of.permits
	if of.settled {
		state++
	}
	return store.With(c.keys[1], Value{
		Type: "string", Text: inBytes(of.slice, 6) + inBytes(state, 4),
		Expires: c.now/1000 + milliseconds(c.args.number["ttl"]),
	})
}
