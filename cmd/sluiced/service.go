package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/httplimit"
)

// service is Envoy's RateLimitService.
type service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	limits   *limits
	timeout  time.Duration // of a call
	headers  httplimit.HeaderSet
	metadata bool
	calls    chan struct{} // a place for each call at once
	metrics  *metrics
	log      *complaints
}

// ShouldRateLimit decides about the descriptors of a request.
func (s *service) ShouldRateLimit(
	ctx context.Context, r *ratelimitv3.RateLimitRequest,
) (*ratelimitv3.RateLimitResponse, error) {
	response, err := s.answer(ctx, r)
	if err == nil {
		return response, nil
	}
	code := codes.Unavailable
	if _, bad := errors.AsType[*malformed](err); bad {
		code = codes.InvalidArgument
	} else if errors.Is(err, errBusy) {
		code = codes.ResourceExhausted
	}
	return nil, grpcstatus.Error(code, err.Error())
}

// errBusy is the error of a call beside too many others.
var errBusy = errors.New("too many calls at once: raise --max-calls, or run more instances")

// answer decides about a request, in no more than the timeout.
func (s *service) answer(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if !s.enter(ctx) {
		return nil, errBusy
	}
	defer s.leave()
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	set := s.limits.current.Load()
	c, err := set.newCall(r)
	if err != nil {
		s.metrics.count(ctx, s.metrics.refusals, "malformed")
		return nil, err
	}
	if c.isUnmatched() {
		s.noteUnmatched(ctx, set, r.Domain)
	}
	err = c.decide(ctx, s.limits.loader)
	s.metrics.decided(ctx, c, time.Since(began))
	if err != nil { // the loader has logged it
		return nil, errors.New("no decision: " + reason(err))
	}
	return c.answer(s.headers, s.metadata), nil
}

// noteUnmatched tells of a call that no limit is about. A domain that no file has is mostly a mistake.
func (s *service) noteUnmatched(ctx context.Context, set *set, domain string) {
	reason := "descriptor"
	if set.domains[domain] == nil && len(set.domains) > 0 {
		reason = "domain"
		s.log.complain("calls without limits", fmt.Errorf("no file has the domain %.100q: the files have %q", domain,
			slices.Sorted(maps.Keys(set.domains))))
	}
	s.metrics.count(ctx, s.metrics.unmatched, reason)
}

// enter takes a place for a call, if there is one.
func (s *service) enter(ctx context.Context) bool {
	select {
	case s.calls <- struct{}{}:
		return true
	default:
		s.metrics.count(ctx, s.metrics.refusals, "busy")
		return false
	}
}

func (s *service) leave() { <-s.calls }

// serveAuth is forward auth, with a place for each call.
func (s *service) serveAuth(w http.ResponseWriter, r *http.Request) {
	if !s.enter(r.Context()) {
		http.Error(w, errBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	if err := s.limits.auth(w, r); err != nil {
		s.log.complain("a proxy is not trusted", err)
	}
}

// reason is what a client is told of an error: it names no key and no address.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "Redis did not answer in time"
	}
	return "Redis does not answer"
}

// complaints logs errors that every call may meet, but not for every call.
type complaints struct {
	log  *slog.Logger
	last chan time.Time // one: when it was last logged
}

func newComplaints(log *slog.Logger) *complaints {
	c := &complaints{log, make(chan time.Time, 1)}
	c.last <- time.Time{}
	return c
}

// complaintPause is the time between two complaints.
const complaintPause = 10 * time.Second

func (c *complaints) complain(what string, err error) {
	select {
	case last := <-c.last:
		if time.Since(last) >= complaintPause {
			last = time.Now()
			c.log.Error(what, "error", err)
		}
		c.last <- last
	default: // another caller complains
	}
}
