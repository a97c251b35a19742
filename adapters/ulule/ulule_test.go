package ulule_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/tests"

	"github.com/sluice-redis/sluice/adapters/ulule"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// Apart from what Peek says is Reached, ulule's test of sequential calls holds.
func TestServerSequentialAccess(t *testing.T) {
	store, err := ulule.NewStore(redistest.Start(t).Client(t))
	must(t, err)
	tests.TestStoreSequentialAccess(t, &remembering{Store: store})
}

// remembering knows whether the last call was refused.
type remembering struct {
	limiter.Store
	refused bool
}

func (r *remembering) Get(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	c, err := r.Store.Get(ctx, key, rate)
	r.refused = c.Reached
	return c, err
}

func (r *remembering) Peek(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	c, err := r.Store.Peek(ctx, key, rate)
	c.Reached = c.Reached && r.refused
	return c, err
}

// A refusal is counted nowhere, whatever it asks for; each period has its key; a million is the most of a ListLog.
func TestTimeline(t *testing.T) {
	server, err := embedded.Start()
	must(t, err)
	defer server.Close()
	const epoch = 1_800_000_000
	server.SetTime(time.Unix(epoch, 0))
	store, err := ulule.NewStoreWithOptions(server.Client(), limiter.StoreOptions{Prefix: "my:shop"})
	must(t, err)
	minute, hour := limiter.Rate{Limit: 3, Period: time.Minute}, limiter.Rate{Limit: 3, Period: time.Hour - time.Microsecond}
	ring := limiter.Rate{Limit: 1_000_001, Period: time.Minute}
	for _, c := range []struct {
		rate  limiter.Rate
		count int64
		want  limiter.Context
	}{
		{minute, 4, limiter.Context{Limit: 3, Remaining: 3, Reset: epoch, Reached: true}},
		{minute, 2, limiter.Context{Limit: 3, Remaining: 1, Reset: epoch + 60}},
		{minute, 2, limiter.Context{Limit: 3, Remaining: 1, Reset: epoch + 60, Reached: true}},
		{minute, 0, limiter.Context{Limit: 3, Remaining: 1, Reset: epoch + 60}},
		{minute, 1, limiter.Context{Limit: 3, Remaining: 0, Reset: epoch + 60}},
		{minute, 0, limiter.Context{Limit: 3, Remaining: 0, Reset: epoch + 60, Reached: true}},
		{hour, 1, limiter.Context{Limit: 3, Remaining: 2, Reset: epoch + 3600}},
		{ring, 1_000_001, limiter.Context{Limit: 1_000_001, Remaining: 0, Reset: epoch + 60}},
	} {
		got, err := store.Increment(t.Context(), "ada", c.count, c.rate)
		must(t, err)
		if got != c.want {
			t.Errorf("%d by %v: %+v, want %+v", c.count, c.rate, got, c.want)
		}
	}
	keys := server.Client().Keys(t.Context(), "*").Val()
	slices.Sort(keys)
	if want := []string{
		"sluice:ulule/1h0m0s:{my:shop:ada}:ll1", "sluice:ulule/1m0s:{my:shop:ada}:ll1",
		"sluice:ulule/1m0s:{my:shop:ada}:sr1:300000x201",
	}; !slices.Equal(keys, want) {
		t.Errorf("keys %q, want %q", keys, want)
	}
	if _, err := store.Increment(t.Context(), "ada", 1001, limiter.Rate{Limit: 2000, Period: time.Hour}); err == nil {
		t.Error("1001 of 2000 in one call: no error")
	}
	if _, err := ulule.NewStore(server.Client(), loader.Prefix(":")); err == nil {
		t.Error("a wrong prefix: no error")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
