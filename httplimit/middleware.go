package httplimit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Middleware limits the requests of a handler. New, AllOf and PerRequest make one; the zero Middleware refuses
// everything. It is safe for concurrent use, and one Middleware may wrap several handlers, which then share its limits.
type Middleware struct {
	door    admit.Door[*http.Request, Charge]
	options options
}

// Charge is what a request costs one limiter. One limiter twice about one subject is one charge of the sum, under the
// first name.
type Charge struct {
	Limiter loader.Limiter // is asked for N permits
	N       int64          // 0 means 1
	Key     Key            // makes the subject
	Subject string         // in place of Key, if it is known already: see the function Subject

	// Name is the policy in headers and bodies, which clients see, in printable ASCII characters. "" means the
	// limiter's name.
	Name string

	// CountIf says whether the request counts, by the status of the response: see the option CountIf. Nil means that it
	// always does.
	CountIf func(status int) bool

	// Ban is a limiter of refusals: see the option Ban. Nil means that of the option, or none.
	Ban loader.Limiter

	// Delay is how long a request is held instead of refused: see the option Delay. 0 means that of the option, or none.
	Delay time.Duration

	// Shadow charges without refusing: see the option Shadow.
	Shadow bool

	// Err is why the limiter cannot be asked: the plan is not known, say. In shadow it is in the
	// Decision, and the request goes on; otherwise it is Undecided.
	Err error
}

// readCharge returns a charge for the engine.
func readCharge(c Charge) admit.Keyed[*http.Request] {
	return admit.Keyed[*http.Request]{Key: c.Key.key, Charge: admit.Charge{
		Limiter: c.Limiter, Subject: c.Subject, N: c.N, Name: c.Name, CountIf: c.CountIf, Shadow: c.Shadow, Ban: c.Ban,
		Delay: c.Delay, Err: c.Err,
	}}
}

// New limits a handler: each subject that key makes of the requests may call it as often as limiter grants. Call Check
// when the program starts, then wrap handlers with Handler.
//
//	login := limits.ListLog("login", loader.PerMinute(5))
//	http.Handle("POST /login", httplimit.New(login, httplimit.KeyByIP()).Handler(handler))
func New(limiter loader.Limiter, key Key, opts ...Option) *Middleware {
	return newMiddleware(admit.Door[*http.Request, Charge]{Charges: []Charge{{Limiter: limiter, Key: key}}}, opts)
}

// AllOf returns the Middleware of several limiters, for any request the same ones. A request is let through only if all
// of them grant, and if one denies, none is charged: see loader.All, which asks them in one round trip. Only limiters
// that can give back may be in it (ListLog, ZSetLog without WithID, SliceRing, Quota, and Ahead, which then asks
// Redis), and those in shadow. All limiters are made by limits. Without charges it is for the option Slots alone.
//
// Middlewares around one another are asked one by one: if an inner one denies, the outer ones stay charged, and its
// Retry-After knows nothing of theirs. Use AllOf for what belongs together.
func AllOf(limits *loader.Loader, charges []Charge, opts ...Option) *Middleware {
	return newMiddleware(admit.Door[*http.Request, Charge]{Limits: limits, Charges: charges}, opts)
}

// PerRequest returns the Middleware whose charges differ from request to request: plans, costs, routes. The function
// returns the charges of a request, which are asked as in AllOf. If it returns an error, or nil, the request
// is refused with status 503: a plan that is not known is not unlimited. A request that is not limited has charges that
// are empty, but not nil.
//
// What the function returns is checked when a request comes. Check charges that are known at start with
// AllOf(limits, charges).Check().
func PerRequest(
	limits *loader.Loader, charges func(*http.Request) ([]Charge, error), opts ...Option,
) *Middleware {
	door := admit.Door[*http.Request, Charge]{Limits: limits, Choose: charges}
	if charges == nil {
		door.Options.Err = errors.New("PerRequest: the function is nil")
	}
	return newMiddleware(door, opts)
}

func newMiddleware(door admit.Door[*http.Request, Charge], opts []Option) *Middleware {
	m := &Middleware{options: options{Options: door.Options, headers: Draft11}}
	for _, opt := range opts {
		if opt != nil {
			opt(&m.options)
		}
	}
	m.door = door
	m.door.Package, m.door.Options, m.door.Read = "httplimit", m.options.Options, readCharge
	m.door.Init()
	return m
}

// Check returns what is wrong with the limiters, keys and options: a limiter that cannot give back where it has to,
// say. Call it once, when the program starts: a Middleware that is wrong refuses every request with status 500. Cost:
// nothing is sent.
func (m *Middleware) Check() error { return m.door.Check() }

// Handler returns a handler that calls next for the requests that are let through.
//
// Cost: one round trip for each request. A second one for charges in shadow beside others; one for each charge that is
// given back, after the handler if it is by CountIf; two for a slot.
//
// If the client leaves while its request is decided, the handler is not called, and what was charged is given back
// where the limiter can.
//
// If the Middleware is wrong, every request is refused with status 500, and the default log of log/slog says why, at
// once and then once a minute for each cause.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	if err := m.Check(); err != nil {
		m.door.Complain(err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if skip := m.options.Skip; skip != nil && skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		m.serve(next, w, r)
	})
}

func (m *Middleware) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	var q admit.Request
	defer q.Release()
	m.door.Decide(r.Context(), &q, r, admit.Charges|admit.Resources)
	result := m.options.result(q.Result)
	SetHeaders(w.Header(), m.options.headers, result)
	for _, observe := range m.options.observe {
		observe(r, result)
	}
	switch {
	case result.Outcome != Allowed:
		m.refuse(w, r, result)
	case q.IsPending():
		finish(next, w, r, &q)
	default:
		next.ServeHTTP(w, r)
	}
}

// refuse answers a request that does not go on.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, result Result) {
	refuse := m.options.refuse
	if refuse == nil {
		refuse = WriteProblem
	}
	refuse(w, r, result)
}

// finish calls the handler, and gives back what does not count. If the handler panics, everything counts.
func finish(next http.Handler, w http.ResponseWriter, r *http.Request, q *admit.Request) {
	if ctx := q.Context(); ctx != r.Context() {
		copied := r.WithContext(ctx)
		defer handBack(r, copied)
		r = copied
	}
	if !q.Counts() && !q.Holds() {
		next.ServeHTTP(w, r)
		return
	}
	written := &response{status: http.StatusOK}
	release, returned := func() {}, false
	if q.Holds() {
		written.onHijack = func(conn net.Conn) net.Conn {
			release = sync.OnceFunc(q.TakeOver())
			return newSlotConn(conn, release)
		}
	}
	defer func() {
		if !returned { // a panic or Goexit: nobody may be left who closes the connection
			release()
		}
	}()
	next.ServeHTTP(written.wrap(w), r)
	returned = true
	if !written.hijacked {
		_ = q.Finish(r.Context(), written.status) // the loader's observer is told
	}
}

// handBack gives a request what its copy has: net/http removes the files of a parsed form only if it finds the form in
// the original, and outer middleware finds the pattern there.
func handBack(r, copied *http.Request) {
	if r.MultipartForm == nil {
		r.MultipartForm = copied.MultipartForm
	}
	if r.Pattern == "" {
		r.Pattern = copied.Pattern
	}
}

// Settle says what a request has used of its budgets: see Budgets. The last call before the handler returns counts.
// ctx is the context of the request that the handler got. Cost: nothing is sent.
func Settle(ctx context.Context, actual int64) { admit.Settle(ctx, actual) }
