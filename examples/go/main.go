// Command go is an HTTP server whose handler may be called 10 times a minute by each address. Beyond that it answers
// 429 with a JSON body and a Retry-After header, and 503 when Redis cannot tell.
//
//	go run ./examples/go -redis redis://localhost:6379 -listen localhost:8080
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/loader"
)

func main() {
	url := flag.String("redis", "redis://localhost:6379", "the Redis to share the limit through")
	listen := flag.String("listen", "localhost:8080", "the address to serve on")
	flag.Parse()

	options, err := redis.ParseURL(*url)
	if err != nil {
		log.Fatalf("-redis: %v", err)
	}
	limiter := newLimiter(options)
	if err := limiter.Check(); err != nil { // wrong limits are found here, not by the first customer
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", listener.Addr())
	server := &http.Server{Handler: limited(limiter, hello), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	log.Fatal(server.Serve(listener))
}

// newLimiter has no policy for when Redis is down: the handler then answers 503. FailOpen or FailLocal would answer.
func newLimiter(options *redis.Options) loader.Limiter {
	options.DialerRetries = 1 // a refused connection is an error after 0.15 s, not after 1 s
	limits := loader.New(redis.NewClient(options),
		loader.Timeout(250*time.Millisecond),
		loader.Breaker(5, time.Second),
		loader.Logger(slog.Default()))
	return limits.ListLog("hello", loader.PerMinute(10))
}

// limited lets each remote address through as often as limiter allows. Behind a proxy the remote address is the
// proxy's: take the client's from the header that your proxy sets, and from no other.
func limited(limiter loader.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			refuse(w, http.StatusBadRequest, "no remote address", nil)
			return
		}
		d, err := limiter.Allow(r.Context(), address)
		if err != nil {
			slog.Warn("limit not checked", "error", err)
			refuse(w, http.StatusServiceUnavailable, "the limit cannot be checked now", nil)
			return
		}
		w.Header().Set("X-RateLimit-Remaining", strconv.FormatInt(d.Remaining, 10))
		if !d.Granted {
			w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfter(), 10))
			refuse(w, http.StatusTooManyRequests, "too many requests",
				map[string]string{"retry_after": d.Wait.Round(time.Millisecond).String()})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func refuse(w http.ResponseWriter, code int, message string, data any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data"`
	}{code, message, data})
}
