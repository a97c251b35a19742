package policy

import (
	"cmp"
	"net/http"

	"github.com/sluice-redis/sluice/httplimit"
)

// Middleware limits the requests of handlers. Policies.Middleware makes it; the zero Middleware refuses everything. It
// is safe for concurrent use, and one Middleware may wrap several handlers.
type Middleware struct{ limit *httplimit.Middleware }

// Middleware limits the requests of handlers. The function returns what the application knows of a request: "user.key",
// "user.plan" and the names in the file's attributes. It may be nil. The options are httplimit's: how a refusal
// is answered, which headers are sent. For which policy decided see Observe. Call Check when the program starts.
//
//	http.Handle("/", policies.Middleware(values).Handler(handler))
//
// A request that is denied gets the status 429; 400 if its key is empty and the file says refuse, or if what it says
// fails an expression; 503 if there is no decision. The client's address is the connection's; behind one of the file's
// proxies, the right-most address in X-Forwarded-For that is no proxy.
//
// Cost: a microsecond for each expression, and what httplimit.PerRequest costs.
func (p *Policies) Middleware(values func(*http.Request) map[string]string, opts ...httplimit.Option) *Middleware {
	if len(p.observers) > 0 {
		opts = append(opts[:len(opts):len(opts)], httplimit.Observe(func(r *http.Request, result httplimit.Result) {
			p.Observed(r.Context(), result.Result)
		}))
	}
	return &Middleware{httplimit.PerRequest(p.limits, func(r *http.Request) ([]httplimit.Charge, error) {
		if values == nil {
			return p.Charges(r, nil)
		}
		return p.Charges(r, values(r))
	}, opts...)}
}

func (m *Middleware) made() *httplimit.Middleware { return cmp.Or(m.limit, new(httplimit.Middleware)) }

// Check returns what is wrong with the options: httplimit.Cost, which is for one limiter, say. Call it once, when the
// program starts. Otherwise every request is refused with status 500, and the default log of log/slog says why.
// Cost: nothing is sent.
func (m *Middleware) Check() error { return m.made().Check() }

// Handler returns a handler that calls next for the requests that are let through: see httplimit.Middleware.Handler.
func (m *Middleware) Handler(next http.Handler) http.Handler { return m.made().Handler(next) }
