package model

import "strings"

const badID = "BADSTATE id: want a time, permits and windows"

// budget is budget_v1: slice_ring, and an id that is charged once.
func budget(c call) Outcome {
	permits := c.args.number["permits"]
	if c.tooMany() {
		return c.fails("BADARG permits: want up to every limit")
	}
	rings, unread := c.rings()
	if unread != nil && !unread.Any {
		return *unread
	}
	known, bad := c.chargedFor()
	switch {
	case permits == 0:
	case bad != "":
		return c.failsOr(bad, unread)
	case known != nil && known.settled:
		return c.failsOr("BADARG id: want one that is not settled", unread)
	case known != nil && known.permits != permits:
		return c.failsOr("BADARG id: want the permits it was granted before", unread)
	}
	if unread != nil {
		return *unread
	}
	reply := c.decided(rings, 0)
	if known != nil && permits > 0 {
		reply[0], reply[2] = permits, 0
		return Outcome{Reply: reply, After: c.store}
	}
	outcome := c.granted(rings, reply, reply[0])
	if reply[0] > 0 {
		mark := charge{at: c.now, permits: permits}
		for _, w := range c.windows() {
			mark.windows += w.mark()
		}
		outcome.After = c.charged(outcome.After, mark)
	}
	return outcome
}

// failsOr is the outcome of a call that fails, or says that a ring cannot be read.
func (c call) failsOr(err string, unread *Outcome) Outcome {
	if unread != nil {
		return Outcome{Err: err, Or: unread.Or, After: c.store}
	}
	return c.fails(err)
}

// budgetSettle is budget_settle_v1.
func budgetSettle(c call) Outcome {
	known, bad := c.chargedFor()
	switch {
	case bad != "":
		return c.fails(bad)
	case known == nil && c.args.number["unknown"] == 0:
		return Outcome{Reply: []int64{0, 0, c.now}, After: c.store}
	case known == nil:
		known = &charge{at: c.now}
	case known.settled:
		return Outcome{Reply: []int64{0, known.permits, c.now}, After: c.store}
	}
	more := c.args.number["permits"] - known.permits
	after := c.store
	switch {
	case more < 0:
		var returned int64
		var unread *Outcome
		charged := func(w window) bool { return known.names(w) }
		if returned, after, unread = c.ringsLowered(charged, known.at, -more); unread != nil {
			return *unread
		}
		more = -returned
	case more > 0:
		rings, unread := c.rings()
		if unread != nil {
			return *unread
		}
		after = c.charge(rings, more)
	}
	settled := charge{at: known.at, permits: known.permits + more, settled: true}
	return Outcome{Reply: []int64{1, settled.permits, c.now}, After: c.charged(after, settled)}
}

// charge is what is stored of an id.
type charge struct {
	at, permits int64 // at is when it was charged
	settled     bool
	windows     string // those that were charged, each as its mark
}

// mark is the slice and the size of a window, as stored of an id.
func (w window) mark() string { return inBytes(w.slice, 5) + inBytes(w.size, 2) }

const markBytes = 7

// names reports whether a window was charged.
func (known charge) names(w window) bool {
	for marks := known.windows; marks != ""; marks = marks[markBytes:] {
		if strings.HasPrefix(marks, w.mark()) {
			return true
		}
	}
	return false
}

// chargedFor returns what is stored of the call's id, its last key; nil if nothing is.
func (c call) chargedFor() (known *charge, bad string) {
	const header = 7 + 4
	stored, ok := c.holds(c.keys[len(c.keys)-1], "string")
	switch text := stored.Text; {
	case !ok:
		return nil, wrongType
	case stored.Type == "":
		return nil, ""
	case len(text) < header || (len(text)-header)%markBytes > 0 || bigEndian(text[7:header])/2 > 1_000_000_000:
		return nil, badID
	default:
		state := bigEndian(text[7:header])
		return &charge{bigEndian(text[:7]), state / 2, state%2 == 1, text[header:]}, ""
	}
}

// charged returns the store with an id.
func (c call) charged(store Store, of charge) Store {
	state := 2 * of.permits
	if of.settled {
		state++
	}
	return store.With(c.keys[len(c.keys)-1], Value{
		Type: "string", Text: inBytes(of.at, 7) + inBytes(state, 4) + of.windows,
		Expires: c.now/1000 + milliseconds(c.args.number["ttl"]),
	})
}
