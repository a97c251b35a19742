package loader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/loader/bindings"
)

// wantRefused wants every call of a limiter, and its Check, to be the same *ArgumentError.
func wantRefused(t *testing.T, limits *loader.Loader, limiter loader.Limiter, want string) {
	t.Helper()
	for method, err := range map[string]error{
		"Check": limiter.Check(), "Allow": second(limiter.Allow(background, "s")), "Wait": limiter.Wait(background, "s"),
		"Peek": second(limiter.Peek(background, "s")), "Reset": limiter.Reset(background, "s"),
		"Batch": second(batched(limits, limiter, 1)),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", method, err, want)
		}
		as[*loader.ArgumentError](t, err)
	}
}

// TestIgnoredBefore is of what a caller passes by mistake and what no limiter can follow: it is refused, not ignored.
func TestIgnoredBefore(t *testing.T) {
	limits, minute := loader.New(nobody(t)), loader.PerMinute(3)
	burst := loader.Limit{Permits: 3, Window: time.Minute, Burst: 5}
	open, local := loader.FailOpen(), loader.FailLocal(0.5)
	const two = "loader: x: FailOpen with FailLocal: want one of the two"
	tests := []struct {
		name    string
		limiter loader.Limiter
		want    string
	}{
		{"a burst", limits.ListLog("x", burst), "loader: x: burst 5: ListLog has none, GCRA has"},
		{"a burst", limits.ZSetLog("x", burst), "loader: x: burst 5: ZSetLog has none, GCRA has"},
		{"a burst", limits.TokenBucket("x", burst), "loader: x: burst 5: TokenBucket has none, GCRA has"},
		{"a burst", limits.SliceRing("x", []loader.Limit{minute, burst}), "loader: x: burst 5: SliceRing has none, GCRA has"},
		{"a burst of With", limits.ListLog("x", minute).With(burst), "loader: x: burst 5: ListLog has none, GCRA has"},
		{"an id", limits.ZSetLog("x", minute).WithID(""), `loader: x: id "": want 1 to 128 bytes without |`},
		{"an id and With", limits.ZSetLog("x", minute).WithID("").With(minute),
			`loader: x: id "": want 1 to 128 bytes without |`},
		{"an id with |", limits.ZSetLog("x", minute).WithID("a|b"), `loader: x: id "a|b": want 1 to 128 bytes without |`},
		{"two policies", limits.GCRA("x", minute, open, local), two},
		{"two policies", limits.GCRA("x", minute, local, open), two},
		{"a client id", limits.TokenBucket("x", minute, loader.ClientID("")),
			`loader: x: ClientID "": want at least one character`},
		{"a slice", limits.SliceRing("x", []loader.Limit{minute}, loader.Slice(0)),
			"loader: x: Slice 0s: want 1ms to 24h, in whole microseconds"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { wantRefused(t, limits, test.limiter, test.want) })
	}
	long := limits.ZSetLog("x", minute).WithID(strings.Repeat("x", 129))
	if err := long.Check(); err == nil || !strings.HasPrefix(err.Error(), "loader: x: id ") {
		t.Errorf("an id of 129 bytes: %v", err)
	}
	err := limits.TokenBucket("x", minute).SetLimit(background, "s", burst)
	if err == nil || err.Error() != "loader: x: burst 5: TokenBucket has none, GCRA has" {
		t.Errorf("SetLimit: %v", err)
	}
	for name, limiter := range map[string]loader.Limiter{
		"the same policy twice": limits.GCRA("x", burst, open, loader.FailOpen()),
		"another share":         limits.GCRA("x", minute, local, loader.FailLocal(1)),
		"the next id":           limits.ZSetLog("x", minute).WithID("").WithID(strings.Repeat("x", 128)),
	} {
		if err := limiter.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// hollow is a wrapper around no client.
type hollow struct{ redis.UniversalClient }

func (hollow) Unwrap() redis.UniversalClient { return nil }

// TestNoClient makes loaders on nothing: every call of theirs is an error, and none a panic.
func TestNoClient(t *testing.T) {
	options := []loader.Option{
		loader.ShareRoundTrips(), loader.Breaker(1, time.Second), loader.ReadReplicas(),
		loader.Observe(nil),
	}
	for name, rdb := range map[string]redis.UniversalClient{
		"nil": nil, "Client": (*redis.Client)(nil), "ClusterClient": (*redis.ClusterClient)(nil), "Ring": (*redis.Ring)(nil),
		"a wrapper around nil": hollow{},
	} {
		t.Run(name, func(t *testing.T) {
			limits := loader.New(rdb, options...)
			const want = "loader: client nil: want a redis.Client, ClusterClient, Ring or what wraps one"
			eachLimiter(t, func(t *testing.T, i int) {
				wantRefused(t, limits, makers[i].make(limits, loader.PerMinute(1)), want)
			})
			ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(1)}, loader.LeaseAge(time.Second))
			zset := limits.ZSetLog("x", loader.PerMinute(1)).WithID("a")
			bucket := limits.TokenBucket("x", loader.PerMinute(1))
			_, listing := limits.Nodes(background)
			for method, err := range map[string]error{
				"Leased": second(ring.Leased(loader.LeaseOptions{})), "Nodes": listing, "Preload": limits.Preload(background),
				"Call":     second(limits.Call(background, &sluice.GCRAV1, []string{"k"}, 1, 1000000, 1, 1, 0)),
				"typed":    second(bindings.ListLogV1(background, limits, bindings.ListLogV1Args{Log: "k", Limit: 1, Window: time.Second})),
				"SetLimit": bucket.SetLimit(background, "s", loader.PerMinute(1)), "Reserve": second(zset.Reserve(background, "s")),
			} {
				if err == nil || err.Error() != want {
					t.Errorf("%s: %v", method, err)
				}
			}
		})
	}
}

// TestCheck says what is wrong with a limiter without a subject, and sends nothing.
func TestCheck(t *testing.T) {
	limits := loader.New(nobody(t))
	eachLimiter(t, func(t *testing.T, i int) {
		for name, test := range map[string]struct {
			limits *loader.Loader
			limit  loader.Limit
			opts   []loader.LimiterOption
			want   string
		}{
			"all is well":  {limits, loader.PerMinute(3), []loader.LimiterOption{loader.MaxWait(time.Second)}, ""},
			"a limit of 0": {limits, loader.Limit{}, nil, ""},
			"a limit":      {limits, loader.PerMinute(-3), nil, "loader: test: permits -3: want 0 or more"},
			"an option": {limits, loader.PerMinute(3), []loader.LimiterOption{loader.MaxWait(-1)},
				"loader: test: MaxWait -1ns: want whole microseconds, 0 or more"},
			"an option of the loader": {loader.New(nobody(t), loader.Timeout(-1)), loader.PerMinute(3), nil,
				"loader: Timeout -1ns: want 1ms or more"},
			"the prefix": {loader.New(nobody(t), loader.Prefix("")), loader.PerMinute(3), nil,
				`loader: test: prefix "": want letters, digits, dot, underscore and dash, at least one`},
		} {
			err := makers[i].make(test.limits, test.limit, test.opts...).Check()
			if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
				t.Errorf("%s: %v\nwant %s", name, err, test.want)
			}
		}
	})
	const zero = "loader: bad limiter: want one that a method of Loader made"
	if err := (loader.GCRA{}).Check(); err == nil || err.Error() != zero {
		t.Errorf("the zero limiter: %v", err)
	}
	ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(60)}, loader.LeaseAge(time.Second))
	leased, err := ring.Leased(loader.LeaseOptions{Block: 1})
	must(t, err)
	must(t, leased.Check())
	must(t, leased.Close(background))
	must(t, leased.Check()) // calls are decided by Redis then
}
