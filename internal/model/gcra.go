package model

import (
	"encoding/binary"
	"math"
	"math/big"
)

// gcra is gcra_v1, in exact fractions of a microsecond. Whatever it computes is whole intervals of
// window / limit away from a whole microsecond, so the state can say it exactly.
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
	arrival, bad := c.arrival()
	if bad != "" {
		return c.fails(bad)
	}

	now := whole(c.now)
	asked := sum(arrival, times(interval, max(permits, 1)))
	wait := max(ceil(difference(difference(asked, depth), now)), 0)
	outcome := Outcome{After: c.store}
	granted := int64(0)
	if permits > 0 && wait <= c.args.number["max_wait"] {
		granted, arrival = permits, asked
		outcome.After = c.store.With(c.keys[0], c.bucket(arrival))
	}
	remaining := int64(0)
	if left := difference(sum(now, depth), arrival); left.Sign() > 0 {
		remaining = floor(new(big.Rat).Quo(left, interval))
	}
	outcome.Reply = []int64{granted, remaining, wait, ceil(difference(arrival, now)), c.now}
	return outcome
}

// arrival is the theoretical arrival time: the stored one, if it is ahead and not void, else now.
func (c call) arrival() (at *big.Rat, bad string) {
	stored, ok := c.holds(c.keys[0], "string")
	if !ok {
		return nil, wrongType
	}
	if stored.Type == "" {
		return whole(c.now), ""
	}
	tat, limit, since, ok := arrivalTime(stored.Text)
	if !ok {
		return nil, "BADSTATE bucket: want the 24 bytes of a bucket"
	}
	if limit != c.args.number["limit"] {
		tat = whole(ceil(tat))
	}
	if c.now < since || tat.Cmp(whole(c.now)) < 0 {
		return whole(c.now), ""
	}
	return tat, ""
}

// bucket is what is stored after a grant.
func (c call) bucket(arrival *big.Rat) Value {
	limit := c.args.number["limit"]
	part := times(difference(arrival, whole(floor(arrival))), limit)
	state := binary.BigEndian.AppendUint64(nil, uint64(floor(arrival)))
	state = binary.BigEndian.AppendUint32(state, uint32(floor(part)))
	state = binary.BigEndian.AppendUint32(state, uint32(limit))
	state = binary.BigEndian.AppendUint64(state, uint64(max(c.now-c.args.number["window"]-60_000_000, 0)))
	return Value{
		Type:    "string",
		Text:    string(state),
		Expires: c.now/1000 + milliseconds(ceil(difference(arrival, whole(c.now)))),
	}
}

// arrivalTime reads the state: the time as whole microseconds, a numerator and what it is over; and since when
// a clock must be for it to count.
func arrivalTime(state string) (tat *big.Rat, limit, since int64, ok bool) {
	if len(state) != 24 {
		return nil, 0, 0, false
	}
	bytes := []byte(state)
	at, part := binary.BigEndian.Uint64(bytes), int64(binary.BigEndian.Uint32(bytes[8:]))
	limit = int64(binary.BigEndian.Uint32(bytes[12:]))
	if at > mostMoment || part >= limit || limit > 10_000_000 {
		return nil, 0, 0, false
	}
	since = int64(min(binary.BigEndian.Uint64(bytes[16:]), math.MaxInt64))
	return sum(whole(int64(at)), big.NewRat(part, limit)), limit, since, true
}

func whole(n int64) *big.Rat             { return new(big.Rat).SetInt64(n) }
func times(x *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(x, whole(n)) }
func sum(x, y *big.Rat) *big.Rat         { return new(big.Rat).Add(x, y) }
func difference(x, y *big.Rat) *big.Rat  { return new(big.Rat).Sub(x, y) }
func floor(x *big.Rat) int64             { return new(big.Int).Div(x.Num(), x.Denom()).Int64() }
func ceil(x *big.Rat) int64              { return -floor(new(big.Rat).Neg(x)) }
