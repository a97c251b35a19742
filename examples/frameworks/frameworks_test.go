package frameworks

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice/internal/proof/exampletest"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
)

// A step is a request by curl, and the response to it.
type step struct {
	request string            // method and path
	headers map[string]string // of the request
	status  int
	body    string // of a 200
	limit   string // RateLimit without its times
}

// steps are those of every framework: three clients behind a proxy, two orders, and accounts that fail to log in.
var steps = slices.Concat([]step{
	{"GET /hello", forwarded("192.0.2.1"), 200, "hello", `"hello";r=2`},
	{"GET /hello", forwarded("198.51.100.7, 192.0.2.1"), 200, "hello", `"hello";r=1`}, // the client wrote the left one
	{"GET /hello", forwarded("198.51.100.8, 192.0.2.1"), 200, "hello", `"hello";r=0`},
	{"GET /hello", forwarded("198.51.100.9, 192.0.2.1"), 429, "", `"hello";r=0`},
	{"GET /hello", map[string]string{"X-Real-IP": "198.51.100.7", "X-Forwarded-For": "192.0.2.1"}, 429, "",
		`"hello";r=0`},
	{"GET /hello", forwarded("192.0.2.2"), 200, "hello", `"hello";r=2`},
	{"GET /hello", forwarded("2001:db8::1"), 200, "hello", `"hello";r=2`},
	{"GET /hello", forwarded("2001:db8::2"), 200, "hello", `"hello";r=1`}, // of the same /64

	{"GET /orders/7", nil, 200, "7", `"order";r=1`},
	{"GET /orders/8", nil, 200, "8", `"order";r=1`},
	{"GET /orders/7", nil, 200, "7", `"order";r=0`},
	{"GET /orders/7", nil, 429, "", `"order";r=0`},
	{"GET /orders/8", nil, 200, "8", `"order";r=0`},
},
	slices.Repeat([]step{{"POST /login", basic("ada", "secret"), 200, "", `"login";r=1`}}, 3), // these do not count
	[]step{
		{"POST /login", basic("ada", "guess"), 401, "", `"login";r=1`},
		{"POST /login", basic("ada", "guess"), 401, "", `"login";r=0`},
		{"POST /login", basic("ada", "secret"), 429, "", `"login";r=0`},
		{"POST /login", basic("bob", "secret"), 200, "", `"login";r=1`},
		{"POST /login", nil, 400, "", ""},
	})

func forwarded(list string) map[string]string { return map[string]string{"X-Forwarded-For": list} }

func basic(account, password string) map[string]string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(account, password)
	return map[string]string{"Authorization": r.Header.Get("Authorization")}
}

func TestServerFrameworks(t *testing.T) {
	for name, handler := range map[string]func(*loader.Loader) http.Handler{
		"mux": Mux, "chi": Chi, "gin": Gin, "echo": Echo,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler(loader.New(redistest.Start(t).Client(t))))
			t.Cleanup(server.Close)
			for i, s := range steps {
				if !s.run(t, server.URL) {
					t.Fatalf("at step %d: %+v", i, s)
				}
			}
		})
	}
}

var times = regexp.MustCompile(`;t=[0-9]+`)

// run sends the request and compares the response.
func (s step) run(t *testing.T, url string) bool {
	t.Helper()
	method, path, _ := strings.Cut(s.request, " ")
	request, err := http.NewRequest(method, url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range s.headers {
		request.Header.Set(name, value)
	}
	response := exampletest.Curl(t, request)
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	limit := times.ReplaceAllString(response.Header.Get("RateLimit"), "")
	if response.StatusCode != s.status || limit != s.limit || s.status == 200 && string(body) != s.body {
		t.Errorf("%s %q, RateLimit: %s", response.Status, body, limit)
	}
	if s.status == 429 {
		wantDenial(t, response, body)
	}
	return !t.Failed()
}

// wantDenial checks what a 429 has, whatever the framework.
func wantDenial(t *testing.T, response *http.Response, body []byte) {
	t.Helper()
	retry, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || retry < 1 || retry > 60 || response.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("want Retry-After from 1 to 60 and RateLimit-Policy: %v", response.Header)
	}
	var problem struct{ Type, Title string }
	if err := json.Unmarshal(body, &problem); err != nil || !strings.HasSuffix(problem.Type, "#quota-exceeded") ||
		response.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("want a problem, got %s %q, %v", response.Header.Get("Content-Type"), body, err)
	}
}
