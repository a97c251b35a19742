package policy

import (
	"context"
	"net/http"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/reqcopy"
)

// Middleware limits the requests of handlers. The function returns what the application knows of a request: "user.key",
// "user.plan" and the names in the file's attributes. It may be nil. The options are httplimit's: how a refusal
// is answered, which headers are sent. For which policy decided see Observe.
//
//	http.Handle("/", policies.Middleware(values)(handler))
//
// A request that is denied gets the status 429; 400 if its key is empty and the file says refuse; 503 if there is no
// decision. If an option is wrong, such as httplimit.Cost, which is for one limiter, every request is refused with
// status 500, and Middleware says so in the log at once. The client's address is that of
// the connection; if that is one of the file's proxies, the right-most address in X-Forwarded-For that is not.
//
// Cost: a microsecond for each expression, and what httplimit.PerRequest costs.
func (p *Policies) Middleware(
	values func(*http.Request) map[string]string, opts ...httplimit.Option,
) func(http.Handler) http.Handler {
	opts = append(opts[:len(opts):len(opts)], httplimit.Observe(func(r *http.Request, result httplimit.Result) {
		callOf(r).End(r.Context(), result.Result)
	}))
	status := func(status int) int { return status }
	limited := httplimit.PerRequest(p.limits, func(r *http.Request) ([]httplimit.Charge, error) {
		return Charges[*http.Request](callOf(r), status)
	}, opts...)
	if err := limited.Check(); err != nil {
		p.logger.Error("policy: requests are refused with status 500", "error", err)
	}
	return func(next http.Handler) http.Handler {
		inner := limited.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var known map[string]string
			if values != nil {
				known = values(r)
			}
			copied, done := reqcopy.WithContext(r, context.WithValue(r.Context(), callKey{}, p.Begin(r, known)))
			defer done()
			inner.ServeHTTP(w, copied)
		})
	}
}

// callKey is the key of a Call in the context of its request.
type callKey struct{}

func callOf(r *http.Request) *Call { return r.Context().Value(callKey{}).(*Call) }

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
