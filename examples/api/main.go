// Command api is an HTTP API with a limit for each customer's plan, and limits on failed logins.
package main

import (
	"errors"
	"flag"
	"log"
	"net"
	"net/http"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

type customer struct{ name, plan string }

// customers by API key.
var customers = map[string]customer{"key-1": {"ada", "free"}, "key-2": {"bob", "pro"}}

func customerOf(r *http.Request) customer { return customers[r.Header.Get("X-Api-Key")] }

func main() {
	addr := flag.String("redis", "localhost:6379", "the address of Redis")
	listen := flag.String("listen", "localhost:8080", "the address to serve on")
	flag.Parse()
	limits := loader.New(redis.NewClient(&redis.Options{Addr: *addr, DialerRetries: 1}))
	plans := map[string]loader.Limiter{
		"free": limits.SliceRing("api-free", []loader.Limit{loader.PerMinute(60)}),
		"pro":  limits.SliceRing("api-pro", []loader.Limit{loader.PerSecond(100), loader.PerHour(50_000)}),
	}
	api := httplimit.New(plans["free"], httplimit.KeyBy(func(r *http.Request) string { return customerOf(r).name }),
		httplimit.LimiterBy(func(r *http.Request) loader.Limiter { return plans[customerOf(r).plan] }))
	logins := httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: limits.ListLog("login-address", loader.PerMinute(20)), Key: httplimit.KeyByIP()},
		{Limiter: limits.ListLog("login-account", loader.PerMinute(5)), Key: httplimit.KeyByUser()},
	}, httplimit.CountIf(func(status int) bool { return status == http.StatusUnauthorized }))

	http.Handle("GET /hello", api.Handler(http.HandlerFunc(hello)))
	http.Handle("POST /login", logins.Handler(http.HandlerFunc(login)))
	listener, err := net.Listen("tcp", *listen)
	if err := errors.Join(err, api.Check(), plans["pro"].Check(), logins.Check()); err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}

func hello(w http.ResponseWriter, r *http.Request) {
	if customerOf(r).name == "" { // such requests are not limited
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func login(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); password != "secret" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}
