package loader_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// A process takes permits in blocks that double while they are used up, spends them without asking Redis, and
// gives back what it has not used.
func ExampleSliceRing_Leased() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))

	calls := limits.SliceRing("calls", []loader.Limit{loader.PerMinute(1000)}, loader.LeaseAge(10*time.Second))
	leased, err := calls.Leased(loader.LeaseOptions{Block: 500})
	if err != nil {
		log.Fatal(err)
	}
	for range 100 {
		if d, err := leased.Allow(ctx, "acme"); err != nil || !d.Granted {
			log.Fatal(d, err)
		}
	}
	fmt.Println("idle:", leased.Stats().Held)
	if err := leased.Close(ctx); err != nil {
		log.Fatal(err)
	}
	d, err := calls.Peek(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("used:", 1000-d.Remaining)
	// Output:
	// idle: 27
	// used: 100
}

// A caller who asks again and again is refused without a call, until the permits come free.
func ExampleRememberDenials() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	codes := limits.ListLog("send-code", loader.PerMinute(2), loader.RememberDenials(10_000))

	granted := 0
	for range 1000 {
		d, err := codes.Allow(ctx, "ada@example.com")
		if err != nil {
			log.Fatal(err)
		}
		if d.Granted {
			granted++
		}
	}
	fmt.Println("granted:", granted) // by three calls
	// Output:
	// granted: 2
}
