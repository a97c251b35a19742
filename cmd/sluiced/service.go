package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader"
)

// maxMessage is the longest request, in bytes.
const maxMessage = 256 << 10

// service is Envoy's RateLimitService.
type service struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	limits      *limits
	timeout     time.Duration // of a call
	authTimeout time.Duration // of one of forward auth
	headers     headers
	metadata    bool
	calls       chan struct{} // a place for each call at once
	metrics     *metrics
	log         *rarelog.Log // of requests that no file is about, and of those that forward auth refuses
}

// ShouldRateLimit decides about the descriptors of a request.
func (s *service) ShouldRateLimit(
	ctx context.Context, r *ratelimitv3.RateLimitRequest,
) (*ratelimitv3.RateLimitResponse, error) {
	began := time.Now()
	response, err := s.answer(ctx, r)
	s.metrics.duration.Record(ctx, time.Since(began).Seconds(), byGRPC)
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

// handler serves JSON and forward auth. A ServeMux would redirect paths that are not clean.
func (s *service) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case path == "/json":
			s.serveJSON(w, r)
		case isAuth(path):
			s.serveAuth(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

// serveJSON is ShouldRateLimit in proto3 JSON: 200, 429, 400 for what is malformed, 503 without a decision.
func (s *service) serveJSON(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "want POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxMessage))
	if err != nil {
		http.Error(w, "want a body of at most 256 KiB", http.StatusRequestEntityTooLarge)
		return
	}
	var request ratelimitv3.RateLimitRequest
	if err := protojson.Unmarshal(body, &request); err != nil {
		s.metrics.count(r.Context(), s.metrics.refusals, "malformed")
		http.Error(w, "want a RateLimitRequest in JSON: "+err.Error(), http.StatusBadRequest)
		return
	}
	began := time.Now()
	response, err := s.answer(r.Context(), &request)
	s.metrics.duration.Record(r.Context(), time.Since(began).Seconds(), byJSON)
	_, bad := errors.AsType[*malformed](err)
	switch {
	case bad:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	for _, h := range response.ResponseHeadersToAdd {
		w.Header().Add(h.Key, h.Value)
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == ratelimitv3.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	text, _ := protojson.Marshal(response) // of a message that this process made
	_, _ = w.Write(text)
}

// errBusy is the error of a call beside too many others.
var errBusy = errors.New("too many calls at once: raise --max-calls, or run more instances")

// answer decides about a request, in no more than the timeout.
func (s *service) answer(ctx context.Context, r *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if !s.enter(ctx) {
		return nil, errBusy
	}
	defer func() { <-s.calls }()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	set := s.limits.current.Load()
	d, err := set.newDecision(r)
	if err != nil {
		s.metrics.count(ctx, s.metrics.refusals, "malformed")
		return nil, err
	}
	defer d.Release()
	if d.isUnmatched() {
		s.noteUnmatched(ctx, set, r.Domain)
	}
	err = d.decide(ctx, s.limits.loader)
	s.metrics.decided(ctx, d)
	if wrong, ok := errors.AsType[*loader.ArgumentError](err); ok {
		return nil, malformedf("%v", wrong)
	}
	if err != nil { // the loader has logged it
		return nil, errors.New("no decision: " + reason(err))
	}
	return d.answer(s.headers, s.metadata), nil
}

// noteUnmatched tells of a call that no limit is about. A domain that no file has is mostly a mistake.
func (s *service) noteUnmatched(ctx context.Context, set *set, domain string) {
	reason := "descriptor"
	if set.domains[domain] == nil && len(set.domains) > 0 {
		reason = "domain"
		s.log.Error("calls without limits", "", fmt.Errorf("no file has the domain %.100q: the files have %q",
			domain, slices.Sorted(maps.Keys(set.domains))))
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

// serveAuth is forward auth, with a place for each call.
func (s *service) serveAuth(w http.ResponseWriter, r *http.Request) {
	if !s.enter(r.Context()) {
		http.Error(w, errBusy.Error(), http.StatusServiceUnavailable)
		return
	}
	defer func() { <-s.calls }()
	began, within := time.Now(), s.authTimeout+s.limits.current.Load().delay
	_ = http.NewResponseController(w).SetWriteDeadline(began.Add(within + exchangeTime)) // longer than WriteTimeout
	ctx, cancel := context.WithTimeout(r.Context(), within)
	defer cancel()
	refusal, err := s.limits.auth(w, r.WithContext(ctx))
	s.metrics.duration.Record(r.Context(), time.Since(began).Seconds(), byAuth)
	if err != nil {
		s.metrics.count(r.Context(), s.metrics.refusals, refusal)
		s.log.Error("a request of forward auth is refused", refusal, err)
	}
}

// reason is what a client is told of an error: it names no key and no address.
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "Redis did not answer in time"
	}
	return "Redis does not answer"
}
