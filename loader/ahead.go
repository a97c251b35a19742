package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/internal/ahead"
)

// AheadOptions sets how far a process may be ahead of Redis.
type AheadOptions struct {
	// Processes is how many Aheads for this limiter are alive at once, in all processes together: 1 or more. With too
	// small a number more is let through than Error says.
	Processes int

	// Error is the part of the limit by which a window may be exceeded: 0.05 is 5 %, so that a limit of 1000 never lets
	// more than 1050 through. Above 0, up to 1.
	Error float64

	// Strict takes the error off the limit: Redis enforces a limit that is lower by all that may be ahead, so that no
	// window holds more than the limit. Callers who ask Redis directly have to use the same lower limit: see Direct.
	Strict bool

	// Every is the longest time before a grant is reported, if Redis keeps up: 1 ms up to the smallest window. 0 means a
	// twentieth of the smallest window, at most 1 s and at least 1 ms.
	Every time.Duration
}

// flushRounds is how often Flush looks for what questions of other callers took along and lost.
const flushRounds = 10

// maxDefaultEvery is the maximum of AheadOptions.Every by default.
const maxDefaultEvery = time.Second

// Ahead returns the ring as a limiter that answers most calls in this process, in a microsecond, and tells Redis within
// Every. Use it for many subjects with moderate limits where a round trip for each call is too slow or costs too much,
// and where a limit may be exceeded by Error. For limits that are never exceeded set Strict, or use the ring itself.
// Close the Ahead when the program ends.
//
// For each subject a process may be Error * limit / (2 * Processes) permits ahead of Redis. That is an error if it is
// less than 1, because then no grant could be ahead. No window holds more than its limit and Error of it, as long as no
// more Aheads are alive than Processes, and no more have died without Close in a window. Two Aheads in one process
// count as two. What slice_ring says about a stepped clock, a failover, an eviction and Reset comes on top, and so does
// what a fallback grants.
//
// With Strict, Redis enforces limit - 2 * Processes * c: c is what a process may be ahead, Error * limit divided by
// 2 * Processes, rounded down. Of several limits the smallest gives c, and each is lower by as much. Then no window
// holds more than its limit, as long as the Aheads that are alive and those that died without Close in a window are no
// more than 2 * Processes, and all other callers use Direct. A Decision has the lower limit, which it was judged by. A
// limit that would be below 1 is an error.
//
// The first call about a subject asks Redis, and so do calls near the limit. Callers of one subject wait for the report
// or question on its way, and ask by themselves if its answer is not enough. A denial is remembered for its Wait, as by
// RememberDenials. While Redis is down, permits are granted as far as the process may be ahead; then the limiter's
// fallback answers. Reports wait for Redis. What was granted ahead cannot be given back.
//
// Cost: one goroutine while there is something to report; 240 bytes and its text for each subject, 64 MiB at most. When
// all of them have something to report, further subjects are decided by Redis.
func (r SliceRing) Ahead(o AheadOptions) (*Ahead, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	if r.settings.enforced != nil {
		return nil, r.errArgument("SliceRing", "of Direct", "the one that its Ahead was made of")
	}
	if r.denials != nil { // an Ahead has its own
		return nil, r.errArgument("RememberDenials", "with Ahead", "one of the two")
	}
	most, err := o.complete(r.ring.limits)
	if err != nil {
		return nil, r.named(err)
	}
	if o.Strict {
		if r = r.strict(o); r.limitErr != nil {
			return nil, r.limitErr
		}
	}
	a := &Ahead{
		ring: r, most: most, every: o.Every, start: time.Now(), seed: maphash.MakeSeed(),
		queue: reportQueue{wake: make(chan struct{}, 1)},
	}
	for i := range a.shards {
		a.shards[i].subjects = map[string]*aheadSubject{}
	}
	for _, w := range r.ring.windows {
		a.counts = max(a.counts, w.counts)
	}
	return a, nil
}

// Direct returns the SliceRing that asks Redis about each call, under the limits that this Ahead has: with Strict these
// are lower than those that it was made with. Use it for all callers who are not ahead. A process that has only such
// callers makes an Ahead for its Direct; it does not count among Processes while nobody asks it. With takes limits as
// they are declared, and lowers them too. One that is too low for any grant to be ahead stays as it is. Cost: nothing.
func (a *Ahead) Direct() SliceRing { return a.ring }

// Enforced returns the limits that Redis enforces where these are declared: the same ones without Strict. Use it to
// tell callers of other languages which limits to ask for. Its error says what is wrong with the options for these
// limits. Cost: nothing.
func (o AheadOptions) Enforced(limits []Limit) ([]Limit, error) {
	if _, err := o.complete(limits); err != nil || !o.Strict {
		return limits, err
	}
	return o.lower(limits)
}

// strict returns the ring with lower limits, also those that With gives it.
func (r SliceRing) strict(o AheadOptions) SliceRing {
	s := *r.settings
	s.enforced = func(limits []Limit) ([]Limit, error) {
		lower, err := o.lower(limits)
		return lower, s.named(err)
	}
	r.settings = &s
	return SliceRing{r.withWindows(r.ring.limits)}
}

// named puts the limiter's name into an error about options.
func (s *settings) named(err error) error {
	if e, ok := errors.AsType[*ArgumentError](err); ok {
		e.Limiter = s.name
	}
	return err
}

// lower returns the limits less the error.
func (o AheadOptions) lower(limits []Limit) ([]Limit, error) {
	smallest := smallestOf(limits)
	taken := ahead.Taken(smallest, o.Processes, o.Error)
	switch {
	case taken <= 0:
		return limits, nil
	case taken >= smallest:
		const want = "a smaller error: it is taken off the limit, and nothing is left"
		return nil, &ArgumentError{Argument: "strict ahead with a limit of", Value: o.show(smallest), Want: want}
	}
	lower := slices.Clone(limits)
	for i := range lower {
		lower[i].Permits -= taken
	}
	return lower, nil
}

// show returns a limit and the options that say how far ahead of Redis a process may be.
func (o AheadOptions) show(limit int64) string {
	return fmt.Sprintf("%d, processes %d, error %.3g %%", limit, o.Processes, 100*o.Error)
}

// smallestOf returns the permits of the smallest of some limits.
func smallestOf(limits []Limit) int64 {
	byPermits := func(a, b Limit) int { return cmp.Compare(a.Permits, b.Permits) }
	return slices.MinFunc(limits, byPermits).Permits
}

// complete fills in the defaults, and returns how far ahead of Redis a process may be.
func (o *AheadOptions) complete(limits []Limit) (most int64, err error) {
	if len(limits) == 0 {
		return 0, &ArgumentError{Argument: "limits", Value: "0", Want: "1 to 8"}
	}
	smallest, window := smallestOf(limits), limits[0].Window
	for _, limit := range limits[1:] {
		window = min(window, limit.Window)
	}
	o.Every = cmp.Or(o.Every, max(min(window/20, maxDefaultEvery), time.Millisecond))
	wrong := func(argument string, value any, want string) error {
		return &ArgumentError{Argument: argument, Value: fmt.Sprint(value), Want: want}
	}
	switch {
	case o.Processes < 1:
		return 0, wrong("AheadOptions.Processes", o.Processes, "1 or more")
	case !(o.Error > 0 && o.Error <= 1):
		return 0, wrong("AheadOptions.Error", o.Error, "above 0 and up to 1: 0.05 is 5 %")
	case o.Every < time.Millisecond || o.Every > max(window, time.Millisecond):
		return 0, wrong("AheadOptions.Every", o.Every, "1ms up to the smallest window")
	}
	if most = ahead.Share(smallest, o.Processes, o.Error); most > 0 {
		return most, nil
	}
	want := "fewer processes, a larger error, or to ask Redis"
	if limit := math.Ceil(2 * float64(o.Processes) / o.Error); limit < float64(sliceRing.maxArgument("limit_i")) {
		least := int64(limit)
		for ahead.Share(least, o.Processes, o.Error) < 1 { // division rounds
			least++
		}
		want = fmt.Sprintf("a limit of %d, ", least) + want
	}
	return 0, wrong("ahead with a limit of", o.show(smallest), want)
}

// Allow asks for one permit now. Use it to refuse what is over the limit.
//
// If the grant is ahead of Redis (Decision.Ahead), Remaining is what Redis had left, less what this process has granted
// since; ResetAfter is the longest time for which the permit counts; Now is the server's clock, computed from the last
// answer, up to one round trip late.
//
// Cost: nothing is sent if the last answer had room and this process is not too far ahead. Otherwise one round trip,
// which takes the report with it, or two if another one is on its way.
func (a *Ahead) Allow(ctx context.Context, subject string) (Decision, error) {
	return a.decide(ctx, subject, question{method: "Allow", permits: 1})
}

// AllowN asks for n permits now, all or nothing. Use it where one request counts for several. More than could ever be
// granted is an error that is ErrExceedsLimit. Cost: as Allow.
func (a *Ahead) AllowN(ctx context.Context, subject string, n int64) (Decision, error) {
	return a.decide(ctx, subject, question{method: "Allow", permits: n})
}

// Wait is WaitN for one permit.
func (a *Ahead) Wait(ctx context.Context, subject string) error { return a.WaitN(ctx, subject, 1) }

// WaitN blocks until n permits may be used. Use it in workers that would rather be late than refused. As with a
// SliceRing it sleeps and asks again, so it is not first come, first served. Cost: as AllowN, once for each sleep.
func (a *Ahead) WaitN(ctx context.Context, subject string, n int64) error {
	observed := a.ring.watch(subject, question{method: "Wait", permits: n})
	ctx = observed.begin(ctx)
	defer observed.abort()
	err := a.ring.waitHere(ctx, subject, n, observed, func(ctx context.Context, subject string, q question) (Decision, error) {
		return a.answer(ctx, subject, q, observed)
	})
	observed.end(err)
	return err
}

// Peek returns what could be granted now, and changes nothing. Use it for dashboards and quota pages. Remaining is less
// what this process has granted and not reported. Cost: one round trip.
func (a *Ahead) Peek(ctx context.Context, subject string) (Decision, error) {
	d, err := a.ring.Peek(ctx, subject)
	a.with(subject, func(s *aheadSubject) { d.setRemaining(max(d.Remaining-s.Unreported(), 0)) })
	return d, err
}

// Reset gives the subject its limit back, less what this and other processes have not reported: that is charged when it
// is. Use it to unblock a customer. Cost: one round trip.
func (a *Ahead) Reset(ctx context.Context, subject string) error {
	defer a.with(subject, (*aheadSubject).forget)
	return a.ring.Reset(ctx, subject)
}

// GiveBack gives back n permits of a decision that Redis made: see SliceRing.GiveBack. A grant ahead of Redis is an
// *ArgumentError, because it may not be counted yet.
func (a *Ahead) GiveBack(ctx context.Context, subject string, d Decision, n int64) (returned int64, err error) {
	if d.Ahead {
		return 0, a.ring.errArgument("decision", "ahead of Redis", "one that Redis made: use the SliceRing itself")
	}
	defer a.with(subject, (*aheadSubject).forget)
	return a.ring.GiveBack(ctx, subject, d, n)
}

// Report charges n permits whatever the windows hold: see SliceRing.Report. Cost: one round trip.
func (a *Ahead) Report(ctx context.Context, subject string, n int64) (Decision, error) {
	defer a.with(subject, (*aheadSubject).forget)
	return a.ring.Report(ctx, subject, n)
}

// Name returns the name of the SliceRing. Cost: nothing.
func (a *Ahead) Name() string { return a.ring.Name() }

// Check returns what is wrong with the SliceRing. Call it once, when the program starts. Cost: nothing is sent.
func (a *Ahead) Check() error { return a.ring.Check() }

// Flush tells Redis of everything that was granted before. Use it in tests, and before a program is suspended. Its
// error says how many permits are not reported: they stay, and are sent again. Cost: one round trip for up to 4096
// subjects.
func (a *Ahead) Flush(ctx context.Context) (err error) {
	var left []*aheadSubject
	a.each(func(s *aheadSubject) {
		if s.Unreported() > 0 {
			left = append(left, s)
		}
	})
	for range flushRounds {
		if left, err = a.flush(ctx, left); err != nil || len(left) == 0 {
			break
		}
		err = errStillOnItsWay
	}
	if permits := a.Unreported(); err != nil && permits > 0 {
		return fmt.Errorf("loader: %s: %d permits granted ahead of Redis are not reported: %w", a.Name(), permits, err)
	}
	return nil
}

var errStillOnItsWay = errors.New("other callers' questions took them along, and had no answer")

// flush reports subjects, and waits for what is on its way already. It returns those: it may be lost.
func (a *Ahead) flush(ctx context.Context, subjects []*aheadSubject) (onTheirWay []*aheadSubject, err error) {
	for batch := range slices.Chunk(subjects, maxReports) {
		busy, err := a.report(ctx, batch, math.MaxInt64)
		for s, flight := range busy {
			onTheirWay, err = append(onTheirWay, s), cmp.Or(err, flight.wait(ctx))
		}
		if err != nil {
			return nil, err
		}
	}
	return onTheirWay, nil
}

// Close tells Redis of everything that was granted ahead. Use it when the program ends, with a deadline. From then on
// Redis decides about each call. The error says how many permits are not reported: they stay uncounted, as those of a
// process that dies. Cost: as Flush.
func (a *Ahead) Close(ctx context.Context) error {
	for i := range a.shards {
		a.shards[i].mu.Lock()
		a.shards[i].closed = true
		a.shards[i].mu.Unlock()
	}
	defer a.queue.close()
	return a.Flush(ctx)
}

// Unreported returns how many permits were granted ahead of Redis that it has not confirmed. Use it for metrics, every
// few seconds. Cost: nothing is sent; every subject is looked at.
func (a *Ahead) Unreported() (permits int64) {
	a.each(func(s *aheadSubject) { permits += s.Unreported() })
	return permits
}

// with calls do for a subject that is known, under the lock of its shard.
func (a *Ahead) with(subject string, do func(*aheadSubject)) {
	if a.most == 0 {
		return
	}
	shard := a.shard(subject)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if s := shard.subjects[subject]; s != nil {
		do(s)
	}
}

// each calls do for each subject, under the lock of its shard.
func (a *Ahead) each(do func(*aheadSubject)) {
	for i := range a.shards {
		shard := &a.shards[i]
		shard.mu.Lock()
		for _, s := range shard.subjects {
			do(s)
		}
		shard.mu.Unlock()
	}
}
