package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
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

// String is the cells of a table.
func (s Serving) String() string {
	return row(fmt.Sprintf("%.0f", s.PerSecond.Median), s.Ratio, fmt.Sprintf("%.0f", s.P50), fmt.Sprintf("%.0f", s.P99))
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
		for i := range runs {
			run := runs[(i+round)%len(runs)]
			for _, l := range []*load{run.granted, run.denied} {
				if err := l.run(ctx, b.loadSpan/2); err != nil {
					return nil, fmt.Errorf("%s: %w", run.name, err)
				}
			}
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

// An HTTPCost is what httplimit adds to asking the limiter by hand, without the server around them.
type HTTPCost struct {
	Limiter    string  `json:"limiter"`
	Headers    string  `json:"headers"` // of httplimit
	Outcome    string  `json:"outcome"`
	HandAllocs float64 `json:"hand_allocs"`
	Allocs     float64 `json:"allocs"`
	Time       Spread  `json:"time"` // of a request, to one by hand in the same round
}

// A handmade is a limiter that is asked by hand and by httplimit.
type handmade struct {
	name, headers, outcome string
	limiter                loader.Limiter
	options                []httplimit.Option
}

func handmades(limits *loader.Loader) []handmade {
	wide, closed := loader.PerSecond(1e6), loader.Limit{Permits: 1, Window: day}
	open, none := limits.ListLog("open", wide), []httplimit.Option{httplimit.Headers(0)}
	two := limits.SliceRing("two", []loader.Limit{wide, loader.PerMinute(6e7)})
	return []handmade{
		{"list_log", "RateLimit", granted, open, nil},
		{"list_log", "none", granted, open, none},
		{"gcra", "RateLimit", granted, limits.GCRA("gcra", wide), nil},
		{"slice_ring, two windows", "RateLimit", granted, two, nil},
		{"list_log", "RateLimit", denied, limits.ListLog("closed", closed), nil},
		{"list_log", "none", denied, limits.ListLog("closed", closed), none},
	}
}

// httpCosts alternates requests by hand and by httplimit.
func (b *bench) httpCosts(ctx context.Context) ([]HTTPCost, error) {
	limits := loader.New(b.server.Client)
	if err := limits.Preload(ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx) // as the server's are
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	request.Header.Set(subjectHeader, "subject")
	var rows []HTTPCost
	for _, h := range handmades(limits) {
		b.progress("http: %s, %s, headers: %s", h.name, h.outcome, h.headers)
		row, err := b.httpCost(h, request)
		if err != nil {
			return nil, fmt.Errorf("httplimit, %s: %w", h.name, err)
		}
		rows = append(rows, row)
	}
	return rows, b.server.FlushAll(ctx).Err()
}

func (b *bench) httpCost(h handmade, request *http.Request) (HTTPCost, error) {
	want := http.StatusOK
	if h.outcome == denied {
		want = http.StatusTooManyRequests
		if _, err := h.limiter.Allow(request.Context(), subjectOfRequest(request)); err != nil {
			return HTTPCost{}, err
		}
	}
	var failed error
	serving := func(handler http.Handler) func() {
		w := &discard{header: http.Header{}}
		return func() {
			clear(w.header)
			w.status = http.StatusOK
			if handler.ServeHTTP(w, request); w.status != want {
				failed = cmp.Or(failed, fmt.Errorf("status %d, want %d", w.status, want))
			}
		}
	}
	hand := serving(byHand(h.limiter)(hello))
	ours := serving(httplimit.New(h.limiter, httplimit.KeyByHeader(subjectHeader), h.options...).Handler(hello))
	ratios := b.ratios(hand, ours)
	return HTTPCost{h.name, h.headers, h.outcome, testing.AllocsPerRun(b.calls, hand), testing.AllocsPerRun(b.calls, ours),
		spreadOf(ratios)}, failed
}

// discard is a response that nobody reads.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }
