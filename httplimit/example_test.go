package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// server is a Redis for the examples, whose clock stands still.
func server() (limits *loader.Loader, stop func()) {
	redis, err := embedded.Start()
	if err != nil {
		log.Fatal(err)
	}
	redis.SetTime(second0)
	return loader.New(redis.Client()), redis.Close
}

// show sends a request and prints the status and what is left.
func show(h http.Handler, target, user string) {
	r := httptest.NewRequest(http.MethodPost, target, nil)
	r.SetBasicAuth(user, "secret")
	w := serve(h, r)
	fmt.Printf("%d %s %q\n", w.Code, w.Header().Get("RateLimit"), w.Header().Get("Retry-After"))
}

// Five attempts a minute for each address.
func Example() {
	limits, stop := server()
	defer stop()
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})

	login := limits.ListLog("login", loader.PerMinute(5))
	http.Handle("POST /login", httplimit.New(login, httplimit.KeyByIP()).Handler(handler))

	for range 6 {
		show(http.DefaultServeMux, "/login", "ada")
	}
	// Output:
	// 200 "login";r=4;t=60 ""
	// 200 "login";r=3;t=60 ""
	// 200 "login";r=2;t=60 ""
	// 200 "login";r=1;t=60 ""
	// 200 "login";r=0;t=60 ""
	// 429 "login";r=0;t=60 "60"
}

// A browser asks for leave in a preflight, which is not counted, and reads a 429 and its headers.
func Example_cors() {
	limits, stop := server()
	defer stop()
	api := httplimit.New(limits.ListLog("api", loader.PerMinute(1)), httplimit.KeyByIP())
	handler := withCORS(api.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))

	for _, method := range []string{"OPTIONS", "POST", "OPTIONS", "POST"} {
		w := serve(handler, httptest.NewRequest(method, "/orders", nil))
		fmt.Printf("%d %q %q\n", w.Code, w.Header().Get("Access-Control-Allow-Origin"), w.Header().Get("Retry-After"))
	}
	// Output:
	// 204 "https://shop.example" ""
	// 200 "https://shop.example" ""
	// 204 "https://shop.example" ""
	// 429 "https://shop.example" "60"
}

func withCORS(next http.Handler) http.Handler { // take a library's
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "https://shop.example")
		w.Header().Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Check finds wrong arguments at start. The proxies in front of the server say from which address a request comes; a
// log has what was not decided by Redis.
func ExampleNew() {
	limits, stop := server()
	defer stop()
	mux := http.NewServeMux()

	export := limits.ListLog("export", loader.PerHour(10), loader.FailOpen())
	middleware := httplimit.New(export, httplimit.KeyByIP(httplimit.TrustXForwardedFor("10.0.0.0/8", "fd00::/8")),
		httplimit.RetryJitter(5*time.Second),
		httplimit.Observe(func(r *http.Request, result httplimit.Result) {
			if result.Degraded || result.Err != nil {
				slog.WarnContext(r.Context(), "limit not checked", "limit", result)
			}
		}))
	if err := middleware.Check(); err != nil { // a wrong limit, key or option is found at start
		log.Fatal(err)
	}
	mux.Handle("/export", middleware.Handler(http.NotFoundHandler()))

	show(mux, "/export", "ada")
	// Output: 404 "export";r=9;t=3600 ""
}

// An address, an account and the whole service: one that denies charges none of them.
func ExampleAllOf() {
	limits, stop := server()
	defer stop()

	middleware := httplimit.AllOf(limits, []httplimit.Charge{
		{Limiter: limits.ListLog("address", loader.PerMinute(20)), Key: httplimit.KeyByIP()},
		{Limiter: limits.ListLog("account", loader.PerMinute(2)), Key: httplimit.KeyByUser()},
		{Limiter: limits.SliceRing("service", []loader.Limit{loader.PerMinute(1000), loader.PerHour(20000)}),
			Key: httplimit.KeyOf("all"), Shadow: true}, // to be tried first
	})
	if err := middleware.Check(); err != nil {
		log.Fatal(err)
	}
	handler := middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	show(handler, "/", "ada")
	show(handler, "/", "ada")
	show(handler, "/", "ada")
	// Output:
	// 200 "address";r=19;t=60, "account";r=1;t=60 ""
	// 200 "address";r=18;t=60, "account";r=0;t=60 ""
	// 429 "account";r=0;t=60 "60"
}

// Each customer has the limits of a plan.
func ExamplePerRequest() {
	limits, stop := server()
	defer stop()

	plans := map[string][]loader.Limit{
		"ada": {loader.PerMinute(1000), loader.PerHour(20000)},
		"bob": {loader.PerMinute(60)},
	}
	api := limits.SliceRing("api", []loader.Limit{loader.PerMinute(60)})
	middleware := httplimit.PerRequest(limits, func(r *http.Request) ([]httplimit.Charge, error) {
		user, _, _ := r.BasicAuth()
		return []httplimit.Charge{{Limiter: api.With(plans[user]...), Key: httplimit.KeyOf(user)}}, nil
	})
	handler := middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	show(handler, "/", "ada")
	show(handler, "/", "bob")
	// Output:
	// 200 "api-1m";r=999;t=61, "api-1h";r=19999;t=3618 ""
	// 200 "api";r=59;t=61 ""
}

// Only failed logins count.
func ExampleCountIf() {
	limits, stop := server()
	defer stop()
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "ada" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})

	failures := limits.ListLog("failed-login", loader.PerMinute(2))
	handler := httplimit.New(failures, httplimit.KeyByIP(),
		httplimit.CountIf(func(status int) bool { return status == http.StatusUnauthorized })).Handler(login)

	for _, user := range []string{"ada", "ada", "ada", "eve", "eve", "eve"} {
		show(handler, "/login", user)
	}
	// Output:
	// 200 "failed-login";r=1;t=60 ""
	// 200 "failed-login";r=1;t=60 ""
	// 200 "failed-login";r=1;t=60 ""
	// 401 "failed-login";r=1;t=60 ""
	// 401 "failed-login";r=0;t=60 ""
	// 429 "failed-login";r=0;t=60 "60"
}

// Who is refused twice in an hour is banned: everything is refused until the first refusal is an hour old.
func ExampleBan() {
	limits, stop := server()
	defer stop()

	login, refusals := limits.ListLog("login", loader.PerMinute(1)), limits.ListLog("login-ban", loader.PerHour(2))
	middleware := httplimit.New(login, httplimit.KeyByUser(), httplimit.Ban(refusals))
	handler := middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for _, user := range []string{"eve", "eve", "eve", "eve", "ada"} {
		show(handler, "/login", user)
	}
	// Output:
	// 200 "login";r=0;t=60 ""
	// 429 "login";r=0;t=60 "60"
	// 429 "login-ban";r=0;t=3600 "3600"
	// 429 "login-ban";r=0;t=3600 "3600"
	// 200 "login";r=0;t=60 ""
}

// A crawler's second request in a millisecond is held until its permit comes; one that would wait longer is refused.
func ExampleDelay() {
	limits, stop := server()
	defer stop()

	crawl := limits.ListLog("crawl", loader.Limit{Permits: 1, Window: time.Millisecond})
	middleware := httplimit.New(crawl, httplimit.KeyByUser(), httplimit.Delay(time.Millisecond), httplimit.MaxHeld(100))
	handler := middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	show(handler, "/", "bot")
	show(handler, "/", "bot")
	show(handler, "/", "bot")
	// Output:
	// 200 "crawl";r=0;t=1 ""
	// 200 "crawl";r=0;t=1 ""
	// 429 "crawl";r=0;t=1 "1"
}

// Two reports at once for each customer, and ten a minute.
func ExampleSlots() {
	limits, stop := server()
	defer stop()

	reports, running := limits.ListLog("reports", loader.PerMinute(10)), limits.Concurrency("running", 2, time.Minute)
	middleware := httplimit.New(reports, httplimit.KeyByUser(), httplimit.Slots(running, httplimit.KeyByUser()))
	if err := middleware.Check(); err != nil {
		log.Fatal(err)
	}
	handler := middleware.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		d, err := running.Peek(context.Background(), "ada")
		fmt.Println(d.Remaining, err)
	}))

	show(handler, "/report", "ada")
	// Output:
	// 1 <nil>
	// 200 "reports";r=9;t=60, "running";r=1 ""
}
