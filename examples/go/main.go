// Command go is an HTTP server whose handler may be called 10 times a minute by each address. It
// answers 429 with a JSON body and a Retry-After header beyond that, and 503 when Redis cannot tell.
//
//	go run ./examples/go -redis redis://localhost:6379 -listen localhost:8080
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"log"
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
	limits := loader.New(redis.NewClient(options))
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", listener.Addr())
	log.Fatal(http.Serve(listener, limited(limits.ListLog("hello", loader.PerMinute(10)), hello)))
}

// limited lets each remote address through as often as limiter allows.
func limited(limiter loader.Limiter, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			refuse(w, http.StatusBadRequest, "no remote address", nil)
			return
		}
		d, err := limiter.Allow(r.Context(), address)
		if err != nil {
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
