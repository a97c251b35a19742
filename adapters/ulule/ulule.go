// Package ulule is a store for github.com/ulule/limiter/v3, on Sluice. Use it to move a service by changing the import
// of its store; its limiters and middleware stay:
//
//	import sredis "github.com/sluice-redis/sluice/adapters/ulule"
//
//	store, err := sredis.NewStore(rdb)
//	instance := limiter.New(store, rate)
//
// It decides by a [loader.ListLog], above 10^6 permits by a [loader.SliceRing]. What is different:
//
//   - The limit holds in any period, not only between two edges. The slices of a SliceRing let a permit count for up to
//     half a per cent longer.
//   - Keys are new, so every limit begins full. Each period has its own: limiters of one store do not add to each
//     other's counts, unless their periods are alike.
//   - A refused call is not counted, whatever it asked for.
//   - Peek says Reached as soon as nothing is left; in ulule's own store only after a call was refused.
//   - Context.Reset is when the whole limit is free again. All of its permits may come back one by one before.
//   - A decision is never sent twice, and ends within 1 s: see the errors of package loader.
//   - A call to Increment takes up to 1000 at limits up to 10^6.
package ulule

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"

	"github.com/sluice-redis/sluice/loader"
)

// Store is a limiter.Store. NewStore makes it. It is safe for concurrent use.
type Store struct {
	limits *loader.Loader
	prefix string
}

// NewStore returns a store on a redis.Client, ClusterClient or Ring, or what wraps one. The options are those of
// loader.New; if one is wrong, it is an *loader.ArgumentError. Cost: nothing is sent.
func NewStore(rdb redis.UniversalClient, opts ...loader.Option) (limiter.Store, error) {
	return NewStoreWithOptions(rdb, limiter.StoreOptions{Prefix: limiter.DefaultPrefix}, opts...)
}

// NewStoreWithOptions is NewStore with another prefix of keys. The other fields of the options have no effect.
func NewStoreWithOptions(
	rdb redis.UniversalClient, options limiter.StoreOptions, opts ...loader.Option,
) (limiter.Store, error) {
	s := &Store{loader.New(rdb, opts...), options.Prefix}
	if err := s.of(limiter.Rate{Limit: 1, Period: time.Second}).Check(); err != nil {
		return nil, err
	}
	return s, nil
}

// Get takes one permit of the key. Cost: one round trip.
func (s *Store) Get(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	return s.Increment(ctx, key, 1, rate)
}

// Increment takes count permits of the key, all or none; 0 only looks. Cost: one round trip.
func (s *Store) Increment(ctx context.Context, key string, count int64, rate limiter.Rate) (limiter.Context, error) {
	if count == 0 {
		return s.Peek(ctx, key, rate)
	}
	d, err := s.of(rate).AllowN(ctx, s.subject(key), count)
	if errors.Is(err, loader.ErrExceedsLimit) && count > rate.Limit { // refused, as in ulule's own store
		d, err = s.of(rate).Peek(ctx, s.subject(key))
	}
	return contextOf(rate, d, !d.Granted, err)
}

// Peek says what could be taken now: Reached if nothing is left. Cost: one round trip.
func (s *Store) Peek(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	d, err := s.of(rate).Peek(ctx, s.subject(key))
	return contextOf(rate, d, d.Remaining == 0, err)
}

// Reset gives the key its whole limit back. Cost: one round trip.
func (s *Store) Reset(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	err := s.of(rate).Reset(ctx, s.subject(key))
	return contextOf(rate, loader.Decision{Remaining: rate.Limit}, false, err)
}

// of returns the limiter of a rate. A shorter window would remove what a longer one has to count: each has its keys.
func (s *Store) of(rate limiter.Rate) loader.Limiter {
	const maxListLog = 1_000_000
	window := (rate.Period + time.Millisecond - 1).Truncate(time.Millisecond)
	name, limit := "ulule/"+window.String(), loader.Limit{Permits: rate.Limit, Window: window}
	if rate.Limit > maxListLog {
		return s.limits.SliceRing(name, []loader.Limit{limit})
	}
	return s.limits.ListLog(name, limit)
}

func (s *Store) subject(key string) string { return s.prefix + ":" + key }

// contextOf returns the state in a decision. Without a server's clock it is that of this process.
func contextOf(rate limiter.Rate, d loader.Decision, reached bool, err error) (limiter.Context, error) {
	if err != nil {
		return limiter.Context{}, err
	}
	if d.Now.IsZero() {
		d.Now = time.Now()
	}
	return limiter.Context{
		Limit: rate.Limit, Remaining: d.Remaining, Reset: d.Now.Add(d.ResetAfter).Unix(), Reached: reached,
	}, nil
}
