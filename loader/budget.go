package loader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Budget limits a cost that is known only afterwards: the tokens of a language model, the bytes of an answer. It has
// one to eight windows at once. Most callers should use Reserved, which takes an estimate before the work and settles
// the actual cost whatever happens. Reserve, Settle and Charge are its parts, for work that ends in another process:
// Reserve takes the estimate, Settle corrects it, Charge adds a cost that was not reserved.
//
// Nothing is reserved while a window is full. An actual cost may be higher than its estimate, and lift the count over
// the limit: until enough of this debt has left the window, Reserve is denied. A debt lasts for one window and a slice
// at most. What is reserved and never settled stays charged with its estimate.
//
// An id names one request. The server side makes it, for example with crypto/rand.Text, never the end user: with an id
// that has been granted before, Reserve grants without charging. An id has 1 to 128 bytes. Redis knows it for the time
// of SettleWithin, in a key of its own of about 200 bytes. With the same id each of the three calls is counted once,
// however often it is sent; the loader itself asks again after a lost reply.
//
// A Budget counts as a SliceRing does, in the same keys: a SliceRing of the same name and with the same windows sees
// and adds to the same counts, without ids and with Wait. The zero Budget is not ready for use.
type Budget struct{ core core }

// defaultSettleWithin is the default of SettleWithin. It is longer than clients of language models wait for an answer
// by default, 10 minutes, and less than 1000 slices of a second: so far back a refund can go.
const defaultSettleWithin = 15 * time.Minute

// SettleWithin sets how long Redis knows an id of a Budget: 1 ms to 366 days, in whole microseconds; the default is 15
// minutes. Set it to the longest time that a request may take. A reservation that is not settled in this time stays
// charged with its estimate, and repeated calls are recognized for as long, counted from Reserve and again from Settle.
// Memory is bounded by it: each request takes about 200 bytes for so long, twice that time at most.
func SettleWithin(d time.Duration) LimiterOption {
	return func(s *settings) {
		s.once("SettleWithin")
		s.requireAlgorithm("SettleWithin", &budget)
		longest := time.Duration(budget.maxArgument("ttl")) * time.Microsecond
		s.idTTL = d
		if d < time.Millisecond || d > longest || d%time.Microsecond != 0 {
			s.setErr(s.errArgument("SettleWithin", d, "1ms to 366 days, in whole microseconds"))
		}
	}
}

// Budget returns the budget of this name. Use it if a cost is known only afterwards. Call Check when the program
// starts. Limits and slices are as in SliceRing: see there. A refund goes back 1000 slices, all windows together: if
// requests may take longer, set a longer Slice.
//
// Its own option is SettleWithin. FailOpen and FailLocal answer for Reserve and Peek. MaxWait and RememberDenials are
// refused: a Budget does not wait, and its other processes give back at any time. It cannot be in a Batch; the
// SliceRing of its name can. Cost: nothing is sent.
func (l *Loader) Budget(name string, windows []Limit, opts ...LimiterOption) Budget {
	s := l.configure(&budget, name, opts)
	if s.idTTL == 0 {
		s.idTTL = defaultSettleWithin
	}
	return Budget{core{settings: s}.withWindows(windows)}
}

// With returns a copy with other limits, as SliceRing.With does. What was reserved before is settled in the windows
// that this copy has: what it cost more is charged to all of them, and what it cost less is given back in those in
// which it was reserved. Cost: nothing is sent; small allocations, fewest with the windows that the budget has.
func (b Budget) With(windows ...Limit) Budget { return Budget{b.core.withWindows(windows)} }

// Reserve takes an estimate for the request of this id, in all windows or in none. Use it before the work. The estimate
// is at least 1; more than a limit is an error that is ErrExceedsLimit. A denial charges nothing and may be repeated
// after Wait, with the same id.
//
// Asked again with the same id and the same estimate, it grants again and charges nothing. With another estimate, or if
// the id is settled, it is an *ArgumentError.
//
// After an error the estimate may be charged: ask again, or do not do the work and call Charge with 0, which withdraws
// the reservation even if it is still on its way. If a fallback decided (Decision.Degraded), Redis may not know the id:
// settle it with Charge.
//
// Cost: one round trip.
func (b Budget) Reserve(ctx context.Context, subject, id string, estimate int64) (Decision, error) {
	return b.core.decide(ctx, subject, question{method: reserve, permits: estimate, id: id})
}

// Settle replaces the estimate of a reservation by its actual cost. Use it after the work; 0 gives the whole estimate
// back. What the estimate was too high by is given back to the time of Reserve, unless that is more than 1000 slices
// ago or the counts were lost. What it was too low by is charged now, whatever the limits are.
//
// It returns nil if the id is settled, by this call or an earlier one: the first one counts. It returns ErrNotReserved,
// and changes nothing, if Redis does not know the id. After any other error it may be repeated: it is counted once. If
// ctx has a deadline, Settle itself asks again until then while Redis cannot be reached; without one it returns the
// error of the first call, after a second at most. So give it the time that an outage may take, and not the context of
// a user who may leave:
//
//	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
//	defer cancel()
//	err := tokens.Settle(ctx, customer, id, used)
//
// Cost: one round trip; two if Redis does not know the id.
func (b Budget) Settle(ctx context.Context, subject, id string, actual int64) error {
	return b.core.settle(ctx, settlement{method: "Settle", subject: subject, id: id, actual: actual})
}

// Charge is Settle, but an id that Redis does not know is charged now. Use it for a cost that was not reserved, after a
// reservation that a fallback granted, and to withdraw a reservation of which the outcome is unknown (with 0). A
// reservation of the id that comes later is refused. The cost is charged whatever the limits are.
//
// Do not use it for a reservation that may be older than SettleWithin: its estimate stays charged, and the actual cost
// would be charged too. Cost: one round trip.
func (b Budget) Charge(ctx context.Context, subject, id string, actual int64) error {
	return b.core.settle(ctx, settlement{method: "Charge", subject: subject, id: id, actual: actual, unknown: 1})
}

// Peek returns what could be reserved now, and changes nothing. Use it for dashboards and quota pages. Remaining is 0
// in debt, and Wait is the time until 1 could be reserved. Cost: one round trip.
func (b Budget) Peek(ctx context.Context, subject string) (Decision, error) {
	return b.core.Peek(ctx, subject)
}

// Reset gives the subject its whole budget back, by removing its counts. Use it to unblock a customer. What was
// reserved before can still be settled: only what it costs more than its estimate is then charged. Cost: one round
// trip, UNLINK.
func (b Budget) Reset(ctx context.Context, subject string) error { return b.core.Reset(ctx, subject) }

// Name returns the limiter's name. Use it in logs and headers. It is empty for a zero limiter. Cost: nothing.
func (b Budget) Name() string { return b.core.Name() }

// Check returns what is wrong with the budget's name, limits and options, and with the options of its Loader. Call it
// once, when the program starts. Cost: nothing is sent.
func (b Budget) Check() error { return b.core.Check() }

var budget = algorithm{
	name: "Budget", amount: "estimate",
	script: &budgetV1, code: codeSliceRing, maxWindow: maxWindowSlices * maxSlice, hasIDs: true, capacity: smallestLimit,
	setArgs: setBudgetArgs, checkID: checkBudgetID, maxPermits: maxArgument(&budgetV1, "permits"),
	detail: sliceRingDetail, keys: ringKeys, unused: []string{"MaxWait", "RememberDenials"},
}

func setBudgetArgs(c core, call *wire.Call, q question) {
	c.ring.setArgs(call, c.idKey(call.Key, q.id), c.idTTL.Microseconds(), q.permits)
}

// idKey returns the key of an id, from the key of its subject's ring.
func (c core) idKey(key, id string) string {
	return strings.TrimSuffix(withoutWindow(key), c.tail) + "}:" + codeBudgetID + ":" + escaper.Replace(id)
}

func checkBudgetID(s *settings, id string) error {
	if id == "" || len(id) > maxIDLength {
		return s.errArgument("id", strconv.Quote(id), "1 to 128 bytes")
	}
	return nil
}

// settlement is one Settle or Charge.
type settlement struct {
	method  string
	subject string
	id      string
	actual  int64
	unknown int64 // 1: an id that is not known is charged
}

// settle makes one settlement, and tells the observer.
func (c core) settle(ctx context.Context, s settlement) error {
	observed := c.watch(s.subject, question{method: s.method, permits: s.actual})
	if observed != nil {
		observed.Script = wire.NameOf(&budgetSettleV1)
	}
	ctx = observed.begin(ctx)
	defer observed.abort()
	reply, err := c.settleUntil(ctx, observed, s)
	if err == nil {
		observed.setDecision(Decision{Granted: true, Now: time.UnixMicro(reply[settleNow])})
	}
	observed.end(err)
	return err
}

// The reply of budget_settle.
const (
	settled       = iota // 1: by this call
	settlePermits        // charged for the id in all
	settleNow
)

// settleUntil asks until there is a reply, an error that a retry would not cure, or the deadline.
func (c core) settleUntil(ctx context.Context, observed *observation, s settlement) ([]int64, error) {
	if err := c.checkSettlement(s); err != nil {
		return nil, err
	}
	patience := c.patience(ctx)
	for failures := 1; ; failures++ {
		reply, err := c.loader.run(ctx, c.settleCall(s), observed)
		switch {
		case err == nil:
			return reply, c.checkSettled(ctx, s, reply)
		case patience.deadline.IsZero() || !mayHelp(err, true):
			return nil, err
		}
		if observed.sleep(ctx, patience.pause(failures)) != nil || patience.timeLeft() == 0 {
			return nil, err
		}
	}
}

// checkSettled returns ErrNotReserved if the reply says that nothing is charged for the id, and Redis does not know it.
// The reply is the same for an id that was settled with 0 before.
func (c core) checkSettled(ctx context.Context, s settlement, reply []int64) error {
	if s.unknown == 1 || reply[settled] > 0 || reply[settlePermits] > 0 {
		return nil
	}
	key, _ := c.key(s.subject)
	var known int64
	err := c.loader.client.Await(ctx, c.timeout, func(ctx context.Context) (err error) {
		known, err = c.loader.client.Redis.Exists(ctx, c.idKey(key, s.id)).Result()
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("loader: %s: %w", s.method, err)
	case known > 0:
		return nil
	}
	return fmt.Errorf("loader: %s: Settle: id %q %w, or no longer after %v", c.name, s.id, ErrNotReserved, c.idTTL)
}

// checkSettlement returns what is wrong with the arguments.
func (c core) checkSettlement(s settlement) error {
	if _, err := c.key(s.subject); err != nil {
		return err
	}
	if err := checkBudgetID(c.settings, s.id); err != nil {
		return err
	}
	if upper := budget.maxArgument("permits"); s.actual < 0 || s.actual > upper {
		return c.errArgument("actual", s.actual, fmt.Sprintf("0 to %d", upper))
	}
	return nil
}

// settleCall makes the call of a settlement whose arguments are right.
func (c core) settleCall(s settlement) *wire.Call {
	key, _ := c.key(s.subject)
	call := c.call(&budgetSettleV1, key)
	call.ID = s.id
	c.ring.setArgs(call, c.idKey(key, s.id), c.idTTL.Microseconds(), s.actual, s.unknown)
	return call
}

// ErrNotReserved is in the error of a Settle whose id Redis does not know. The id was not granted (see Charge for a
// fallback's grants), its time is over (SettleWithin), or Redis has lost it. Nothing was changed: what was reserved and
// is still counted stays charged with its estimate.
var ErrNotReserved = errors.New("is not reserved")
