package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// server is a Redis for the examples.
func server() (rdb *redis.Client, stop func()) {
	m, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	return redis.NewClient(&redis.Options{Addr: m.Addr()}), m.Close
}

// Two attempts a minute for each address.
func Example() {
	rdb, stop := server()
	defer stop()
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	limits := loader.New(rdb)
	login := limits.ListLog("login", loader.PerMinute(2))
	http.Handle("POST /login", httplimit.New(login, httplimit.KeyByIP())(handler))

	for range 3 {
		answer := httptest.NewRecorder()
		http.DefaultServeMux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "/login", nil))
		fmt.Printf("%d %s %q\n", answer.Code, answer.Header().Get("RateLimit"), answer.Header().Get("Retry-After"))
	}
	// Output:
	// 200 "login";r=1;t=60 ""
	// 200 "login";r=0;t=60 ""
	// 429 "login";r=0;t=60 "60"
}
