package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// An HTTP is a middleware behind a net/http server: what a client sees.
type HTTP struct {
	Library
	Granted Serving `json:"granted"`
	Denied  Serving `json:"denied"`
}

// A Serving is a load of one outcome.
type Serving struct {
	PerSecond Spread  `json:"per_second"`
	Ratio     Spread  `json:"ratio"` // of PerSecond to that of the handler without a limit, in the same round
	P50       float64 `json:"p50_us"`
	P99       float64 `json:"p99_us"`
}

// Text is a cell of the page.
func (s Serving) Text() string {
	return fmt.Sprintf("%.0f (%.0f / %.0f us)", s.PerSecond.Median, s.P50, s.P99)
}

// Connections is how many requests at a time the middleware got.
func (*Results) Connections() int { return connections }

// A limited makes the middleware of a library.
type limited func(on *server, limit int64, window time.Duration) (func(http.Handler) http.Handler, error)

// site is the net/http server and the client of all middleware.
type site struct {
	mux     *http.ServeMux
	server  *httptest.Server
	client  *http.Client
	mounted int
}

// connections call a site at the same time.
const connections = 16

func newSite() *site {
	mux := http.NewServeMux()
	return &site{mux: mux, server: httptest.NewServer(mux),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * connections}}}
}

// subjectHeader is what a request is counted for.
const subjectHeader = "X-Subject"

func subjectOfRequest(r *http.Request) string { return r.Header.Get(subjectHeader) }

// hello is the handler that is limited.
var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello\n") })

// mount serves a handler, and returns what asks it.
func (s *site) mount(h http.Handler) decider {
	s.mounted++
	path := "/" + strconv.Itoa(s.mounted)
	s.mux.Handle(path, h)
	return func(ctx context.Context, subject string) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.server.URL+path, nil)
		if err != nil {
			return false, err
		}
		request.Header.Set(subjectHeader, subject)
		response, err := s.client.Do(request)
		if err != nil {
			return false, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if code := response.StatusCode; err == nil && code != http.StatusOK && code != http.StatusTooManyRequests {
			err = fmt.Errorf("status %s", response.Status)
		}
		return response.StatusCode == http.StatusOK, err
	}
}

// peer is a middleware as a library that is asked through the site.
func (s *site) peer(name, module, guarantee string, wrap limited) peer {
	return peer{name: name, module: module, guarantee: guarantee,
		make: func(on *server, limit int64, window time.Duration) (decider, error) {
			middleware, err := wrap(on, limit, window)
			if err != nil {
				return nil, err
			}
			return s.mount(middleware(hello)), nil
		}}
}

const noLimit = "no limit"

// httpPeers are the handler alone, ours by hand and by httplimit, and the libraries that have a middleware and Redis.
func (s *site) httpPeers() []peer {
	return []peer{
		s.peer(noLimit, "", none, alone),
		s.peer("list_log by hand", "", anyWindow, oursByHand),
		s.peer("list_log, httplimit", "", anyWindow, oursLimited((*loader.Loader).ListLog)),
		s.peer("slice_ring, httplimit", "", slicewise, oursLimited(ringBeside)),
		s.peer("gcra, httplimit", "", burstRate, oursLimited((*loader.Loader).GCRA)),
		s.peer("throttled", "github.com/throttled/throttled/v2", burstRate, throttledLimited),
		s.peer("ulule/limiter", "github.com/ulule/limiter/v3", fixedWindow, ululeLimited),
		s.peer("httprate-redis", "github.com/go-chi/httprate-redis", estimate, httprateLimited),
	}
}

func alone(*server, int64, time.Duration) (func(http.Handler) http.Handler, error) {
	return func(next http.Handler) http.Handler { return next }, nil
}

func oursByHand(on *server, limit int64, window time.Duration) (func(http.Handler) http.Handler, error) {
	return byHand(loader.New(on.Client).ListLog("http", loader.Limit{Permits: limit, Window: window})), nil
}

func oursLimited[L loader.Limiter](
	limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) L) limited {
	return func(on *server, limit int64, window time.Duration) (func(http.Handler) http.Handler, error) {
		l := limiter(loader.New(on.Client), "http", loader.Limit{Permits: limit, Window: window})
		m := httplimit.New(l, httplimit.KeyByHeader(subjectHeader))
		return m.Handler, m.Check()
	}
}

func throttledLimited(on *server, limit int64, window time.Duration) (func(http.Handler) http.Handler, error) {
	l, err := throttledLimiter(on, limit, window)
	m := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{Custom: subjectOfRequest}}
	return m.RateLimit, err
}

func ululeLimited(on *server, limit int64, window time.Duration) (func(http.Handler) http.Handler, error) {
	l, err := ululeLimiter(on, limit, window)
	return stdlib.NewMiddleware(l, stdlib.WithKeyGetter(subjectOfRequest)).Handler, err
}

func httprateLimited(on *server, limit int64, window time.Duration) (func(http.Handler) http.Handler, error) {
	return httprateLimiter(on, limit, window).Handler, nil
}

// byHand is what a handler does without httplimit: it asks the limiter, and answers 429 with Retry-After.
func byHand(limiter loader.Limiter) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			d, err := limiter.Allow(r.Context(), subjectOfRequest(r))
			switch {
			case err != nil:
				http.Error(w, "the limit cannot be checked now", http.StatusServiceUnavailable)
			case !d.Granted:
				w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfterSeconds(), 10))
				http.Error(w, "too many requests", http.StatusTooManyRequests)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

// An httpRun is a middleware while it is measured.
type httpRun struct {
	peerRun
	granted, denied *load
}

// https measures every middleware once a round, and audits it.
func (b *bench) https(ctx context.Context) ([]HTTP, error) {
	s := newSite()
	defer s.server.Close()
	var runs []*httpRun
	for _, p := range s.httpPeers() {
		run, err := newHTTPRun(p, b.server)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		runs = append(runs, run)
	}
	for round := range b.rounds {
		b.progress("http: round %d of %d", round+1, b.rounds)
		loads := func(r *httpRun) error {
			return errors.Join(r.granted.run(ctx, b.loadSpan/2), r.denied.run(ctx, b.loadSpan/2))
		}
		if err := inTurn(round, runs, loads); err != nil {
			return nil, err
		}
	}
	var rows []HTTP
	for _, run := range runs {
		b.progress("http: %s: audit", run.name)
		row, err := run.row(ctx, b, runs[0])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", run.name, err)
		}
		rows = append(rows, row)
	}
	return rows, b.server.FlushAll(ctx).Err()
}

// newHTTPRun asks about many subjects far from their limit, and about one whose limit is used up.
func newHTTPRun(p peer, on *server) (*httpRun, error) {
	grant, err := p.make(on, peerLimit, time.Second)
	if err != nil {
		return nil, err
	}
	deny, err := p.make(on, 1, day)
	if err != nil {
		return nil, err
	}
	asking := func(decide decider, subject func(i int) string, want bool) *load {
		return &load{goroutines: connections, caller: caller{p.name, 1, func(ctx context.Context, i int) error {
			got, err := decide(ctx, subject(i))
			if err == nil && got != want && p.guarantee != none {
				err = fmt.Errorf("granted %t, want %t", got, want)
			}
			return err
		}}}
	}
	run := &httpRun{peerRun: peerRun{peer: p},
		granted: asking(grant, func(i int) string { return p.name + subjectOf(i) }, true),
		denied:  asking(deny, func(int) string { return p.name }, false)}
	_, err = deny(context.Background(), p.name)
	return run, err
}

func (r *httpRun) row(ctx context.Context, b *bench, base *httpRun) (HTTP, error) {
	library, err := r.library(ctx, b)
	return HTTP{library, r.granted.serving(base.granted), r.denied.serving(base.denied)}, err
}

// serving is what a load measured, beside that of the handler alone.
func (l *load) serving(base *load) Serving {
	var ratios []float64
	for round, n := range l.perSecond {
		ratios = append(ratios, n/base.perSecond[round])
	}
	slices.Sort(l.latencies)
	return Serving{spreadOf(l.perSecond), spreadOf(ratios), l.percentile(0.5), l.percentile(0.99)}
}
