package loader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// server is a Redis for the examples, whose clock stands still.
func server() (addr string, close func()) {
	m, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	m.SetTime(second0)
	return m.Addr(), m.Close
}

func Example() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()

	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{addr}})
	limits := loader.New(rdb)
	codes := limits.ListLog("send-code", loader.Limit{Permits: 3, Window: time.Minute})

	for range 4 {
		d, err := codes.Allow(ctx, "ada@example.com")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.Granted, d.Remaining, d.Wait)
	}
	// Output:
	// true 2 0s
	// true 1 0s
	// true 0 0s
	// false 0 1m0s
}

// An ID that the request brings along makes it safe to repeat, by anyone.
func ExampleZSetLog_WithID() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	orders := limits.ZSetLog("orders", loader.PerHour(2))

	for _, id := range []string{"order-17", "order-17", "order-18", "order-17", "order-19"} {
		d, err := orders.WithID(id).Allow(ctx, "ada")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, d.Granted, d.Remaining)
	}
	// Output:
	// order-17 true 1
	// order-17 true 1
	// order-18 true 0
	// order-17 true 0
	// order-19 false 0
}

// A request reserves what it may cost at most, and settles what it did cost. Too low an estimate leaves a debt.
func ExampleLoader_Budget() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	tokens := limits.Budget("tokens", []loader.Limit{loader.PerMinute(1000), loader.PerDay(20000)})

	for _, request := range []struct {
		id             string
		estimate, cost int64
	}{{"a", 800, 100}, {"b", 800, 1100}, {"c", 800, 800}} {
		d, err := tokens.Reserve(ctx, "acme", request.id, request.estimate)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(request.id, d.Granted, d.Remaining, d.RetryAfterSeconds())
		if !d.Granted {
			continue
		}
		if err := tokens.Settle(ctx, "acme", request.id, request.cost); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// a true 200 0
	// b true 100 0
	// c false 0 61
}

// With is for limits that differ from user to user and from day to day.
func ExampleGCRA_With() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	api := limits.GCRA("api", loader.PerSecond(1))
	plans := map[string]loader.Limit{
		"free": {},
		"pro":  {Permits: 100, Window: time.Minute, Burst: 20},
	}
	for _, plan := range []string{"free", "pro"} {
		d, err := api.With(plans[plan]).AllowN(ctx, "ada", 15)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan, d.Granted, d.Remaining)
	}
	// Output:
	// free false 0
	// pro true 5
}

// A SliceRing holds several windows together, or charges none.
func ExampleLoader_SliceRing() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	calls := limits.SliceRing("calls", []loader.Limit{loader.PerMinute(1000), loader.PerHour(10000)})

	d, err := calls.AllowN(ctx, "acme", 1000)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Granted, d.Remaining)
	d, err = calls.Allow(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Granted, d.Wait)
	// Output:
	// true 0
	// false 1m0.3s
}

// What callers branch on has a type or a value.
func Example_errors() {
	addr, stop := server()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	mails := limits.ListLog("mails", loader.PerDay(1))

	_, err := mails.AllowN(ctx, "ada", 2)
	fmt.Println(errors.Is(err, loader.ErrExceedsLimit), err)

	fmt.Println(mails.Wait(ctx, "ada"))
	if late, ok := errors.AsType[*loader.WaitError](mails.Wait(ctx, "ada")); ok {
		fmt.Println("would take", late.Wait)
	}
	// Output:
	// true loader: mails: Allow(n=2) exceeds limit 1
	// <nil>
	// would take 24h0m0s
}

// A Batch asks several limiters in one round trip. Each answers for itself: what one denies is charged to
// the others all the same.
func ExampleLoader_Batch() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	perUser := limits.ListLog("send-code", loader.PerMinute(3))
	perAddress := limits.GCRA("send-code-ip", loader.PerHour(100))

	batch := limits.Batch()
	user := batch.AllowN(perUser, "ada@example.com", 2)
	address := batch.Allow(perAddress, "192.0.2.7")
	again := batch.AllowN(perUser, "ada@example.com", 2)
	look := batch.Peek(perUser, "bob@example.com")
	if _, err := batch.Do(ctx); err != nil {
		log.Fatal(err) // at least one has no decision: see each one's Err
	}
	fmt.Println(user.Granted, user.Remaining)
	fmt.Println(address.Granted, address.Remaining)
	fmt.Println(again.Granted, again.Wait)
	fmt.Println(look.Remaining)
	// Output:
	// true 1
	// true 99
	// false 1m0s
	// 3
}

// An address, an account and the whole service: a refusal charges none of them.
func ExampleLoader_All() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	perAddress := limits.ListLog("login-ip", loader.PerHour(100))
	perAccount := limits.ListLog("login", loader.PerMinute(1))
	service := limits.SliceRing("login-all", []loader.Limit{loader.PerSecond(5000)})

	for range 2 {
		all := limits.All()
		all.Allow(perAddress, "192.0.2.7")
		all.Allow(perAccount, "ada@example.com")
		all.Allow(service, "login")
		d, err := all.Do(ctx)
		switch {
		case err != nil:
			log.Fatal(err)
		case !d.Granted:
			fmt.Println("refused by", d.Denied[0].Limiter, "for", d.Wait)
		}
	}
	if err := limits.Flush(ctx); err != nil { // what the address and the service granted is given back
		log.Fatal(err)
	}
	d, err := perAddress.Peek(ctx, "192.0.2.7")
	fmt.Println(d.Remaining, err)
	// Output:
	// refused by login for 1m0s
	// 99 <nil>
}

// Charge only what failed: a login that succeeds gives its permit back.
func ExampleListLog_GiveBack() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	failures := limits.ListLog("login-failures", loader.PerMinute(3))

	d, err := failures.Allow(ctx, "ada@example.com")
	if err != nil || !d.Granted {
		log.Fatal("too many attempts", err)
	}
	rightPassword := true
	if rightPassword {
		ctx := context.WithoutCancel(ctx) // also if the customer has left
		returned, err := failures.GiveBack(ctx, "ada@example.com", d, 1)
		fmt.Println(returned, err)
	}
	// Output: 1 <nil>
}

// Goroutines whose decisions are in flight together share their round trips.
func ExampleNew_sharing() {
	addr, stop := server()
	defer stop()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	api := limits.GCRA("api", loader.PerMinute(40))

	var granted atomic.Int64
	var requests sync.WaitGroup
	for range 64 {
		requests.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if d, err := api.Allow(ctx, "acme"); err == nil && d.Granted {
				granted.Add(1)
			}
		})
	}
	requests.Wait()
	fmt.Println(granted.Load())
	// Output: 40
}

// A program that calls functions where the server has them, and scripts on a server before Redis 7.0, as this one is.
// Where the functions are not loaded the error is ErrNotLoaded: run `sluice load --functions` first.
func ExampleFunctions() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()

	rdb := redis.NewClient(&redis.Options{Addr: addr})
	limits := loader.New(rdb, loader.Functions())
	_, err := limits.ListLog("send-code", loader.PerMinute(3)).Peek(ctx, "any")
	if errors.Is(err, errors.ErrUnsupported) {
		limits = loader.New(rdb)
	}

	d, err := limits.ListLog("send-code", loader.PerMinute(3)).Allow(ctx, "ada@example.com")
	fmt.Println(d.Granted, err)
	// Output: true <nil>
}

// A handler says when to come back.
func ExampleDecision_RetryAfterSeconds() {
	addr, stop := server()
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	calls := loader.New(rdb).ListLog("calls", loader.PerMinute(1))

	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d, err := calls.Allow(r.Context(), "ada")
		switch {
		case err != nil:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case !d.Granted:
			w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfterSeconds(), 10))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
		}
	})
	for range 2 {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %q\n", answer.Code, answer.Header().Get("Retry-After"))
	}
	// Output:
	// 200 ""
	// 429 "60"
}

// At most two pages are rendered at once, in all processes together.
func ExampleLoader_Concurrency() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}))
	render := limits.Concurrency("render", 2, 30*time.Second)

	first, err := render.Acquire(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	second, err := render.Acquire(ctx, "acme")
	if err != nil {
		log.Fatal(err)
	}
	defer second.Release()

	third, d, err := render.TryAcquire(ctx, "acme") // Acquire would wait
	fmt.Println(third != nil, d.Wait, err)

	if err := first.Release(); err != nil {
		log.Fatal(err)
	}
	d, err = render.Peek(ctx, "acme")
	fmt.Println(d.Remaining, err)
	// Output:
	// false 30s <nil>
	// 1 <nil>
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
