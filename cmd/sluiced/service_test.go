package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/embedded"
)

// newService returns a service over these files, on an embedded Redis whose clock stands still, and what stops that.
func newService(t *testing.T, sources map[string]string, opts ...func(*limits)) (*service, func()) {
	t.Helper()
	server, err := embedded.Start()
	must(t, err)
	t.Cleanup(server.Close)
	server.SetTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	made, err := newMetrics()
	must(t, err)
	limiters := loader.New(server.Client(), loader.Timeout(time.Second), loader.Observe(made.observer))
	l := &limits{loader: limiters, metrics: made, log: discard}
	l.authLoader = l.loader
	for _, opt := range opts {
		opt(l)
	}
	must(t, l.loader.Preload(context.Background()))
	texts := map[string][]byte{}
	for name, text := range sources {
		texts[name] = []byte(text)
	}
	read, err := parseFiles(texts)
	must(t, err)
	must(t, l.apply(read))
	return &service{
		limits: l, timeout: time.Second, authTimeout: time.Second, calls: make(chan struct{}, 100), metrics: made,
		log: rarelog.New(discard),
	}, server.Close
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// matchesShown compares answers; "any" stands for any status.
func matchesShown(got, want string) bool {
	a, b := strings.Split(got, " ; "), strings.Split(want, " ; ")
	for i := range b {
		if i >= len(a) || a[i] != b[i] && b[i] != "any" {
			return false
		}
	}
	return len(a) == len(b)
}

// request reads descriptors as "a=1,b=2 own=0 limit=2/HOUR ; c=3 hits=2".
func request(t *testing.T, text string) *ratelimitv3.RateLimitRequest {
	r := &ratelimitv3.RateLimitRequest{Domain: "d"}
	for part := range strings.SplitSeq(text, " ; ") {
		words := strings.Fields(part)
		d := &commonv3.RateLimitDescriptor{}
		for pair := range strings.SplitSeq(words[0], ",") {
			key, value, _ := strings.Cut(pair, "=")
			d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		for _, word := range words[1:] {
			name, value, _ := strings.Cut(word, "=")
			number, unit, _ := strings.Cut(value, "/")
			n, err := strconv.ParseUint(number, 10, 32)
			must(t, err)
			switch name {
			case "hits":
				r.HitsAddend = uint32(n)
			case "own":
				d.HitsAddend = wrapperspb.UInt64(n)
			case "limit":
				d.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{
					RequestsPerUnit: uint32(n), Unit: typev3.RateLimitUnit(typev3.RateLimitUnit_value[unit]),
				}
			}
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	return r
}

// shown writes an answer as the calls of rules.yaml do. It checks what holds for all answers.
func shown(r *ratelimitv3.RateLimitResponse) string {
	over := ratelimitv3.RateLimitResponse_OVER_LIMIT
	parts, denies := make([]string, len(r.Statuses)), false
	for i, s := range r.Statuses {
		parts[i] = "OK"
		if s.Code == over {
			parts[i], denies = "OVER", true
		}
		switch limit := s.CurrentLimit; {
		case limit != nil:
			parts[i] += fmt.Sprintf(" %d/%s %d", limit.RequestsPerUnit, limit.Unit, s.LimitRemaining)
			if s.DurationUntilReset.GetSeconds() < 1 && (s.Code == over || s.LimitRemaining < limit.RequestsPerUnit) {
				parts[i] += " without a reset"
			}
		case s.LimitRemaining == 1<<32-1:
			parts[i] += " unlimited"
		}
	}
	text := strings.Join(parts, " ; ")
	switch {
	case r.OverallCode == ratelimitv3.RateLimitResponse_UNKNOWN:
		text = "overall UNKNOWN: " + text
	case denies && r.OverallCode != over:
		text = "allowed: " + text
	case !denies && r.OverallCode == over:
		text = "denied: " + text
	}
	return text
}

func headersOf(r *ratelimitv3.RateLimitResponse) map[string]string {
	headers := map[string]string{}
	for _, h := range r.ResponseHeadersToAdd {
		headers[h.Key] = h.Value
	}
	return headers
}
