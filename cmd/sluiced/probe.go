package main

import (
	"context"
	"strconv"
	"time"

	"github.com/sluice-redis/sluice/internal/dial"
	"github.com/sluice-redis/sluice/loader"
)

// What Redis decides is tried once a second, for half a second: so within 2 s it is known whether it does.
const (
	probePeriod  = time.Second
	probeTimeout = 500 * time.Millisecond
	probeKeys    = 4 // subjects: in a cluster some of them are on other nodes
)

// probe finds out whether Redis decides, until the context ends. The first time it loads the scripts, if it may.
func (s *server) probe(ctx context.Context) {
	limits := loader.New(s.rdb, loader.Prefix(s.prefix), loader.Timeout(probeTimeout), loader.WithoutBreaker())
	limiter := limits.GCRA("sluiced-probe", loader.PerSecond(1_000_000))
	var down time.Time // since when it does not decide
	logged, loaded := map[string]bool{}, false
	for {
		err := try(ctx, limits, limiter)
		if err == nil && !loaded {
			if err := s.limits.loader.Preload(ctx); err != nil {
				s.log.Warn("scripts are not loaded: run sluice load after each restart of Redis", "error", err)
			}
			loaded = true
		}
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !logged[dial.Cure(err)]: // in each outage once: after a restart the cause may be another one
			if down.IsZero() {
				down = time.Now()
			}
			s.log.Error("Redis does not decide", "error", err, "cure", dial.Cure(err))
			logged[dial.Cure(err)] = true
		case err == nil && !down.IsZero():
			s.log.Info("Redis decides again", "seconds", time.Since(down).Seconds())
			down = time.Time{}
			clear(logged)
		}
		s.metrics.probed(down)
		ready := err == nil || loaded && s.limits.survives()
		if ready && !s.ready.Load() {
			s.log.Info("ready")
		}
		if s.ready.Store(ready); !s.ending.Load() {
			s.setHealth(ready)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(probePeriod):
		}
	}
}

// try returns nil if Redis charges a permit of one of the subjects, as it does for callers.
func try(ctx context.Context, limits *loader.Loader, limiter loader.Limiter) (err error) {
	batch := limits.Batch()
	for i := range probeKeys {
		batch.Allow(limiter, strconv.Itoa(i))
	}
	results, _ := batch.Do(ctx)
	for _, r := range results {
		if err = r.Err; err == nil {
			return nil
		}
	}
	return err
}
