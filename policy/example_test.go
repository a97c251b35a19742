package policy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
	"github.com/sluice-redis/sluice/policy"
)

// newLoader is a Loader on a Redis in this process; yours is on a real one.
func newLoader() *loader.Loader {
	server, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	return loader.New(server.Client())
}

// An API whose customers have plans.
func Example() {
	policies, err := policy.Load(newLoader(), "examples/api.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer policies.Close()
	values := func(r *http.Request) map[string]string {
		return map[string]string{"user.key": r.Header.Get("Authorization"), "user.plan": "free"}
	}
	handler := policies.Middleware(values).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))

	for range 61 {
		r := httptest.NewRequest(http.MethodGet, "/orders", nil)
		r.Header.Set("Authorization", "key of a customer")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			fmt.Println(w.Code, "by", w.Header().Get("RateLimit-Policy"))
		}
	}
	// Output: 429 by "api";q=60;w=61
}

// Messages of a queue, without HTTP.
func ExamplePolicies_Decide() {
	policies, err := policy.Load(newLoader(), "examples/api.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer policies.Close()
	ctx := context.Background()
	for range 61 {
		d, err := policies.Decide(ctx, policy.Attributes{
			Values: map[string]string{"user.key": "k1", "user.plan": "free"},
		})
		if err != nil {
			fmt.Println(err) // nothing was decided
			return
		}
		if !d.Granted {
			fmt.Printf("%s denies: at most %d a minute\n", d.Policy, d.Limit.Permits)
		}
	}
	// Output: api denies: at most 60 a minute
}

// A tool that says what is wrong with a file.
func ExampleParse() {
	_, err := policy.Parse("limits.yaml", []byte(`
limits:
  login:
    by: request.header["x-user"]
    rates: 5/400d
    mode: shado
`))
	fmt.Println(err)
	// Output:
	// limits.yaml:4:9: by may be empty: the client may leave it out: want empty: refuse, skip or shared beside it
	// limits.yaml:5:12: rate "5/400d": want a window of 1ms to 366d
	// limits.yaml:6:11: unknown mode "shado": want enforce, shadow: did you mean shadow?
}
