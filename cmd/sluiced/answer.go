package main

import (
	"cmp"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

type (
	status  = ratelimitv3.RateLimitResponse_DescriptorStatus
	current = ratelimitv3.RateLimitResponse_RateLimit
	unit    = ratelimitv3.RateLimitResponse_RateLimit_Unit
)

// windows is the units that the answer knows. Other windows have UNKNOWN, of which Envoy writes no policy.
var windows = map[time.Duration]unit{
	time.Second: ratelimitv3.RateLimitResponse_RateLimit_SECOND, time.Minute: ratelimitv3.RateLimitResponse_RateLimit_MINUTE,
	time.Hour: ratelimitv3.RateLimitResponse_RateLimit_HOUR, day: ratelimitv3.RateLimitResponse_RateLimit_DAY,
	7 * day: ratelimitv3.RateLimitResponse_RateLimit_WEEK, 30 * day: ratelimitv3.RateLimitResponse_RateLimit_MONTH,
	365 * day: ratelimitv3.RateLimitResponse_RateLimit_YEAR,
}

const day = 24 * time.Hour

// answer makes the response to a call that was decided.
func (c *call) answer(headers httplimit.HeaderSet, metadata bool) *ratelimitv3.RateLimitResponse {
	r := &ratelimitv3.RateLimitResponse{
		OverallCode: ratelimitv3.RateLimitResponse_OK, Statuses: make([]*status, len(c.request.Descriptors)),
	}
	if c.denied {
		r.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	for i := range r.Statuses {
		r.Statuses[i] = c.status(i)
	}
	if headers != 0 {
		r.ResponseHeadersToAdd = c.headers(headers)
	}
	if metadata {
		r.DynamicMetadata = c.metadata(r.Statuses)
	}
	return r
}

// status is the answer about one descriptor. If several limits are about it, it names the one that denies for the
// longest time, or that has the fewest hits remaining.
func (c *call) status(i int) *status {
	s := &status{Code: ratelimitv3.RateLimitResponse_OK}
	switch {
	case c.refused[i]:
		s.Code = ratelimitv3.RateLimitResponse_OVER_LIMIT
		return s
	case c.unlimited[i]:
		s.LimitRemaining = math.MaxUint32
		return s
	}
	var named *question
	for _, q := range c.questions {
		if !slices.Contains(q.descriptors, i) || q.mode == shadow || !q.answered || q.err != nil {
			continue
		}
		if q.denies() {
			s.Code, s.DurationUntilReset = ratelimitv3.RateLimitResponse_OVER_LIMIT, whole(c.wait)
		}
		if q.decision.Degraded {
			continue
		}
		if named == nil || q.before(named) {
			named = q
		}
	}
	if named == nil || named.denies() && !c.denied { // a quota that is full, for which another one makes up
		return s
	}
	named.describe(s, c.wait)
	return s
}

// before reports whether a status names this limit rather than another one.
func (q *question) before(other *question) bool {
	if q.denies() != other.denies() {
		return q.denies()
	}
	if q.denies() {
		return q.decision.Wait > other.decision.Wait
	}
	return q.decision.Remaining < other.decision.Remaining
}

// describe writes the limit and the times into a status. Envoy takes x-ratelimit-reset from one denial and Retry-After
// from all of them, so that all say how long the call has to wait.
func (q *question) describe(s *status, wait time.Duration) {
	limit := q.decision.Limit
	s.CurrentLimit = &current{
		RequestsPerUnit: uint32(min(limit.Permits, math.MaxUint32)), Unit: windows[limit.Window], Name: q.shownName(),
	}
	reset := q.decision.ResetAfter
	if q.denies() {
		if reset = wait; reset == loader.Never {
			reset = limit.Window
		}
		reset = max(reset, time.Second)
	} else {
		s.LimitRemaining = uint32(min(q.decision.Remaining, math.MaxUint32))
	}
	s.DurationUntilReset = whole(reset)
}

// whole returns a time in whole seconds, rounded up.
func whole(d time.Duration) *durationpb.Duration {
	return durationpb.New(time.Duration(seconds(d)) * time.Second)
}

// shownName is the name of a limit for clients: theirs if the file has one.
func (q *question) shownName() string {
	if q.rule != nil {
		return q.rule.Name
	}
	return q.name
}

// headers returns the headers of httplimit.
func (c *call) headers(set httplimit.HeaderSet) (added []*corev3.HeaderValue) {
	result := admit.Result{Outcome: admit.Allowed}
	if c.denied {
		if result.Outcome = admit.Denied; c.wait != loader.Never {
			result.RetryAfter = c.wait
		}
	}
	for _, q := range c.questions {
		if q.answered && q.err == nil {
			result.Decisions = append(result.Decisions, admit.Decision{
				Decision: q.decision, Policy: q.name, Subject: q.subject, Shadow: q.mode == shadow,
			})
		}
	}
	header := http.Header{}
	httplimit.SetHeaders(header, set, httplimit.Result{Result: result})
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			added = append(added, &corev3.HeaderValue{Key: name, Value: value})
		}
	}
	return added
}

// metadata returns what envoyproxy/ratelimit returns with RESPONSE_DYNAMIC_METADATA.
func (c *call) metadata(statuses []*status) *structpb.Struct {
	descriptors, merged := make([]any, len(statuses)), map[string]any{}
	for i, d := range c.request.Descriptors {
		entries := make([]any, len(d.Entries))
		for j, e := range d.Entries {
			entries[j] = e.Key + "=" + e.Value
		}
		one := map[string]any{"entries": entries}
		if d.Limit != nil {
			one["limit"] = map[string]any{
				"requestsPerUnit": float64(d.Limit.RequestsPerUnit), "unit": d.Limit.Unit.String(),
			}
		}
		if d.HitsAddend != nil {
			one["hitsAddend"] = float64(d.HitsAddend.Value)
		}
		descriptors[i] = one
		if rule := c.rules[i]; rule != nil && statuses[i].Code == ratelimitv3.RateLimitResponse_OK {
			for key, value := range rule.Metadata {
				if _, found := merged[key]; !found {
					merged[key] = value
				}
			}
		}
	}
	fields := map[string]any{"domain": c.request.Domain, "descriptors": descriptors,
		"hitsAddend": float64(cmp.Or(c.request.HitsAddend, 1))}
	if len(merged) > 0 {
		fields["metadata"] = merged
	}
	made, _ := structpb.NewStruct(fields) // of types that it takes; texts that are not UTF-8 do not come by gRPC
	return made
}
