package main

import (
	"context"
	"net/http"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-redisstore"
)

// goLimiterCalls has a file of its own, because go-limiter has a package httplimit too.
func goLimiterCalls(ctx context.Context, dial func() (redigo.Conn, error), key string, interval time.Duration,
	h http.Handler) {
	store, err := redisstore.New(&redisstore.Config{Tokens: 15, Interval: time.Minute, Dial: dial})
	use(err)
	{
		tokens, remaining, reset, ok, err := store.Take(ctx, key)
		use(tokens, remaining, reset, ok, err)
	}
	tokens, remaining, err := store.Get(ctx, key)
	use(remaining, err)
	use(store.Set(ctx, key, tokens, interval), store.Burst(ctx, key, tokens), store.Close(ctx))
	m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	use(m.Handle(h), err, httplimit.IPKeyFunc("X-Forwarded-For"))
}
