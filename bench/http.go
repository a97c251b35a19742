package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/throttled/throttled/v2"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
)

// connections call a site at the same time.
const connections = 16

// site is the net/http server and the client of all middleware.
type site struct {
	mux     *http.ServeMux
	server  *httptest.Server
	client  *http.Client
	mounted int
}

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

// A limited puts the middleware of a library before a handler.
type limited func(h http.Handler, on *server, limit int64, window time.Duration) (http.Handler, error)

// middleware is a library as a contender that is asked through the site.
func (s *site) middleware(name, module, promise string, wrap limited) contender {
	return contender{name, module, promise, func(on *server, limit int64, window time.Duration) (decider, error) {
		h, err := wrap(hello, on, limit, window)
		if err != nil {
			return nil, err
		}
		return s.mount(h), nil
	}}
}

// contenders are the handler alone, ours by hand and by httplimit, and the libraries that have a middleware and Redis.
func (s *site) contenders() []contender {
	return []contender{
		s.middleware("no limit", "", none, unlimited),
		s.middleware("list_log by hand", "", anyWindow, byHand),
		s.middleware("list_log, httplimit", "", anyWindow, oursLimited((*loader.Loader).ListLog)),
		s.middleware("slice_ring, httplimit", "", slicewise, oursLimited(oneWindow)),
		s.middleware("gcra, httplimit", "", burstRate, oursLimited((*loader.Loader).GCRA)),
		s.middleware("throttled", "github.com/throttled/throttled/v2", burstRate, throttledLimited),
		s.middleware("ulule/limiter", "github.com/ulule/limiter/v3", fixedWindow, ululeLimited),
		s.middleware("httprate-redis", "github.com/go-chi/httprate-redis", estimate, httprateLimited),
	}
}

func unlimited(h http.Handler, _ *server, _ int64, _ time.Duration) (http.Handler, error) {
	return h, nil
}

// byHand is what a handler does without httplimit: it asks the limiter, and answers 429 with Retry-After.
func byHand(next http.Handler, on *server, limit int64, window time.Duration) (http.Handler, error) {
	limiter := loader.New(on.Client).ListLog("hand", loader.Limit{Permits: limit, Window: window})
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
	}), nil
}

func oursLimited[L loader.Limiter](
	limiter func(*loader.Loader, string, loader.Limit, ...loader.LimiterOption) L) limited {
	return func(h http.Handler, on *server, limit int64, window time.Duration) (http.Handler, error) {
		l := limiter(loader.New(on.Client), "http", loader.Limit{Permits: limit, Window: window})
		m := httplimit.New(l, httplimit.KeyByHeader(subjectHeader))
		return m.Handler(h), m.Check()
	}
}

func throttledLimited(h http.Handler, on *server, limit int64, window time.Duration) (http.Handler, error) {
	l, err := throttledLimiter(on, limit, window)
	m := throttled.HTTPRateLimiterCtx{RateLimiter: l, VaryBy: &throttled.VaryBy{Custom: subjectOfRequest}}
	return m.RateLimit(h), err
}

func ululeLimited(h http.Handler, on *server, limit int64, window time.Duration) (http.Handler, error) {
	store, err := ululeredis.NewStore(on.Client)
	l := limiter.New(store, limiter.Rate{Period: window, Limit: limit})
	return stdlib.NewMiddleware(l, stdlib.WithKeyGetter(subjectOfRequest)).Handler(h), err
}

func httprateLimited(h http.Handler, on *server, limit int64, window time.Duration) (http.Handler, error) {
	return httprateLimiter(on, limit, window).Handler(h), nil
}

// https measures every middleware: with many subjects far from their limit, and with one whose limit is used up.
func (b *bench) https(ctx context.Context) ([]*Row, error) {
	s := newSite()
	defer s.server.Close()
	tasks := []task{
		{name: "granted", limit: peerLimit, window: time.Second, goroutines: connections},
		{name: "denied", limit: 1, window: day, full: true, goroutines: connections},
	}
	var rows []*Row
	contenders := map[*Row]contender{}
	for _, c := range s.contenders() {
		row := c.row()
		rows = append(rows, row)
		contenders[row] = c
	}
	err := inTurn(b, rows, func(row *Row, round int) error {
		for _, t := range tasks {
			sample, err := b.ask(ctx, contenders[row], t, round)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", row.Name, t.name, err)
			}
			row.noteLoad(t.name+" ", sample)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		for _, t := range tasks {
			for round, perSecond := range row.rounds[t.name+" per second"] {
				row.note(t.name+" to no limit", perSecond/rows[0].rounds[t.name+" per second"][round])
			}
		}
	}
	return rows, nil
}
