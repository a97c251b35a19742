package loader_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// A sign-in form should stay open when Redis is down. A mailer keeps to a part of its limit by itself, and what nobody
// may have too much of stays shut.
func ExampleFailOpen() {
	addr, stop := server()
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	limits := loader.New(rdb, loader.Timeout(time.Second), loader.Breaker(1, time.Minute))
	signIn := limits.GCRA("sign-in", loader.PerMinute(10), loader.FailOpen())
	mails := limits.ListLog("mails", loader.PerHour(4), loader.FailLocal(0.25))
	payments := limits.ListLog("payments", loader.PerMinute(10))

	ask := func(limiter loader.Limiter) {
		d, err := limiter.Allow(ctx, "ada")
		fmt.Println(d.Granted, d.Degraded, err != nil)
	}
	ask(signIn)
	stop() // Redis is gone
	ask(signIn)
	ask(mails)
	ask(mails)
	ask(payments)
	// Output:
	// true false false
	// true true false
	// true true false
	// false true false
	// false false true
}

// If Redis has answered nobody for 50 ms, and two calls have failed, it is asked once a minute.
func ExampleBreaker() {
	addr, stop := server()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}),
		loader.Timeout(50*time.Millisecond), loader.Breaker(2, time.Minute))
	stop()

	var err error
	for range 5 {
		_, err = limits.ListLog("send-code", loader.PerMinute(3)).Allow(context.Background(), "ada")
	}
	fmt.Println(errors.Is(err, loader.ErrBreakerOpen))
	// Output: true
}
