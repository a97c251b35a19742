package policy

import (
	"cmp"
	"context"
	"net/http"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/reqcopy"
	"github.com/sluice-redis/sluice/policy/internal/door"
)

// Middleware limits the requests of handlers. Policies.Middleware makes it; the zero Middleware refuses everything. It
// is safe for concurrent use, and one Middleware may wrap several handlers.
type Middleware struct {
	policies *Policies
	values   func(*http.Request) map[string]string
	limit    *httplimit.Middleware
}

// Middleware limits the requests of handlers. The function returns what the application knows of a request: "user.key",
// "user.plan" and the names in the file's attributes. It may be nil. The options are httplimit's: how a refusal
// is answered, which headers are sent. For which policy decided see Observe. Call Check when the program starts.
//
//	http.Handle("/", policies.Middleware(values).Handler(handler))
//
// A request that is denied gets the status 429; 400 if its key is empty and the file says refuse; 503 if there is no
// decision. The client's address is that of the connection; if that is one of the file's proxies, the right-most
// address in X-Forwarded-For that is not.
//
// Cost: a microsecond for each expression, and what httplimit.PerRequest costs.
func (p *Policies) Middleware(values func(*http.Request) map[string]string, opts ...httplimit.Option) *Middleware {
	opts = append(opts[:len(opts):len(opts)], httplimit.Observe(func(r *http.Request, result httplimit.Result) {
		callOf(r).End(r.Context(), result.Result)
	}))
	status := func(status int) int { return status }
	limit := httplimit.PerRequest(p.limits, func(r *http.Request) ([]httplimit.Charge, error) {
		return door.Charges[*http.Request](callOf(r), status)
	}, opts...)
	return &Middleware{policies: p, values: values, limit: limit}
}

// Check returns what is wrong with the options: httplimit.Cost, which is for one limiter, say. Call it once, when the
// program starts. Otherwise every request is refused with status 500, and Handler says so in the default log of
// log/slog. Cost: nothing is sent.
func (m *Middleware) Check() error { return cmp.Or(m.limit, new(httplimit.Middleware)).Check() }

// Handler returns a handler that calls next for the requests that are let through: see httplimit.Middleware.Handler.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if m.limit == nil {
		return new(httplimit.Middleware).Handler(next)
	}
	inner := m.limit.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var known map[string]string
		if m.values != nil {
			known = m.values(r)
		}
		copied, done := reqcopy.WithContext(r, context.WithValue(r.Context(), callKey{}, m.policies.Begin(r, known)))
		defer done()
		inner.ServeHTTP(w, copied)
	})
}

// callKey is the key of a door.Call in the context of its request.
type callKey struct{}

func callOf(r *http.Request) *door.Call { return r.Context().Value(callKey{}).(*door.Call) }

// attributes returns what expressions may ask about a request, without the values of the application. The client's
// address is that of the connection. If that is one of the file's proxies, it is the right-most address in
// X-Forwarded-For that is not.
func (s *set) attributes(r *http.Request) Attributes {
	request := &Request{Method: r.Method, Path: r.URL.Path, Host: r.Host, Header: r.Header}
	request.IP, _ = s.file.address.Subject(r)
	if s.query {
		request.Query = r.URL.Query()
	}
	if s.cookie {
		request.Cookie = cookies(r)
	}
	return Attributes{Request: request}
}

// cookies is the first cookie of each name.
func cookies(r *http.Request) map[string]string {
	values := map[string]string{}
	for _, c := range r.Cookies() {
		if _, twice := values[c.Name]; !twice {
			values[c.Name] = c.Value
		}
	}
	return values
}
