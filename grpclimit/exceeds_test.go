package grpclimit_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/loader"
)

// A call that costs more than a limit is denied by that limit for ever, and charges nothing: on a server and a client,
// with one limit and with several, or one that is charged twice. A server says what the limit is.
func TestExceedsLimit(t *testing.T) {
	limits, _ := newLimits(t)
	all, small := grpclimit.KeyOf("all"), limits.ListLog("small", loader.PerMinute(2))
	large, tiny := limits.ListLog("large", loader.PerMinute(9)), limits.ListLog("tiny", loader.PerMinute(1))
	quotas := map[string]int64{"small": 2, "tiny": 1, "large": 9}
	for name, row := range map[string]struct {
		limiters []loader.Limiter
		want     []string
	}{
		"one": {[]loader.Limiter{small}, []string{"small"}},
		"two": {[]loader.Limiter{large, small}, []string{"small"}},
		"all": {[]loader.Limiter{tiny, large, small}, []string{"tiny", "small"}},

		"the same": {[]loader.Limiter{large, large}, []string{"large"}},
	} {
		var result grpclimit.Result
		var charges []grpclimit.Charge
		for _, limiter := range row.limiters {
			charges = append(charges, grpclimit.Charge{Limiter: limiter, Key: all, N: 5})
		}
		limit := checked(t, grpclimit.PerRequest(limits,
			func(*grpclimit.Call) ([]grpclimit.Charge, error) { return charges, nil },
			grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { result = r })))
		s := &service{}
		server, client := dialMemory(t, s, serverWith(limit)), dialMemory(t, s, nil, clientWith(limit)...)
		for _, c := range []openFunc{unary, duplex} {
			for i, err := range []error{c(server, within(t, 30*time.Second)), c(client, within(t, 30*time.Second))} {
				retry, quota := detailsOf(err)
				var policies []string
				for _, v := range quota.GetViolations() {
					policies = append(policies, v.QuotaId)
					if isServer := i == 0; isServer && (v.QuotaValue != quotas[v.QuotaId] || v.Description == "") {
						t.Errorf("%s: %v", name, v)
					}
				}
				if status.Code(err) != codes.ResourceExhausted || retry != nil || !slices.Equal(policies, row.want) {
					t.Errorf("%s: %v, RetryInfo %v, violations of %q", name, err, retry, policies)
				}
			}
			never := func(d grpclimit.Decision) bool { return d.Wait == loader.Never }
			if denied := result.Denied(false); result.Outcome != grpclimit.Denied || !slices.Equal(denied, row.want) ||
				!slices.ContainsFunc(result.Decisions, never) || !errors.Is(result.Err, loader.ErrExceedsLimit) {
				t.Errorf("%s: told of %+v", name, result)
			}
		}
		if got := s.calls.Load(); got != 0 {
			t.Errorf("%s: %d calls", name, got)
		}
	}
	wantRemaining(t, large, "all", 9)
}

// In shadow a call that costs more than the limit is a denial, which the observer is told of.
func TestShadowExceeds(t *testing.T) {
	limits, _ := newLimits(t)
	all := grpclimit.KeyOf("all")
	one, two := limits.ListLog("one", loader.PerMinute(2)), limits.GCRA("two", loader.PerMinute(3))
	for _, charges := range [][]grpclimit.Charge{
		{{Limiter: one, Key: all, N: 5}}, {{Limiter: one, Key: all, N: 5}, {Limiter: two, Key: all, N: 5}},
	} {
		var result grpclimit.Result
		limit := checked(t, grpclimit.PerRequest(limits,
			func(*grpclimit.Call) ([]grpclimit.Charge, error) { return charges, nil },
			grpclimit.Shadow(), grpclimit.Observe(func(_ *grpclimit.Call, r grpclimit.Result) { result = r })))
		for _, c := range []pb.TestServiceClient{
			dialMemory(t, &service{}, serverWith(limit)), dialMemory(t, &service{}, nil, clientWith(limit)...),
		} {
			wantCodes(t, c, ok)
			if denied := result.Denied(true); !slices.Equal(denied, []string{"one", "two"}[:len(charges)]) ||
				result.Outcome != grpclimit.Allowed || result.Decisions[0].Wait != loader.Never {
				t.Errorf("told of %+v", result)
			}
		}
	}
}
