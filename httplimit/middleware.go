package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"sync"

	"github.com/sluice-redis/sluice/loader"
)

// Middleware limits the requests of a handler. For, AllOf and PerRequest make one; New is the short form. It is safe
// for concurrent use, and one Middleware may wrap several handlers, which then share its limits.
type Middleware struct {
	limits  *loader.Loader // nil: there is one limiter
	charges []Charge
	choose  func(*http.Request) ([]Charge, error) // PerRequest; nil: charges
	options options
	err     error // what is wrong: every request is refused

	policies policies

	complained sync.Once
}

// New limits a handler: each subject that key makes of the requests may call it as often as limiter grants.
//
//	login := limits.ListLog("login", loader.PerMinute(5))
//	http.Handle("POST /login", httplimit.New(login, httplimit.KeyByIP())(handler))
//
// It is For(limiter, key, opts...).Handler. If an argument is wrong, every request is refused with status 500, and New
// says so in the default log of log/slog. Use For to get the error.
func New(limiter loader.Limiter, key Key, opts ...Option) func(http.Handler) http.Handler {
	m := For(limiter, key, opts...)
	if err := m.Check(); err != nil {
		m.complain(err)
	}
	return m.Handler
}

// complain logs, once, why requests are refused with status 500.
func (m *Middleware) complain(err error) {
	m.complained.Do(func() { slog.Error("httplimit: requests are refused with status 500", "error", err) })
}

// For returns the Middleware of one limiter. Call Check when the program starts, then wrap handlers with Handler.
func For(limiter loader.Limiter, key Key, opts ...Option) *Middleware {
	m := newMiddleware(nil, opts)
	m.charges = []Charge{{Limiter: limiter, Key: key}}
	return m.finish()
}

// AllOf returns the Middleware of several limiters, for any request the same ones. A request is let through only if all
// of them grant, and if one denies, none is charged: see loader.All, which asks them in one round trip. Only limiters
// that can give back may be in it (ListLog, ZSetLog without WithID, SliceRing), and those in shadow. All limiters are
// made by limits. Without charges it is for the option Slots alone.
//
// Middlewares around one another are asked one by one: if an inner one denies, the outer ones stay charged, and its
// Retry-After knows nothing of theirs. Use AllOf for what belongs together.
func AllOf(limits *loader.Loader, charges []Charge, opts ...Option) *Middleware {
	m := newMiddleware(limits, opts)
	m.charges = charges
	m.forOne()
	return m.finish()
}

// PerRequest returns the Middleware whose charges differ from request to request: plans, costs, routes. The function
// returns the charges of a request, which are asked as those of AllOf are; without any the request is not limited. If
// it returns an error, the request is refused with status 503.
//
// What the function returns is checked when a request comes. Check charges that are known at start with
// AllOf(limits, charges).Check().
func PerRequest(
	limits *loader.Loader, charges func(*http.Request) ([]Charge, error), opts ...Option,
) *Middleware {
	m := newMiddleware(limits, opts)
	if m.choose = charges; charges == nil {
		m.err = errors.Join(m.err, errors.New("httplimit: PerRequest: the function is nil"))
	}
	m.forOne()
	return m.finish()
}

func newMiddleware(limits *loader.Loader, opts []Option) *Middleware {
	m := &Middleware{limits: limits, options: options{headers: Draft11}}
	for _, opt := range opts {
		if opt != nil {
			opt(&m.options)
		}
	}
	return m
}

// forOne refuses the options of one limiter.
func (m *Middleware) forOne() {
	if m.options.limiter != nil || m.options.cost != nil {
		m.err = errors.Join(m.err, errors.New("httplimit: LimiterBy and Cost are options of New and For"))
	}
}

// finish applies the options to the charges, and checks all.
func (m *Middleware) finish() *Middleware {
	m.charges = append([]Charge(nil), m.charges...)
	for i := range m.charges {
		m.options.complete(&m.charges[i])
	}
	m.err = errors.Join(m.err, m.options.err, m.check())
	return m
}

// check returns what is wrong with the charges and the slots, by themselves and together.
func (m *Middleware) check() error {
	var errs []error
	for _, c := range m.charges {
		errs = append(errs, c.check())
	}
	for _, s := range m.options.slots {
		errs = append(errs, s.check())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	switch {
	case m.choose == nil && len(m.charges)+len(m.options.slots) == 0:
		return errors.New("httplimit: no charges and no Slots: want a limiter")
	case m.limits == nil && (m.choose != nil || len(m.charges) > 1):
		return errors.New("httplimit: the Loader is nil")
	}
	return m.checkTogether()
}

// checkTogether returns what is wrong with asking several limiters at once: those that are enforced, and those in
// shadow.
func (m *Middleware) checkTogether() error {
	if len(m.charges) < 2 {
		return nil
	}
	all, enforced, batch, errs := m.limits.All(), 0, m.limits.Batch(), []error(nil)
	for i, c := range m.charges {
		if !c.Shadow {
			all.AllowN(c.Limiter, strconv.Itoa(i), c.permits()) // whether subjects are the same is not known yet
			enforced++
			continue
		}
		if wrong, ok := errors.AsType[*loader.ArgumentError](batch.AllowN(c.Limiter, "any", c.permits()).Err); ok {
			errs = append(errs, wrong)
		}
	}
	if enforced > 1 {
		errs = append(errs, all.Check())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("httplimit: %w", err)
	}
	return nil
}

// Check returns what is wrong with the limiters, keys and options: a limiter that cannot give back where it has to,
// say. Call it once, when the program starts. Otherwise every request is refused with status 500. Cost: nothing is
// sent.
func (m *Middleware) Check() error { return m.err }

// Handler returns a handler that calls next for the requests that are let through.
//
// Cost: one round trip for each request. A second one for charges in shadow beside others; one for each charge that is
// given back, after the handler if it is by CountIf; two for a slot.
//
// If the client leaves while its request is decided, the handler is not called, and what was charged is given back
// where the limiter can.
func (m *Middleware) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.options.skip != nil && m.options.skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		q := &request{Middleware: m, w: w, r: r}
		q.serve(next)
	})
}
