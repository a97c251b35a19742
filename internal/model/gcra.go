package model

import (
	"fmt"
	"math/big"
	"strings"
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
	tat, limit, written, ok := arrivalTime(stored.Text)
	if !ok {
		return nil, "BADSTATE bucket: want <tat> <numerator> <limit> <written>"
	}
	if limit != c.args.number["limit"] {
		tat = whole(ceil(tat))
	}
	if written > c.now+c.args.number["window"]+60_000_000 || tat.Cmp(whole(c.now)) < 0 {
		return whole(c.now), ""
	}
	return tat, ""
}

// bucket is what is stored after a grant.
func (c call) bucket(arrival *big.Rat) Value {
	limit := c.args.number["limit"]
	part := times(difference(arrival, whole(floor(arrival))), limit)
	return Value{
		Type:    "string",
		Text:    fmt.Sprintf("%d %d %d %d", floor(arrival), floor(part), limit, c.now),
		Expires: c.now/1000 + milliseconds(ceil(difference(arrival, whole(c.now)))),
	}
}

// arrivalTime reads the state: "<tat> <numerator> <limit> <written>".
func arrivalTime(text string) (tat *big.Rat, limit, written int64, ok bool) {
	fields := strings.Split(text, " ")
	if len(fields) != 4 {
		return nil, 0, 0, false
	}
	at, ok1 := decimal(fields[0], 0, mostMoment)
	part, ok2 := decimal(fields[1], 0, 9_999_999)
	limit, ok3 := decimal(fields[2], 1, 10_000_000)
	written, ok4 := decimal(fields[3], 0, mostMoment)
	if !ok1 || !ok2 || !ok3 || !ok4 || part >= limit {
		return nil, 0, 0, false
	}
	return sum(whole(at), big.NewRat(part, limit)), limit, written, true
}

func whole(n int64) *big.Rat             { return new(big.Rat).SetInt64(n) }
func times(x *big.Rat, n int64) *big.Rat { return new(big.Rat).Mul(x, whole(n)) }
func sum(x, y *big.Rat) *big.Rat         { return new(big.Rat).Add(x, y) }
func difference(x, y *big.Rat) *big.Rat  { return new(big.Rat).Sub(x, y) }
func floor(x *big.Rat) int64             { return new(big.Int).Div(x.Num(), x.Denom()).Int64() }
func ceil(x *big.Rat) int64              { return -floor(new(big.Rat).Neg(x)) }
