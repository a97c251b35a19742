package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// Plan looks a subject's limit up in every call.
func ExampleListLog_Plan() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	plans := map[string]loader.Limit{"ada": loader.PerDay(1000), "bob": {}}
	exports := limits.ListLog("exports", loader.Limit{}).Plan(
		func(ctx context.Context, subject string) (loader.Limit, error) {
			limit, ok := plans[subject]
			if !ok {
				return loader.Limit{}, errors.New("not a customer")
			}
			return limit, nil
		})

	for _, subject := range []string{"ada", "bob", "eve"} {
		d, err := exports.Allow(ctx, subject)
		fmt.Println(subject, d.Granted, d.Remaining, err)
	}
	// Output:
	// ada true 999 <nil>
	// bob false 0 <nil>
	// eve false 0 loader: looking up the limit: not a customer
}

// SetLimit changes the limit of a TokenBucket for every process at once, and forgets nothing.
func ExampleTokenBucket_SetLimit() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	calls := limits.TokenBucket("calls", loader.PerMinute(10))

	for _, n := range []int64{8, 20, 4} {
		if err := calls.SetLimit(ctx, "acme", loader.PerMinute(n)); err != nil {
			log.Fatal(err)
		}
		d, err := calls.AllowN(ctx, "acme", 3)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Granted, d.Remaining)
	}
	// Output:
	// true 5
	// true 14
	// false 0
}
