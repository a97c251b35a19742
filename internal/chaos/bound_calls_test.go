package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// outcome is what a bounded call returned.
type outcome struct {
	err      error
	degraded bool // the policy decided
}

// boundCall is one call that asks Redis.
type boundCall struct {
	name    string
	policy  bool // FailOpen or FailLocal stands ready
	silent  bool // it returns no decision
	offline bool // it may have an answer without Redis
	ask     func(ctx context.Context, subject string) outcome
	close   func(ctx context.Context) error // at the end; nil: there is nothing to close
}

// hourly is a limit that is never reached here.
var hourly = loader.PerHour(1000)

// policies are what answers in the place of Redis.
var policies = []struct {
	name string
	opts []loader.LimiterOption
}{
	{"", nil},
	{"FailOpen", []loader.LimiterOption{loader.FailOpen()}},
	{"FailLocal", []loader.LimiterOption{loader.FailLocal(1)}},
}

// boundCalls is every call that asks Redis, of a limiter of each script, without a policy and with each. The names
// of the limiters begin with prefix.
func boundCalls(t *testing.T, limits *loader.Loader, prefix string) []boundCall {
	t.Helper()
	calls := plainCalls(limits, prefix)
	for _, policy := range policies {
		for _, maker := range makers {
			limiter := maker.make(limits, prefix+policy.name+maker.script, hourly, policy.opts...)
			for _, c := range limiterCalls(limits, limiter) {
				calls = append(calls, c.of(maker.script, policy.name))
			}
			if policy.name == "" {
				calls = append(calls, callOf(maker.script+".Reset", limiter.Reset))
			}
		}
		for _, c := range leasedCalls(t, limits, prefix+"leased"+policy.name, policy.opts) {
			calls = append(calls, c.of("Leased", policy.name))
		}
	}
	return calls
}

// of names a call's limiter and policy.
func (c boundCall) of(limiter, policy string) boundCall {
	c.name, c.policy = limiter+"."+c.name, policy != ""
	if c.policy {
		c.name += " with " + policy
	}
	return c
}

// callOf is a call that returns an error only.
func callOf(name string, ask func(ctx context.Context, subject string) error) boundCall {
	return boundCall{name: name, silent: true, ask: func(ctx context.Context, subject string) outcome {
		return outcome{err: ask(ctx, subject)}
	}}
}

// decisionOf is a call that returns a decision.
func decisionOf(name string, ask func(ctx context.Context, subject string) (loader.Decision, error)) boundCall {
	return boundCall{name: name, ask: func(ctx context.Context, subject string) outcome {
		d, err := ask(ctx, subject)
		return outcome{err, d.Degraded}
	}}
}

// plainCalls are those that no policy answers.
func plainCalls(limits *loader.Loader, prefix string) []boundCall {
	zset := limits.ZSetLog(prefix+"cancel", hourly)
	var booked *loader.Reservation // for 20 s later: until then there is something to cancel
	ahead := limits.ZSetLog(prefix+"ahead", loader.Limit{Permits: 1, Window: 20 * time.Second})
	return []boundCall{
		callOf("Preload", func(ctx context.Context, _ string) error { return limits.Preload(ctx) }),
		callOf("TokenBucket.SetLimit", func(ctx context.Context, subject string) error {
			return limits.TokenBucket(prefix+"set", hourly).SetLimit(ctx, subject, hourly)
		}),
		callOf("ListLog.GiveBack", func(ctx context.Context, subject string) error {
			log := limits.ListLog(prefix+"back", hourly)
			d, err := log.Allow(ctx, subject)
			if err == nil {
				_, err = log.GiveBack(ctx, subject, d, 1)
			}
			return err
		}),
		callOf("All", func(ctx context.Context, subject string) error {
			all := limits.All()
			all.Allow(limits.ListLog(prefix+"each", hourly), subject)
			all.Allow(zset, subject)
			_, err := all.Do(ctx)
			return err
		}),
		callOf("ZSetLog.GiveBack", func(ctx context.Context, subject string) error {
			_, err := zset.GiveBack(ctx, subject, loader.Decision{Granted: true, Permits: 1, ID: "id"}, 1)
			return err
		}),
		callOf("Reservation.Cancel", func(ctx context.Context, subject string) (err error) {
			if booked != nil { // when all was well
				return booked.Cancel(ctx)
			}
			if _, err := ahead.Reserve(ctx, subject); err != nil {
				return err
			}
			booked, err = ahead.Reserve(ctx, subject)
			return err
		}),
		callOf("Batch of all", func(ctx context.Context, subject string) error {
			batch := limits.Batch()
			for _, maker := range makers {
				batch.Allow(maker.make(limits, prefix+"all", hourly), subject)
			}
			_, err := batch.Do(ctx)
			return err
		}),
	}
}

// limiterCalls are those that a policy answers.
func limiterCalls(limits *loader.Loader, limiter loader.Limiter) []boundCall {
	calls := []boundCall{
		decisionOf("Allow", limiter.Allow),
		decisionOf("AllowN", func(ctx context.Context, subject string) (loader.Decision, error) {
			return limiter.AllowN(ctx, subject, 3)
		}),
		decisionOf("Peek", limiter.Peek),
		callOf("Wait", limiter.Wait),
		{name: "Batch", ask: func(ctx context.Context, subject string) outcome {
			batch := limits.Batch()
			batch.Allow(limiter, subject)
			batch.Peek(limiter, subject+"/other")
			results, err := batch.Do(ctx)
			return outcome{err, results[0].Degraded && results[1].Degraded}
		}},
	}
	if reserver, ok := limiter.(loader.Reserver); ok {
		calls = append(calls, decisionOf("Reserve", func(ctx context.Context, subject string) (loader.Decision, error) {
			r, err := reserver.Reserve(ctx, subject)
			if err != nil {
				return loader.Decision{}, err
			}
			return r.Decision(), nil
		}))
	}
	return calls
}

// leasedCalls are those of a ring whose permits are taken in blocks. Close is that of another one.
func leasedCalls(t *testing.T, limits *loader.Loader, name string, policy []loader.LimiterOption) []boundCall {
	t.Helper()
	opts := append([]loader.LimiterOption{loader.Slice(time.Minute), loader.LeaseAge(time.Minute)}, policy...)
	lease := func() *loader.Leased {
		leased, err := limits.SliceRing(name, []loader.Limit{hourly}, opts...).Leased(loader.LeaseOptions{Block: 10})
		must(t, err)
		return leased
	}
	one := lease()
	calls := []boundCall{
		decisionOf("Allow", one.Allow),
		callOf("Wait", one.Wait),
		decisionOf("Peek", one.Peek),
	}
	calls[0].close = one.Close
	if policy != nil {
		return calls
	}
	other, holds := lease(), false
	closing := callOf("Close", func(ctx context.Context, subject string) error {
		if holds { // permits that were taken when all was well
			return other.Close(ctx)
		}
		for range 4 { // the last of them takes more than one
			if _, err := other.Allow(ctx, subject); err != nil {
				return err
			}
		}
		holds = true
		return nil
	})
	closing.offline, closing.close = true, other.Close
	return append(calls, closing)
}
