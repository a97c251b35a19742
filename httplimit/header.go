package httplimit

import (
	"cmp"
	"math"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-redis/sluice/loader"
)

// HeaderSet says which headers are sent: see Headers. Join several by |.
type HeaderSet int

const (
	// Draft11 is RateLimit-Policy and RateLimit as in draft-ietf-httpapi-ratelimit-headers-11:
	//
	//	RateLimit-Policy: "api-1m";q=100;w=61, "api-1h";q=2000;w=3618
	//	RateLimit: "api-1m";r=99;t=61, "api-1h";r=1203;t=3412
	//
	// There is an item for each window: its quota and length in seconds, how much remains, and the time until the
	// window is empty; of a denial at most the time in Retry-After. In a SliceRing, as here, a permit counts for up to
	// a slice longer than the window: for 60.3 s in a minute. A GCRA has its burst and the time that refills it.
	// Slots have the unit "concurrent-requests" and no times. While Redis does not decide there is no RateLimit. The
	// draft is not final: later ones will get names of their own.
	Draft11 HeaderSet = 1 << iota

	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, for clients that know no others: of
	// the window with the fewest permits remaining. Reset is in seconds since 1970 by the clock of Redis, as at GitHub.
	XRateLimit

	// ShadowHeaders sends the headers also for limits in shadow.
	ShadowHeaders
)

// item is what the headers say of one window.
type item struct {
	policy    string
	slot      bool
	quota     int64
	window    int64 // in seconds; 0: there is none
	remaining int64
	reset     time.Duration // noReset: unknown
	now       time.Time     // of the decision; zero if degraded or without a reset
	degraded  bool
}

// noReset is the reset of an item that waiting does not help. It is later than all others.
const noReset = loader.Never

// SetHeaders sets the headers of a result that no Middleware decided: a service answers a proxy with them, say.
func SetHeaders(header http.Header, set HeaderSet, result Result) {
	shared.setHeaders(header, set, result)
}

// shared is the texts of SetHeaders.
var shared policies

// setHeaders sets the headers of the result.
func (c *policies) setHeaders(header http.Header, set HeaderSet, result Result) {
	if result.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(seconds(result.RetryAfter), 10))
	}
	items := set.items(result)
	if set&Draft11 != 0 {
		c.addDraft11(header, items)
	}
	if set&XRateLimit != 0 {
		setXRateLimit(header, items)
	}
}

// items returns what the headers say. A refusal has only the denials: grants beside them are given back.
func (set HeaderSet) items(result Result) (items []item) {
	for i := range result.Decisions {
		d := result.Decisions[i]
		hidden := d.Shadow && set&ShadowHeaders == 0
		if d.Err != nil || hidden || result.Outcome != Allowed && d.Granted {
			continue
		}
		items = appendItems(items, d)
	}
	return items
}

// appendItems appends an item for each window of a decision, the shortest window first.
func appendItems(items []item, d Decision) []item {
	if len(d.Windows) == 0 {
		return append(items, itemOf(d, d.Policy, loader.WindowState{
			Limit: d.Limit, Remaining: d.Remaining, ResetAfter: d.ResetAfter, CountsFor: d.CountsFor,
		}))
	}
	windows := slices.Clone(d.Windows)
	slices.SortFunc(windows, func(a, b loader.WindowState) int {
		return cmp.Or(cmp.Compare(a.Limit.Window, b.Limit.Window), cmp.Compare(a.Limit.Permits, b.Limit.Permits))
	})
	for _, w := range windows {
		items = append(items, itemOf(d, d.Policy+"-"+span(w.Limit.Window), w))
	}
	return items
}

func itemOf(d Decision, policy string, w loader.WindowState) item {
	it := item{
		policy: policy, slot: d.Slot, quota: w.Limit.Permits, remaining: w.Remaining, reset: w.ResetAfter, now: d.Now,
		degraded: d.Degraded,
	}
	switch {
	case d.Slot, d.Wait == loader.Never:
		it.reset = noReset
	case !d.Granted:
		it.reset = min(it.reset, d.Wait)
	}
	if !d.Slot {
		it.quota, it.window = quotaOf(w.Limit)
		it.window = max(it.window, seconds(w.CountsFor)) // so that t is never above w
	}
	return it
}

// quotaOf returns the quota of a limit and its window in seconds: of a GCRA its burst, and the time that refills it.
func quotaOf(limit loader.Limit) (quota, window int64) {
	if limit.Burst == 0 || limit.Permits == 0 {
		return limit.Permits, seconds(limit.Window)
	}
	hi, lo := bits.Mul64(uint64(limit.Burst), uint64(limit.Window.Microseconds()))
	if hi >= uint64(limit.Permits) {
		return limit.Burst, 0
	}
	refilled, rest := bits.Div64(hi, lo, uint64(limit.Permits))
	if rest > 0 {
		refilled++
	}
	const second = uint64(time.Second / time.Microsecond)
	return limit.Burst, int64((refilled + second - 1) / second)
}

// addDraft11 adds RateLimit-Policy and RateLimit to what other limits of the same request have set.
func (c *policies) addDraft11(header http.Header, items []item) {
	policies, limits := make([]string, 0, len(items)), make(httpsfv.List, 0, len(items))
	for _, it := range items {
		policies = append(policies, c.text(it.policyOf()))
		if !it.degraded {
			limits = append(limits, it.limitItem())
		}
	}
	if len(policies) > 0 {
		header.Add("Ratelimit-Policy", strings.Join(policies, ", "))
	}
	if len(limits) > 0 {
		header.Add("Ratelimit", marshal(limits))
	}
}

// marshal serialises a list. It cannot fail: Check finds names that cannot be written.
func marshal(list httpsfv.List) string {
	text, _ := httpsfv.Marshal(list)
	return text
}

// policy is what an item of RateLimit-Policy says.
type policy struct {
	name          string
	quota, window int64
	slot          bool
}

func (it item) policyOf() policy { return policy{it.policy, it.quota, it.window, it.slot} }

func (p policy) text() string {
	item := httpsfv.NewItem(p.name)
	item.Params.Add("q", p.quota)
	if p.slot {
		item.Params.Add("qu", "concurrent-requests")
	}
	if p.window > 0 {
		item.Params.Add("w", p.window)
	}
	return marshal(httpsfv.List{item})
}

// policies keeps the texts of policies, because they are the same in all responses.
type policies struct {
	mu    sync.RWMutex
	texts map[policy]string
}

// maxPolicies is how many are kept: the limits of PerRequest may be any.
const maxPolicies = 1000

func (c *policies) text(p policy) string {
	c.mu.RLock()
	text, ok := c.texts[p]
	full := len(c.texts) >= maxPolicies
	c.mu.RUnlock()
	if ok {
		return text
	}
	if text = p.text(); full {
		return text
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = map[policy]string{}
	}
	if len(c.texts) < maxPolicies {
		c.texts[p] = text
	}
	return text
}

func (it item) limitItem() httpsfv.Item {
	item := httpsfv.NewItem(it.policy)
	item.Params.Add("r", it.remaining)
	if it.reset != noReset {
		item.Params.Add("t", seconds(it.reset))
	}
	return item
}

// setXRateLimit sets the headers of the item with the fewest permits remaining, unless another limit has already
// set headers for an item with fewer. If two are equal, the one that is reset later counts: a client has to wait that
// long.
func setXRateLimit(header http.Header, items []item) {
	items = slices.DeleteFunc(items, func(it item) bool { return it.degraded || it.slot })
	if len(items) == 0 {
		return
	}
	it := slices.MinFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.remaining, b.remaining), cmp.Compare(b.reset, a.reset))
	})
	const remaining, reset = "X-Ratelimit-Remaining", "X-Ratelimit-Reset"
	before, err := strconv.ParseInt(header.Get(remaining), 10, 64)
	resetBefore, _ := strconv.ParseInt(header.Get(reset), 10, 64)
	if err == nil && (before < it.remaining || before == it.remaining && resetBefore > it.resetTime()) {
		return
	}
	header.Set("X-Ratelimit-Limit", strconv.FormatInt(it.quota, 10))
	header.Set(remaining, strconv.FormatInt(it.remaining, 10))
	if it.reset == noReset {
		header.Del(reset)
		return
	}
	header.Set(reset, strconv.FormatInt(it.resetTime(), 10))
}

// resetTime returns the time of the reset, in seconds since 1970, rounded up.
func (it item) resetTime() int64 {
	if it.reset == noReset {
		return math.MaxInt64
	}
	return seconds(time.Duration(it.now.Add(it.reset).UnixNano()))
}

// seconds returns a time in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// span returns a window as it is written in names: "90s" is "1m30s", and "1h0m0s" is "1h".
func span(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if rest, ok := strings.CutSuffix(text, zero); ok {
			text = rest + zero[:1]
		}
	}
	return text
}
