package policy

import (
	"context"
	"net/http"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/reqcopy"
)

// Middleware limits the requests of handlers. The function returns what the application knows of a request: "user.key",
// "user.plan" and the names in the file's attributes. It may be nil. The options are those of httplimit: how a refusal
// is answered, which headers are sent. For which policy decided see Observe.
//
//	http.Handle("/", policies.Middleware(values)(handler))
//
// A request that is denied gets the status 429; 400 if its key is empty and the file says refuse; 503 if there is no
// decision. If an option is wrong, such as httplimit.Cost, which is for one limiter, every request is refused with
// status 500, and Middleware says so in the log at once. For the client's address see Attributes.
//
// Cost: a microsecond for each expression, and what httplimit.PerRequest costs.
func (p *Policies) Middleware(
	values func(*http.Request) map[string]string, opts ...httplimit.Option,
) func(http.Handler) http.Handler {
	opts = append(opts[:len(opts):len(opts)], httplimit.Observe(observeRequest))
	limited := httplimit.PerRequest(p.limits, chargesOf, opts...)
	if err := limited.Check(); err != nil {
		p.logger.Error("policy: requests are refused with status 500", "error", err)
	}
	return func(next http.Handler) http.Handler {
		inner := limited.Handler(next)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s := p.current.Load() // for the whole request, also if the file changes meanwhile
			a := s.attributes(r)
			if values != nil {
				a.Values = values(r)
			}
			ctx := context.WithValue(r.Context(), callKey{}, p.begin(s, a))
			copied, done := reqcopy.WithContext(r, ctx)
			defer done()
			inner.ServeHTTP(w, copied)
		})
	}
}

// callKey is the key of a Call in the context of its request.
type callKey struct{}

func callOf(r *http.Request) *Call { return r.Context().Value(callKey{}).(*Call) }

// Attributes returns what expressions may ask about a request, without the values of the application. The client's
// address is that of the connection. If that is one of the file's proxies, it is the right-most address in
// X-Forwarded-For that is not.
func (p *Policies) Attributes(r *http.Request) Attributes { return p.current.Load().attributes(r) }

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

// chargesOf is what a request costs, as httplimit asks for it.
func chargesOf(r *http.Request) ([]httplimit.Charge, error) {
	call := callOf(r)
	matched, err := call.Charges()
	charges := make([]httplimit.Charge, len(matched))
	for i, m := range matched {
		key := httplimit.KeyOf(m.Key...).IfEmpty(httplimit.ShareEmpty)
		if m.Refused {
			key = httplimit.KeyOf("")
		}
		charges[i] = httplimit.Charge{
			Limiter: m.Limiter, N: m.Cost, Key: key, Name: m.Name, CountIf: call.Counts(m), Shadow: m.Mode == Shadow,
		}
	}
	return charges, err
}

// observeRequest tells the observer of a request.
func observeRequest(r *http.Request, result httplimit.Result) {
	decisions := make([]PolicyDecision, len(result.Decisions))
	for i, one := range result.Decisions {
		decisions[i] = PolicyDecision{
			Decision: one.Decision, Policy: one.Policy, Subject: one.Subject, Shadow: one.Shadow, Err: one.Err,
		}
	}
	callOf(r).End(r.Context(), result.Outcome == httplimit.Allowed, decisions, result.Err)
}
