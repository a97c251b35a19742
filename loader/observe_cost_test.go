package loader

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// answering is a client that answers every decision at once, without a server.
func answering(tb testing.TB) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: "nowhere:0"})
	tb.Cleanup(func() { _ = rdb.Close() })
	rdb.AddHook(answers{granted: []int64{1, 0, 0, 0, 5}})
	return rdb
}

type answers struct{ granted []int64 }

func (a answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(*wire.Command).SetVal(a.granted)
		return nil
	}
}

func (a answers) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// idle is an observer that does nothing.
var idle = ObserverFunc(func(context.Context, Event) {})

// ways are the ways to a decision: with what they are when there are no observers, and as callers have them.
var ways = []struct {
	name        string
	bare, whole func(l *Loader) error
}{
	{"Allow", func(l *Loader) error {
		c := l.GCRA("x", PerSecond(1)).core
		r := c.request("s", question{method: "Allow", permits: 1, id: c.callID()})
		_, err := r.do(context.Background())
		return err
	}, func(l *Loader) error {
		_, err := l.GCRA("x", PerSecond(1)).Allow(context.Background(), "s")
		return err
	}},
	{"Wait", func(l *Loader) error {
		c := l.GCRA("x", PerSecond(1)).core
		return c.waiter(context.Background(), "s", 1, nil, func(ctx context.Context, q question) (Decision, error) {
			r := c.request("s", q)
			return r.do(ctx)
		}).run(context.Background())
	}, func(l *Loader) error {
		return l.GCRA("x", PerSecond(1)).WaitN(context.Background(), "s", 1)
	}},
}

// TestObserverCost wants no allocation for an observer that is not there, and one a decision for one that is.
func TestObserverCost(t *testing.T) {
	rdb := answering(t)
	unobserved, observed := New(rdb), New(rdb, Observe(idle))
	for _, way := range ways {
		allocations := func(decide func(*Loader) error, l *Loader) float64 {
			return FewestAllocations(func() {
				if err := decide(l); err != nil {
					t.Error(err)
				}
			})
		}
		bare := allocations(way.bare, unobserved)
		if got := allocations(way.whole, unobserved); got != bare {
			t.Errorf("%s: %v allocations without an observer, want %v", way.name, got, bare)
		}
		if got := allocations(way.whole, observed); got != bare+1 {
			t.Errorf("%s: %v allocations with an observer, want %v", way.name, got, bare+1)
		}
	}
}
