package model

import "math/big"

// gcra is gcra_v1, in exact fractions of a microsecond. Every time that it computes is a whole number of intervals of
// window / limit after a whole microsecond, so the state is exact.
func gcra(c call) Outcome {
	limit, permits := c.args.number["limit"], c.args.number["permits"]
	interval := big.NewRat(c.args.number["window"], limit)
	depth := times(interval, c.args.number["burst"])
	if depth.Cmp(whole(1<<52)) > 0 {
		return c.fails("BADARG burst: want burst * window / limit up to 2^52")
	}
	if permits > c.args.number["burst"] {
		return c.fails("BADARG permits: want up to burst")
	}
	arrival, held, bad := c.arrival()
	if bad != "" {
		return c.fails(bad)
	}

	now := whole(c.now)
	asked := sum(arrival, times(interval, max(permits, 1)))
	wait := max(ceil(difference(difference(asked, depth), now)), 0)
	outcome := Outcome{After: c.store}
	granted := int64(0)
	if permits > 0 && wait <= c.args.number["max_wait"] {
		held = held.behind(arrival, c.args.number["window"])
		granted, arrival = permits, asked
		outcome.After = c.store.With(c.keys[0], c.bucket(arrival, held))
	}
	remaining := int64(0)
	if left := difference(sum(now, depth), arrival); left.Sign() > 0 {
		remaining = floor(new(big.Rat).Quo(left, interval))
	}
	outcome.Reply = []int64{granted, remaining, wait, ceil(difference(arrival, now)), c.now}
	return outcome
}

// arrival returns the theoretical arrival time: the stored one if it is ahead and not void, else now. It also returns
// the windows of the grants in it.
func (c call) arrival() (at *big.Rat, held windowsHeld, bad string) {
	stored, ok := c.holds(c.keys[0], "string")
	if !ok {
		return nil, held, wrongType
	}
	if stored.Type == "" {
		return whole(c.now), held, ""
	}
	state, ok := arrivalTime(stored.Text)
	if !ok {
		return nil, held, "BADSTATE bucket: want the 26 or 39 bytes of a bucket"
	}
	tat := state.tat
	if state.limit != c.args.number["limit"] {
		tat = whole(ceil(tat))
	}
	if c.now < state.written-state.held.widest-60_000_000 || tat.Cmp(whole(c.now)) <= 0 {
		return whole(c.now), held, ""
	}
	return tat, state.held.at(c.now), ""
}

// windowsHeld holds the windows of the grants that have not drained: the widest; and the widest of the grants after
// the last grant with that window, with the time at which that grant and all earlier ones have drained.
type windowsHeld struct {
	widest, next, drained int64
	followed              bool // there are later grants
}

// at returns the windows at a given time, with grants left.
func (w windowsHeld) at(now int64) windowsHeld {
	if w.followed && now >= w.drained {
		return windowsHeld{widest: w.next}
	}
	return w
}

// behind returns the windows after another grant, which drains after all others.
func (w windowsHeld) behind(arrival *big.Rat, window int64) windowsHeld {
	switch {
	case window >= w.widest:
		return windowsHeld{widest: window}
	case !w.followed:
		return windowsHeld{w.widest, window, ceil(arrival), true}
	}
	return windowsHeld{w.widest, max(w.next, window), w.drained, true}
}

// bucket returns the stored value after a grant.
func (c call) bucket(arrival *big.Rat, held windowsHeld) Value {
	limit := c.args.number["limit"]
	part := times(difference(arrival, whole(floor(arrival))), limit)
	state := inBytes(floor(arrival), 7) + inBytes(floor(part), 3) + inBytes(limit, 3) +
		inBytes(c.now, 7) + inBytes(held.widest, 6)
	if held.followed {
		state += inBytes(held.next, 6) + inBytes(held.drained, 7)
	}
	return Value{
		Type:    "string",
		Text:    state,
		Expires: c.now/1000 + milliseconds(ceil(difference(arrival, whole(c.now)))),
	}
}

// bucketState is a decoded bucket: the theoretical arrival time (the fraction's denominator is the limit), when it was
// written, and how far the clock may be behind that.
type bucketState struct {
	tat            *big.Rat
	limit, written int64
	held           windowsHeld
}

// arrivalTime decodes the state.
func arrivalTime(text string) (state bucketState, ok bool) {
	if len(text) != 26 && len(text) != 39 {
		return state, false
	}
	at, part, limit := bigEndian(text[:7]), bigEndian(text[7:10]), bigEndian(text[10:13])
	if at > maxTime || part >= limit || limit > 10_000_000 {
		return state, false
	}
	state = bucketState{
		tat: sum(whole(at), big.NewRat(part, limit)), limit: limit,
		written: bigEndian(text[13:20]), held: windowsHeld{widest: bigEndian(text[20:26])},
	}
	if len(text) == 39 {
		state.held.next, state.held.drained, state.held.followed = bigEndian(text[26:32]), bigEndian(text[32:]), true
	}
	return state, true
}

func whole(n int64) *big.Rat             { return new(big.Rat).SetInt64(n) }
func times(x *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(x, whole(n)) }
func sum(x, y *big.Rat) *big.Rat         { return new(big.Rat).Add(x, y) }
func difference(x, y *big.Rat) *big.Rat  { return new(big.Rat).Sub(x, y) }
func floor(x *big.Rat) int64             { return new(big.Int).Div(x.Num(), x.Denom()).Int64() }
func ceil(x *big.Rat) int64              { return -floor(new(big.Rat).Neg(x)) }
