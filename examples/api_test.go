package examples_test

import (
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// TestServerAPI asks for more than a plan, without a plan and without a key, and logs in wrongly for more than an
// account may.
func TestServerAPI(t *testing.T) {
	binary := exampletest.Build(t, ".", "./api")
	address := exampletest.Serve(t, exec.Command(binary, "-redis", "redis://"+redistest.Start(t).Addr,
		"-listen", "127.0.0.1:0", "-proxies", "127.0.0.0/8,::1"))
	hello := func(apiKey string) *http.Response {
		headers := []string{"X-Api-Key", apiKey, "X-Forwarded-For", apiKey}
		return exampletest.Curl(t, request(t, http.MethodGet, address+"/hello", headers...))
	}
	wantHeaders(t, hello("key-2"), 200, `"api";q=100;w=1`, `"api";r=99`)
	for left := 59; left >= 0; left-- {
		wantHeaders(t, hello("key-1"), 200, `"api";q=60;w=60`, fmt.Sprintf(`"api";r=%d`, left))
	}
	denied := hello("key-1")
	wantHeaders(t, denied, 429, `"api";q=60;w=60`, `"api";r=0`)
	if s, err := strconv.Atoi(denied.Header.Get("Retry-After")); err != nil || s < 1 || s > 61 {
		t.Errorf("Retry-After %q, want 1 to 61", denied.Header.Get("Retry-After"))
	}
	wantHeaders(t, hello("key-3"), 503, "", "") // its plan is not known
	for left := 19; left >= 0; left-- {
		wantHeaders(t, hello("192.0.2.1"), 401, `"no-key";q=20;w=60`, fmt.Sprintf(`"no-key";r=%d`, left))
	}
	wantHeaders(t, hello("192.0.2.1"), 429, `"no-key";q=20;w=60`, `"no-key";r=0`)
	wantHeaders(t, hello("192.0.2.2"), 401, `"no-key";q=20;w=60`, `"no-key";r=19`)

	login := func(account, password string) *http.Response {
		r := request(t, http.MethodPost, address+"/login")
		r.SetBasicAuth(account, password)
		return exampletest.Curl(t, r)
	}
	for _, c := range []struct {
		account, password string
		times, want       int
	}{
		{"ada", "secret", 6, 200}, {"ada", "guess", 5, 401}, {"ada", "secret", 1, 429}, {"bob", "secret", 1, 200},
		{"eve", "guess", 5, 401}, {"mallory", "guess", 5, 401}, {"trudy", "guess", 5, 401}, {"bob", "secret", 1, 429},
	} {
		for range c.times {
			if got := login(c.account, c.password); got.StatusCode != c.want {
				t.Fatalf("%s with %q: %s, want %d", c.account, c.password, got.Status, c.want)
			}
		}
	}
}

// request has headers as pairs of names and values.
func request(t *testing.T, method, url string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

var reset = regexp.MustCompile(`;t=[0-9]+`)

// wantHeaders compares headers but for the time to the reset.
func wantHeaders(t *testing.T, got *http.Response, status int, policy, limit string) {
	t.Helper()
	if got.StatusCode != status || got.Header.Get("RateLimit-Policy") != policy ||
		reset.ReplaceAllString(got.Header.Get("RateLimit"), "") != limit {
		t.Errorf("%s, RateLimit-Policy: %s, RateLimit: %s\nwant %d, %s, %s", got.Status,
			got.Header.Get("RateLimit-Policy"), got.Header.Get("RateLimit"), status, policy, limit)
	}
}
