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

	"github.com/sluice-redis/sluice/admission"
	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

type (
	status  = ratelimitv3.RateLimitResponse_DescriptorStatus
	current = ratelimitv3.RateLimitResponse_RateLimit
	unit    = ratelimitv3.RateLimitResponse_RateLimit_Unit
)

// unitOfLimit returns the unit of a decision's window or period. Other windows have UNKNOWN, of which Envoy writes no
// policy.
func unitOfLimit(d loader.Decision) unit {
	const day = 24 * time.Hour
	window := d.Limit.Window
	if !d.PeriodBegin.IsZero() { // a month of 28 days and 23 hours is a month
		for _, usual := range []time.Duration{day, 7 * day, 30 * day, 365 * day} {
			if (window - usual).Abs() < 50*time.Hour {
				window = usual
			}
		}
	}
	switch window {
	case time.Second:
		return ratelimitv3.RateLimitResponse_RateLimit_SECOND
	case time.Minute:
		return ratelimitv3.RateLimitResponse_RateLimit_MINUTE
	case time.Hour:
		return ratelimitv3.RateLimitResponse_RateLimit_HOUR
	case day:
		return ratelimitv3.RateLimitResponse_RateLimit_DAY
	case 7 * day:
		return ratelimitv3.RateLimitResponse_RateLimit_WEEK
	case 30 * day:
		return ratelimitv3.RateLimitResponse_RateLimit_MONTH
	case 365 * day:
		return ratelimitv3.RateLimitResponse_RateLimit_YEAR
	}
	return ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN
}

// answer makes the response to a request that was decided.
func (d *decision) answer(headers headers, metadata bool) *ratelimitv3.RateLimitResponse {
	r := &ratelimitv3.RateLimitResponse{
		OverallCode: ratelimitv3.RateLimitResponse_OK, Statuses: make([]*status, len(d.asked.Descriptors)),
	}
	if d.Outcome == admission.Denied {
		r.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
	}
	for i := range r.Statuses {
		r.Statuses[i] = d.status(i)
	}
	if headers.HeaderSet != 0 {
		r.ResponseHeadersToAdd = d.headers(headers)
	}
	if metadata {
		r.DynamicMetadata = d.metadata(r.Statuses)
	}
	return r
}

// status is the answer about one descriptor. If several limits are about it, it names the one that denies for the
// longest time, or that has the fewest hits remaining.
func (d *decision) status(i int) *status {
	s := &status{Code: ratelimitv3.RateLimitResponse_OK}
	switch {
	case d.refused[i]:
		s.Code = ratelimitv3.RateLimitResponse_OVER_LIMIT
		return s
	case d.unlimited[i]:
		s.LimitRemaining = math.MaxUint32
		return s
	}
	shown, denies := -1, false // of the charges; whether that one denies
	for j := range d.Charges {
		c := &d.Charges[j]
		if c.Shadow || !c.Answered || !slices.Contains(d.limits[j].descriptors, i) {
			continue
		}
		over := c.Denied
		if c.Err != nil && !over {
			continue
		}
		if over {
			wait := admit.Seconds(cmp.Or(d.RetryAfter, loader.Never))
			s.Code, s.DurationUntilReset = ratelimitv3.RateLimitResponse_OVER_LIMIT, &durationpb.Duration{Seconds: wait}
		}
		if c.Decision.Degraded {
			continue
		}
		if shown < 0 || over && !denies || over == denies && isTighter(c.Decision, d.Charges[shown].Decision, over) {
			shown, denies = j, over
		}
	}
	if shown < 0 || denies && d.Outcome != admission.Denied { // a quota that is full, for which another one makes up
		return s
	}
	d.describe(s, shown, denies)
	return s
}

// isTighter reports whether a decision denies for longer than another one, or has fewer hits remaining.
func isTighter(a, b loader.Decision, denies bool) bool {
	if denies {
		return a.Wait > b.Wait
	}
	return a.Remaining < b.Remaining
}

// describe writes the limit and the times of a charge into a status. Envoy takes x-ratelimit-reset from one denial and
// Retry-After from all of them, so that all say how long the request has to wait.
func (d *decision) describe(s *status, i int, denies bool) {
	made, limit := d.Charges[i].Decision, d.Charges[i].Decision.Limit
	name := d.Charges[i].Name
	if rule := d.limits[i].rule; rule != nil {
		name = rule.Name // clients do not see a label
	}
	s.CurrentLimit = &current{
		RequestsPerUnit: uint32(min(limit.Permits, math.MaxUint32)), Unit: unitOfLimit(made), Name: name,
	}
	reset := made.ResetAfter
	if denies {
		reset = max(cmp.Or(d.RetryAfter, limit.Window), time.Second)
	} else {
		s.LimitRemaining = uint32(min(made.Remaining, math.MaxUint32))
	}
	s.DurationUntilReset = durationpb.New((reset + time.Second - 1).Truncate(time.Second))
}

// headers returns the headers of httplimit.
func (d *decision) headers(sent headers) (added []*corev3.HeaderValue) {
	result := d.Result
	result.Decisions = slices.Clone(result.Decisions)
	for i := range result.Decisions {
		if one := &result.Decisions[i]; one.Denies() {
			one.Err = nil // more hits than the limit are a denial as any
		}
	}
	header := http.Header{}
	httplimit.SetHeaders(header, sent.HeaderSet, httplimit.Result{Result: result})
	sent.rename(header)
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			added = append(added, &corev3.HeaderValue{Key: name, Value: value})
		}
	}
	return added
}

// metadata returns what envoyproxy/ratelimit returns with RESPONSE_DYNAMIC_METADATA.
func (d *decision) metadata(statuses []*status) *structpb.Struct {
	descriptors, merged := make([]any, len(statuses)), map[string]any{}
	for i, descriptor := range d.asked.Descriptors {
		entries := make([]any, len(descriptor.Entries))
		for j, e := range descriptor.Entries {
			entries[j] = e.Key + "=" + e.Value
		}
		one := map[string]any{"entries": entries}
		if descriptor.Limit != nil {
			one["limit"] = map[string]any{
				"requestsPerUnit": float64(descriptor.Limit.RequestsPerUnit), "unit": descriptor.Limit.Unit.String(),
			}
		}
		if descriptor.HitsAddend != nil {
			one["hitsAddend"] = float64(descriptor.HitsAddend.Value)
		}
		descriptors[i] = one
		if rule := d.rules[i]; rule != nil && statuses[i].Code == ratelimitv3.RateLimitResponse_OK {
			for key, value := range rule.Metadata {
				if _, found := merged[key]; !found {
					merged[key] = value
				}
			}
		}
	}
	fields := map[string]any{"domain": d.asked.Domain, "descriptors": descriptors,
		"hitsAddend": float64(cmp.Or(d.asked.HitsAddend, 1))}
	if len(merged) > 0 {
		fields["metadata"] = merged
	}
	made, _ := structpb.NewStruct(fields) // of types that it takes; texts that are not UTF-8 do not come by gRPC
	return made
}
