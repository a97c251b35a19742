package loader_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

// An ObserverFunc is enough for counting; what needs the beginning too, as traces do, is an Observer.
func ExampleObserve() {
	addr, stop := server()
	defer stop()
	ctx := context.Background()
	count := func(_ context.Context, e loader.Event) {
		fmt.Println(e.Method, e.Limiter, e.Permits, e.Decision.Granted, e.Err)
	}
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}), loader.Observe(loader.ObserverFunc(count)))
	mails := limits.ListLog("mails", loader.PerDay(2))

	for _, n := range []int64{2, 1, 3} {
		_, _ = mails.AllowN(ctx, "ada", n)
	}
	// Output:
	// Allow mails 2 true <nil>
	// Allow mails 1 false <nil>
	// Allow mails 3 false loader: mails: Allow(n=3) exceeds limit 2
}

// Scripts load themselves. The log says when and where.
func ExampleLogger() {
	addr, stop := server()
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutPlace}))
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}), loader.Logger(logger))
	if _, err := limits.GCRA("api", loader.PerSecond(10)).Allow(context.Background(), "ada"); err != nil {
		log.Fatal(err)
	}
	// Output:
	// level=INFO msg="script loaded" script=gcra_v1
}

// withoutPlace leaves out what differs from run to run.
func withoutPlace(_ []string, a slog.Attr) slog.Attr {
	switch a.Key {
	case slog.TimeKey, "node", "sha1":
		return slog.Attr{}
	}
	return a
}
