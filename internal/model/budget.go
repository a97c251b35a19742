package model

import "slices"

const (
	// maxHeld is how many permits a ring may hold after a charge.
	maxHeld = 7_000_000_000_000

	badID = "BADSTATE id: want a time and permits"
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
		at := bigEndian(outcome.After[c.keys[0]].Text[1:8])
		outcome.After = c.charged(outcome.After, charge{at: at, permits: permits})
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
	if tooMany(windowsOf(c.args)) {
		return c.fails(badSizes)
	}
	r, bad := c.ring()
	if bad != "" {
		return c.fails(bad)
	}
	known, bad := c.chargedFor()
	windows := windowsOf(c.args)
	counting, time := r.at(c.now, windows)
	switch {
	case bad != "":
		return c.fails(bad)
	case known == nil && c.args.number["unknown"] == 0:
		return Outcome{Reply: []int64{0, 0, c.now}, After: c.store}
	case known == nil:
		known = &charge{at: time}
	case known.settled:
		return Outcome{Reply: []int64{0, known.permits, c.now}, After: c.store}
	}
	more := c.args.number["permits"] - known.permits
	if more != 0 && !r.sound {
		return Outcome{Or: badRing, Any: true, After: c.store}
	}
	after := c.store
	switch {
	case more > 0:
		more, after = c.chargeMore(counting, windows, time, more)
	case more < 0:
		more, after = c.ringLowered(counting, known.at, -more)
		more = -more
	}
	known.permits, known.settled = known.permits+more, true
	return Outcome{Reply: []int64{1, known.permits, c.now}, After: c.charged(after, *known)}
}

// chargeMore grants permits whatever the limits, as many as each window may hold.
func (c call) chargeMore(r ring, windows []ringWindow, time, more int64) (charged int64, after Store) {
	var counts []int64
	for i, w := range windows {
		counts = append(counts, r.view(i, w, time).held(0))
	}
	more = max(min(more, maxHeld-slices.Max(counts)), 0)
	if more == 0 {
		return 0, c.store
	}
	ring := r.grant(windows, counts, time, more)
	return more, c.store.With(c.keys[0], ring.value(c.store[c.keys[0]]))
}

// charge is what is stored of an id.
type charge struct {
	at, permits int64 // at is when it was charged
	settled     bool
}

// chargedFor returns what is stored of the call's id; nil if nothing is.
func (c call) chargedFor() (known *charge, bad string) {
	stored, ok := c.holds(c.keys[1], "string")
	switch {
	case !ok:
		return nil, wrongType
	case stored.Type == "":
		return nil, ""
	case len(stored.Text) != 11 || bigEndian(stored.Text[7:])/2 > 1_000_000_000:
		return nil, badID
	}
	state := bigEndian(stored.Text[7:])
	return &charge{bigEndian(stored.Text[:7]), state / 2, state%2 == 1}, ""
}

// charged returns the store with an id.
func (c call) charged(store Store, of charge) Store {
	state := 2 * of.permits
	if of.settled {
		state++
	}
	return store.With(c.keys[1], Value{
		Type: "string", Text: inBytes(of.at, 7) + inBytes(state, 4),
		Expires: c.now/1000 + milliseconds(c.args.number["ttl"]),
	})
}
