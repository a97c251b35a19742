package loader_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

const day = 24 * time.Hour

// permits is a limit of n permits in a window.
func permits(n int64, window time.Duration) loader.Limit {
	return loader.Limit{Permits: n, Window: window}
}

// batched asks for n permits by a Batch of one.
func batched(limits *loader.Loader, limiter loader.Limiter, n int64) (loader.Decision, error) {
	batch := limits.Batch()
	r := batch.AllowN(limiter, "s", n)
	_, _ = batch.Do(background)
	return r.Decision, r.Err
}

// wantRefused wants every call of a limiter for n permits to end with the same error. If n is 1, that goes for the
// calls that take no n, and for Check.
func wantRefused(t *testing.T, limits *loader.Loader, limiter loader.Limiter, n int64, want string) {
	t.Helper()
	errs := map[string]error{
		"Allow": errOf(limiter.AllowN(background, "s", n)), "Wait": limiter.WaitN(background, "s", n),
		"batch": errOf(batched(limits, limiter, n)),
	}
	if n == 1 {
		errs["Check"], errs["Peek"] = limiter.Check(), errOf(limiter.Peek(background, "s"))
		errs["Reset"] = limiter.Reset(background, "s")
	}
	if reserver, ok := limiter.(loader.Reserver); ok {
		errs["Reserve"] = errOf(reserver.ReserveN(background, "s", n))
	}
	exceeds := strings.Contains(want, "exceeds limit")
	for method, err := range errs {
		want := want
		if method == "Wait" || method == "Reserve" {
			want = strings.Replace(want, "Allow", method, 1)
		}
		if err == nil || err.Error() != want || errors.Is(err, loader.ErrExceedsLimit) != exceeds {
			t.Errorf("%s: %v\nwant %s", method, err, want)
		}
		if !exceeds {
			as[*loader.ArgumentError](t, err)
		}
	}
	if d, _ := limiter.AllowN(background, "s", n); exceeds && (d.Wait != loader.Never || d.Limit.Permits == 0) {
		t.Errorf("%s: %+v", want, d)
	}
}

// TestRefused passes what no limiter takes: every call is refused without asking, and the error has the limiter's name
// and the value.
func TestRefused(t *testing.T) {
	limits, limit, hour := loader.New(neverAsked(t)), loader.PerMinute(3), time.Hour
	ring := func(opt loader.LimiterOption, windows ...loader.Limit) loader.Limiter {
		if opt == nil {
			return limits.SliceRing("x", windows)
		}
		return limits.SliceRing("x", windows, opt)
	}
	log, zset := limits.ListLog("x", limit), limits.ZSetLog("x", limit)
	burst, odd := loader.Limit{Permits: 3, Window: time.Minute, Burst: 5}, permits(1, time.Second+1)
	big, bucket := limits.ListLog("x", permits(5000, hour)), limits.TokenBucket("x", permits(100, hour))
	const (
		fraction = "window 1.000000001s: want whole microseconds"
		id       = ": want 1 to 128 bytes without |"
		maxWait  = ": want whole microseconds, 0 or more"
		slice    = ": want 1ms to 24h, in whole microseconds"
		longer   = "; more takes longer slices"
	)
	for _, test := range []struct {
		limiter loader.Limiter
		n       int64
		want    string
	}{
		{log, 0, "n 0: want 1 or more"},
		{zset, -1, "n -1: want 1 or more"},
		{log, 4, "Allow(n=4) exceeds limit 3"},
		{limits.GCRA("x", loader.Limit{Permits: 9, Window: time.Minute, Burst: 2}), 3, "Allow(n=3) exceeds limit 2"},
		{ring(nil, limit, loader.PerHour(2)), 3, "Allow(n=3) exceeds limit 2"},
		{big, 1001, "Allow(n=1001) exceeds limit 1000 of one call to a ListLog; GCRA or SliceRing take more"},
		{limits.ZSetLog("x", permits(5000, hour)), 501,
			"Allow(n=501) exceeds limit 500 of one call to a ZSetLog; ListLog, GCRA or SliceRing take more"},
		{bucket, 1000001,
			"Allow(n=1000001) exceeds limit 1000000 of one call to a TokenBucket; GCRA or SliceRing take more"},
		{limits.GCRA("x", permits(10000000, hour)), 10000001, "Allow(n=10000001) exceeds limit 10000000"},
		{ring(nil, permits(1000000000, hour)), 1000000001, "Allow(n=1000000001) exceeds limit 1000000000"},
		{limits.ListLog("x", permits(900, hour)), 1001, "Allow(n=1001) exceeds limit 900"},

		{log.With(permits(2000000, hour)), 1, "2000000 permits: ListLog holds 1000000; GCRA or SliceRing hold more"},
		{zset.With(permits(10001, hour)), 1, "10001 permits: ZSetLog holds 10000; ListLog, GCRA or SliceRing hold more"},
		{limits.GCRA("x", permits(10000001, hour)), 1, "10000001 permits: GCRA holds 10000000; SliceRing holds more"},
		{limits.GCRA("x", loader.Limit{Permits: 1, Window: hour, Burst: 10000001}), 1, "burst 10000001: want up to 10000000"},
		{bucket.With(permits(1000001, hour)), 1, "1000001 permits: TokenBucket holds 1000000; GCRA or SliceRing hold more"},
		{ring(nil, limit, permits(1000000001, hour)), 1, "1000000001 permits: SliceRing holds 1000000000"},
		{limits.TokenBucket("x", loader.PerMinute(-1)), 1, "permits -1: want 0 or more"},
		{limits.GCRA("x", loader.Limit{Permits: 1, Window: time.Minute, Burst: -1}), 1, "burst -1: want 0 or more"},
		{limits.ListLog("x", burst), 1, "burst 5: ListLog has none, GCRA has"},
		{limits.ZSetLog("x", burst), 1, "burst 5: ZSetLog has none, GCRA has"},
		{limits.TokenBucket("x", burst), 1, "burst 5: TokenBucket has none, GCRA has"},
		{ring(nil, limit, burst), 1, "burst 5: SliceRing has none, GCRA has"},
		{limits.SliceRing("x", nil), 1, "0 limits: want 1 to 8"},
		{ring(loader.Slice(time.Second), make([]loader.Limit, 9)...), 1, "9 limits: want 1 to 8"},

		{zset.WithID(""), 1, `id ""` + id},
		{zset.WithID("a|b"), 1, `id "a|b"` + id},
		{zset.WithID(strings.Repeat("x", 129)), 1, `id "` + strings.Repeat("x", 129) + `"` + id},
		{limits.TokenBucket("x", limit, loader.ClientID("")), 1, `ClientID "": want at least one character`},
		{limits.GCRA("x", limit, loader.PerClient()), 1, "PerClient is an option of TokenBucket, not of GCRA"},
		{ring(loader.ClientID("me"), limit), 1, "ClientID is an option of TokenBucket, not of SliceRing"},
		{limits.GCRA("x", limit, loader.RememberDenials(0)), 1, "RememberDenials 0: want 1 or more"},
		{limits.GCRA("x", limit, loader.FailLocal(1.5)), 1, "FailLocal 1.5: want a share above 0 and up to 1"},

		{limits.ListLog("x", odd), 1, fraction},
		{limits.ZSetLog("x", odd), 1, fraction},
		{limits.GCRA("x", odd), 1, fraction},
		{limits.TokenBucket("x", odd), 1, fraction},
		{ring(nil, limit, odd), 1, fraction},
		{ring(nil, odd, permits(1, time.Minute+1)), 1, fraction},
		{limits.SliceRing("x", []loader.Limit{limit}).With(odd), 1, fraction},
		{limits.GCRA("x", limit, loader.MaxWait(-1)), 1, "MaxWait -1ns" + maxWait},
		{limits.ListLog("x", limit, loader.MaxWait(time.Second/3)), 1, "MaxWait 333.333333ms" + maxWait},
		{ring(loader.MaxWait(1), limit), 1, "MaxWait 1ns" + maxWait},
		{ring(loader.Slice(0), limit), 1, "Slice 0s" + slice},
		{ring(loader.Slice(time.Second+1), limit), 1, "Slice 1.000000001s" + slice},
		{ring(loader.Slice(time.Microsecond), limit), 1, "Slice 1µs" + slice},
		{ring(loader.Slice(day+time.Microsecond), permits(1, 30*day)), 1, "Slice 24h0m0.000001s" + slice},
		{ring(loader.Slice(hour), limit), 1, "window 1m0s: want a slice, 1h0m0s, or more"},
		{ring(nil, permits(1, loader.Never.Truncate(time.Microsecond))), 1,
			"window 1281023h53m38.427387s: want 1ms to 999 days"},
		{ring(loader.Slice(time.Second), loader.PerDay(1)), 1,
			"window 24h0m0s: want up to 16m39s: 999 slices of 1s" + longer},
		{ring(nil, limit, loader.PerHour(9), loader.PerMinute(4)), 1,
			"one window twice: 1m0s and 1m0s are 201 slices of 300ms"},
		{ring(loader.Slice(time.Second), permits(1, 59500*time.Millisecond), limit), 1,
			"one window twice: 59.5s and 1m0s are 61 slices of 1s"},
		{limits.SliceRing("x", []loader.Limit{limit}, loader.Slice(time.Second)).With(loader.PerDay(1)), 1,
			"window 24h0m0s: want up to 16m39s: 999 slices of 1s" + longer},
	} {
		wantRefused(t, limits, test.limiter, test.n, "loader: x: "+test.want)
	}
	wantRefused(t, limits, limits.GCRA("x:y", limit), 1,
		`loader: limiter "x:y": want letters, digits, dot, underscore, dash and slash, at least one`)
	for _, limiter := range []loader.Limiter{loader.ListLog{}, loader.GCRA{}, loader.SliceRing{}.With(limit)} {
		for _, err := range []error{limiter.Check(), errOf(limiter.Allow(background, "s")), limiter.Wait(background, "s")} {
			wantError(t, err, "loader: bad limiter: want one that a method of Loader made")
		}
	}
	wantError(t, errOf(log.Allow(background, "")), `loader: x: subject of 0 bytes: want 1 to 65536 bytes`)
	long := strings.Repeat("x", 65537)
	wantError(t, errOf(log.Allow(background, long)), `loader: x: subject of 65537 bytes: want 1 to 65536 bytes`)
	if _, err := loader.Key("p", "x", long[1:], "ll1"); err != nil {
		t.Error(err)
	}
	for want, limit := range map[string]loader.Limit{
		"burst 5: TokenBucket has none, GCRA has": burst, fraction: odd, "permits 0: want 1 or more": {},
		"window 0s: want 1ms to 366 days":                                         permits(1, 0),
		"1000001 permits: TokenBucket holds 1000000; GCRA or SliceRing hold more": permits(1000001, hour),
	} {
		err := bucket.SetRate(background, "s", limit)
		as[*loader.ArgumentError](t, err)
		wantError(t, err, "loader: x: "+want)
	}
	if err := errOf(loader.Key("p:", "x", "s", "ll1")); !strings.HasPrefix(err.Error(),
		`loader: x: prefix "p:": want letters`) {
		t.Error(err)
	}
	for name, limiter := range map[string]loader.Limiter{
		"the next id": zset.WithID("").WithID(strings.Repeat("x", 128)),
	} {
		if err := limiter.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWindowRange tests windows at both ends of what each script takes: the loader refuses what is outside, in the
// units in which it was passed, and sends nothing; what is inside the server takes.
func TestWindowRange(t *testing.T) {
	eachLimiter(t, func(t *testing.T, i int) {
		longest, name := 366*day, "366 days"
		if makers[i].name == "SliceRing" {
			longest, name = 999*day, "999 days"
		}
		make := func(l *loader.Loader, window time.Duration) loader.Limiter {
			if makers[i].name == "SliceRing" { // with slices that suit the window
				return l.SliceRing("test", []loader.Limit{permits(1, window)})
			}
			return makers[i].make(l, permits(1, window))
		}
		for _, window := range []time.Duration{
			0, -time.Minute, 1, 999 * time.Microsecond, longest + time.Microsecond, longest + 1, loader.Never,
		} {
			want := "loader: test: window " + window.String() + ": want 1ms to " + name
			limits := loader.New(neverAsked(t))
			wantRefused(t, limits, make(limits, window), 1, want)
		}
		for _, window := range []time.Duration{time.Millisecond, longest} {
			_, rdb := fake(t)
			wantGrant(t, make(loader.New(rdb), window), "s", 1)
		}
		if makers[i].name != "SliceRing" {
			wantDenial(t, makers[i].make(loader.New(neverAsked(t)), loader.Limit{}), "s", 1)
		}
	})
}

// TestBurstThatTakesTooLong tests bursts that take more than 2^52 us to come back: the loader says how large one may
// be, and the script takes one of that size.
func TestBurstThatTakesTooLong(t *testing.T) {
	tests := []struct {
		limit loader.Limit
		most  int64
		want  string
	}{
		{permits(1, 366*day), 142, "burst 143: want up to 142 with 1 permit in 366 days"},
		{permits(7, 366*day), 996, "burst 997: want up to 996 with 7 permits in 366 days"},
		{permits(3, time.Hour), 3752999, "burst 3753000: want up to 3752999 with 3 permits in 1h0m0s"},
	}
	for _, test := range tests {
		_, rdb := fake(t)
		test.limit.Burst = test.most
		wantGrant(t, loader.New(rdb).GCRA("x", test.limit), "s", test.most)
		test.limit.Burst++
		_, err := loader.New(neverAsked(t)).GCRA("x", test.limit).Allow(background, "s")
		wantError(t, err, "loader: x: "+test.want)
	}
}

// TestAsMuchAsAScriptTakes asks for the most that each script takes.
func TestAsMuchAsAScriptTakes(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		limits := loader.New(rdb)
		for name, test := range map[string]struct {
			limiter loader.Limiter
			n       int64
		}{
			"ListLog":     {limits.ListLog("x", permits(1000000, time.Hour)), 1000},
			"ZSetLog":     {limits.ZSetLog("x", permits(10000, time.Hour)), 500},
			"GCRA":        {limits.GCRA("x", permits(10000000, time.Hour)), 10000000},
			"TokenBucket": {limits.TokenBucket("x", permits(1000000, time.Hour)), 1000000},
			"SliceRing":   {limits.SliceRing("x", []loader.Limit{permits(1000000000, time.Hour)}), 1000000000},
		} {
			t.Run(name, func(t *testing.T) {
				wantGrant(t, test.limiter, "s", test.n)
			})
		}
	})
}

// TestNilOptions has nil among the options: it does nothing.
func TestNilOptions(t *testing.T) {
	limits := loader.New(neverAsked(t), nil, loader.Prefix("p"), nil)
	must(t, limits.ListLog("x", loader.PerMinute(1), nil, loader.MaxWait(time.Second), nil).Check())
}

// hollow is a wrapper around no client.
type hollow struct{ redis.UniversalClient }

func (hollow) Unwrap() redis.UniversalClient { return nil }

// TestNoClient makes loaders on nothing: every call of theirs is an error, and none a panic.
func TestNoClient(t *testing.T) {
	options := []loader.Option{
		loader.Breaker(1, time.Second),
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
				wantRefused(t, limits, makers[i].make(limits, loader.PerMinute(1)), 1, want)
			})
			ring := limits.SliceRing("x", []loader.Limit{loader.PerMinute(1)}, loader.Slice(time.Second))
			zset := limits.ZSetLog("x", loader.PerMinute(1)).WithID("a")
			bucket := limits.TokenBucket("x", loader.PerMinute(1))
			for method, err := range map[string]error{
				"Ahead": errOf(ring.Ahead(loader.AheadOptions{})), "Preload": limits.Preload(background),
				"SetRate": bucket.SetRate(background, "s", loader.PerMinute(1)), "Reserve": errOf(zset.Reserve(background, "s")),
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
	limits := loader.New(neverAsked(t))
	const prefix = ": want letters, digits, dot, underscore and dash, at least one"
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
			"the prefix": {loader.New(neverAsked(t), loader.Prefix("")), loader.PerMinute(3), nil, `loader: prefix ""` +
				prefix},
			"braces": {loader.New(neverAsked(t), loader.Prefix("{p}")), loader.PerMinute(3), nil,
				`loader: prefix "{p}"` + prefix},
			"Timeout": {loader.New(neverAsked(t), loader.Timeout(-1)), loader.PerMinute(3), nil,
				"loader: Timeout -1ns: want 1ms or more"},
			"a short Timeout": {loader.New(neverAsked(t), loader.Timeout(time.Microsecond)), loader.PerMinute(3), nil,
				"loader: Timeout 1µs: want 1ms or more"},
			"Breaker": {loader.New(neverAsked(t), loader.Breaker(0, time.Second)), loader.PerMinute(3), nil,
				"loader: Breaker 0, 1s: want 1 failure or more, and a pause above 0"},
			"no pause": {loader.New(neverAsked(t), loader.Breaker(1, 0)), loader.PerMinute(3), nil,
				"loader: Breaker 1, 0s: want 1 failure or more, and a pause above 0"},
		} {
			t.Run(name, func(t *testing.T) {
				limiter := makers[i].make(test.limits, test.limit, test.opts...)
				if test.want == "" {
					must(t, limiter.Check())
					return
				}
				wantRefused(t, test.limits, limiter, 1, test.want)
			})
		}
	})
}

// Every limiter has its name, also a copy with another limit; a zero limiter has none.
func TestName(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	eachLimiter(t, func(t *testing.T, i int) {
		limiter := makers[i].make(limits, loader.PerMinute(1)).(interface{ Name() string })
		if got := limiter.Name(); got != "test" {
			t.Errorf("Name() = %q", got)
		}
	})
	for _, test := range []struct{ got, want string }{
		{limits.Concurrency("slots", 1, time.Minute).With(2).Name(), "slots"},
		{limits.Budget("budget", []loader.Limit{loader.PerMinute(1)}).Name(), "budget"},
		{limits.ListLog("list", loader.PerMinute(1)).With(loader.PerMinute(2)).Name(), "list"},
		{loader.ListLog{}.Name(), ""}, {loader.Concurrency{}.Name(), ""},
	} {
		if test.got != test.want {
			t.Errorf("Name() = %q, want %q", test.got, test.want)
		}
	}
}
