package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ulule/limiter/v3"

	redis_rate "github.com/sluice-redis/sluice/adapters/redisrate"
	"github.com/sluice-redis/sluice/adapters/ulule"
)

// Adapters are ours in the place of a library, beside that library.
type Adapters struct {
	Date   string    `json:"date"`
	Server string    `json:"server"`
	CPU    string    `json:"cpu"`
	Rounds int       `json:"rounds"`
	Rows   []Adapter `json:"rows"`
}

// An Adapter has the cost of its decisions to the library's in the same round, and the audits of both.
type Adapter struct {
	Library string  `json:"library"`
	Limit   int64   `json:"limit"` // of what is granted
	Granted Cost    `json:"granted"`
	Denied  Cost    `json:"denied"`
	Crowd   *Cost   `json:"crowd,omitempty"` // from 64 goroutines, about many subjects; nil: another language
	Audits  []Audit `json:"audits"`          // the library's, ours
}

// A pair is an Adapter while it is measured: the library, then ours.
type pair struct {
	runs                   [2]*peerRun
	limit, full            int64 // of grants, of denials
	inGo                   bool
	granted, denied, crowd []sample
}

// pairs returns what is compared. The caller must call stop.
func (b *bench) pairs() (pairs []*pair, stop func(), err error) {
	var started []*foreignRun
	python := func(name string) *peerRun {
		run := &foreignRun{foreign: foreign{language: "Python", name: name}, drivers: map[int64]*driver{}}
		started = append(started, run)
		return &peerRun{peer: peer{name: name, make: run.ask}}
	}
	inGo := func(p peer) *peerRun { return &peerRun{peer: p} }
	pairs = []*pair{
		{limit: peerLimit, full: fullLimit, inGo: true, runs: [2]*peerRun{
			inGo(peer{name: "redis_rate", make: newRedisRate}), inGo(peer{name: "ours for redis_rate", make: oursForRedisRate})}},
		{limit: peerLimit, full: fullLimit, inGo: true, runs: [2]*peerRun{
			inGo(peer{name: "ulule/limiter", make: newUlule}), inGo(peer{name: "ours for ulule", make: oursForUlule})}},
		{limit: peerLimit, full: fullLimit, runs: [2]*peerRun{python("limits"), python("sluice_redis.limits")}},
		{limit: busyLimit, full: peerLimit + 1, runs: [2]*peerRun{python("limits"), python("sluice_redis.limits")}},
	}
	return pairs, func() {
		for _, run := range started {
			run.stop()
		}
	}, toolchains["Python"].prepare()
}

func oursForRedisRate(on *server, limit int64, window time.Duration) (decider, error) {
	l := redis_rate.NewLimiter(on.Client)
	rate := redis_rate.Limit{Rate: int(limit), Burst: int(limit), Period: window}
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Allow(ctx, subject, rate)
		return err == nil && result.Allowed > 0, err
	}, nil
}

func oursForUlule(on *server, limit int64, window time.Duration) (decider, error) {
	store, err := ulule.NewStore(on.Client)
	l := limiter.New(store, limiter.Rate{Period: window, Limit: limit})
	return func(ctx context.Context, subject string) (bool, error) {
		result, err := l.Get(ctx, subject)
		return !result.Reached, err
	}, err
}

// adapters measures every pair once a round. In every other round ours goes first.
func (b *bench) adapters(ctx context.Context) (*Adapters, error) {
	server, err := b.server.version(ctx)
	if err != nil {
		return nil, err
	}
	r := &Adapters{time.Now().UTC().Format(time.DateOnly), server, cpu(), b.rounds, nil}
	pairs, stop, err := b.pairs()
	defer stop()
	for round := 0; round < b.rounds && err == nil; round++ {
		b.progress("adapters: round %d of %d", round+1, b.rounds)
		for i := 0; i < len(pairs) && err == nil; i++ {
			err = pairs[i].measure(ctx, b, round)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, p := range pairs {
		row := Adapter{p.runs[0].name, p.limit, costOf(p.granted), costOf(p.denied), nil, nil}
		if p.inGo {
			crowd := costOf(p.crowd)
			row.Crowd = &crowd
			for _, run := range p.runs {
				audits, err := run.audit(ctx, b.server, b.windows[:1])
				if err != nil {
					return nil, err
				}
				row.Audits = append(row.Audits, audits...)
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return r, b.server.FlushAll(ctx).Err()
}

// measure is one round.
func (p *pair) measure(ctx context.Context, b *bench, round int) error {
	var granted, denied, busy [2]sample
	for k := range p.runs {
		i := (k + round) % 2
		run, subject := p.runs[i], fmt.Sprint(p.limit, " ", round)
		var err1, err2, err3 error
		granted[i], err1 = run.decide(ctx, b, p.limit, "granted "+subject, 0, 2*b.calls, true)
		denied[i], err2 = run.decide(ctx, b, p.full, "denied "+subject, int(p.full), 2*b.calls, false)
		if p.inGo {
			busy[i], err3 = run.busy(ctx, b, crowd)
		}
		if err := errors.Join(err1, err2, err3); err != nil {
			return fmt.Errorf("%s: %w", run.name, err)
		}
	}
	p.granted = append(p.granted, granted[1].over(granted[0]))
	p.denied = append(p.denied, denied[1].over(denied[0]))
	p.crowd = append(p.crowd, busy[1].over(busy[0]))
	return nil
}
