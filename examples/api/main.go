// Command api is an HTTP API with limits, as one would run it: by plan for each customer, on strangers and on wrong
// passwords. It answers within a tenth of a second whatever Redis does, and loses nothing when it stops.
//
//	go run ./examples/api -redis redis://localhost:6379 -listen localhost:8080
package main

import (
	"context"
	"errors"
	"expvar"
	"flag"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

var (
	url       = flag.String("redis", "redis://localhost:6379", "the Redis to share the limits through")
	listen    = flag.String("listen", "localhost:8080", "the address to serve on")
	proxies   = flag.String("proxies", "", "networks of proxies that write X-Forwarded-For, by comma: 10.0.0.0/8,::1")
	processes = flag.Int("processes", 0, "without Redis each of so many processes keeps to its share; 0: status 503")
)

// The customers by API key. A real API has them in its database.
var customers = map[string]customer{"key-1": {"ada", "free"}, "key-2": {"bob", "pro"}, "key-3": {"eve", "trial"}}

type customer struct{ name, plan string }

func customerOf(r *http.Request) customer { return customers[r.Header.Get("X-Api-Key")] }

// All plans share one name in Redis, so a customer who changes plans keeps what was granted.
var plans = map[string]loader.Limit{"free": loader.PerMinute(60), "pro": loader.PerSecond(100)}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	options, err := redis.ParseURL(*url)
	if err != nil {
		return err
	}
	logging.Disable()                    // go-redis's own lines, one for each dial that fails
	options.DialerRetries = 1            // a refused connection is an error at once
	options.ContextTimeoutEnabled = true // the client itself keeps deadlines
	rdb := redis.NewClient(options)
	defer rdb.Close()
	limits := loader.New(rdb,
		loader.Timeout(100*time.Millisecond), // of each decision
		loader.Logger(slog.Default()))        // a line when Redis fails and when it is back, not one for each request
	handler, err := newHandler(limits)
	if err != nil {
		return err // a wrong limit or option is found at start
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s", listener.Addr())
	return serve(listener, handler, limits)
}

// serve serves until it is told to stop. Then it answers the requests that have begun, and gives back what they left.
func serve(listener net.Listener, handler http.Handler, limits *loader.Loader) error {
	stopped, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-stopped.Done():
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(server.Shutdown(ctx), limits.Flush(ctx))
}

func newHandler(limits *loader.Loader) (http.Handler, error) {
	address := httplimit.KeyByIP()
	if *proxies != "" {
		address = httplimit.KeyByIP(httplimit.TrustXForwardedFor(strings.Split(*proxies, ",")...))
	}
	observe := httplimit.Observe(count)
	var degraded []loader.LimiterOption
	if *processes > 0 {
		degraded = append(degraded, loader.FailLocal(1/float64(*processes)))
	}

	// Calls without a customer's key, by address.
	strangers := httplimit.New(limits.ListLog("no-key", loader.PerMinute(20)), address, observe)

	// Calls, by customer and plan. A plan that is not known gets 503, and the observer is told.
	calls := limits.ListLog("api", plans["free"], degraded...)
	api := httplimit.New(calls, httplimit.KeyBy(func(r *http.Request) string { return customerOf(r).name }),
		httplimit.LimiterBy(func(r *http.Request) loader.Limiter {
			if limit, known := plans[customerOf(r).plan]; known {
				return calls.With(limit)
			}
			return nil
		}), observe, httplimit.RetryJitter(time.Second))

	// Wrong passwords, by address and by account. Without Redis nobody logs in: 503.
	logins := httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: limits.ListLog("login-address", loader.PerMinute(20)), Key: address},
		{Limiter: limits.ListLog("login-account", loader.PerMinute(5)), Key: httplimit.KeyByUser()},
	}, httplimit.CountIf(func(status int) bool { return status == http.StatusUnauthorized }), observe)

	mux := http.NewServeMux()
	mux.Handle("GET /hello", authenticated(
		api.Handler(http.HandlerFunc(hello)), strangers.Handler(http.HandlerFunc(unauthorized))))
	mux.Handle("POST /login", logins.Handler(http.HandlerFunc(login)))
	errs := []error{strangers.Check(), api.Check(), logins.Check()}
	for _, limit := range plans {
		errs = append(errs, calls.With(limit).Check())
	}
	return mux, errors.Join(errs...)
}

// outcomes are for expvar.Handler, on an address that only operators reach. For OpenTelemetry see package otel.
var outcomes = expvar.NewMap("limits")

func count(_ *http.Request, result httplimit.Result) {
	outcomes.Add(result.Outcome.String(), 1)
	if result.Degraded {
		outcomes.Add("degraded", 1)
	}
}

func authenticated(customers, strangers http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if customerOf(r).name == "" {
			strangers.ServeHTTP(w, r)
			return
		}
		customers.ServeHTTP(w, r)
	})
}

func unauthorized(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello\n")) }

func login(w http.ResponseWriter, r *http.Request) {
	if _, password, _ := r.BasicAuth(); password != "secret" {
		w.WriteHeader(http.StatusUnauthorized)
	}
}
