package httplimit

import (
	"cmp"
	"math"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
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
	// window is empty. A denial has no t above its Retry-After, as the draft asks: the t of a day's window is then the
	// minute that the client has to wait. In a SliceRing, as here, a permit counts for up to a slice longer than the
	// window: for 60.3 s in a minute. A GCRA has its burst and the time that refills it.
	// Slots have the unit "concurrent-requests" and no times. While Redis does not decide there is no RateLimit. The
	// draft is not final: later ones will get names of their own.
	Draft11 HeaderSet = 1 << iota

	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, for clients that know no others: of
	// the window with the fewest permits remaining. Reset is in seconds since 1970 by the clock of Redis, as at GitHub.
	XRateLimit

	// ShadowHeaders sends the headers also for limits in shadow.
	ShadowHeaders

	// Draft03 is RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset, as XRateLimit but for Reset, which is in
	// seconds from now: as in the third draft, and as envoyproxy/ratelimit sends them.
	Draft03
)

// item is what the headers say of one window.
type item struct {
	policy    string // "": a header cannot say it
	slot      bool
	quota     int64
	window    int64 // in seconds; 0: there is none
	remaining int64
	reset     time.Duration // noReset: unknown
	seconds   int64         // of reset
	now       time.Time     // of the decision; zero if degraded or without a reset
	degraded  bool
}

// unshown is how much longer than its window a permit counts without a word: a second has w=1.
const unshown = 10 * time.Millisecond

// noReset is the reset of an item that waiting does not help. It is later than all others.
const noReset = loader.Never

// SetHeaders sets the headers of a result that no Middleware decided: a service answers a proxy with them, say.
func SetHeaders(header http.Header, set HeaderSet, result Result) {
	if result.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(admit.Seconds(result.RetryAfter), 10))
	}
	items := set.items(result)
	if set&Draft11 != 0 {
		addDraft11(header, items)
	}
	if set&XRateLimit != 0 {
		setCounts(header, "X-Ratelimit", items, item.resetTime)
	}
	if set&Draft03 != 0 {
		setCounts(header, "Ratelimit", items, func(it item) int64 { return it.seconds })
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
		items = append(items, itemOf(d, d.Policy+"-"+admit.ShortDuration(w.Limit.Window), w))
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
		it.window = admit.Seconds(max(w.Limit.Window, w.CountsFor-unshown))
	}
	if w.Limit.Burst > 0 && w.Limit.Permits > 0 {
		it.quota, it.window = burstOf(w.Limit)
	}
	if !admit.IsPrintable(policy) {
		it.policy = ""
	}
	it.seconds = min(admit.Seconds(it.reset), cmp.Or(it.window, math.MaxInt64)) // t is never above w
	return it
}

// burstOf returns the burst of a GCRA, and the seconds that refill it.
func burstOf(limit loader.Limit) (quota, window int64) {
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

// addDraft11 adds RateLimit-Policy and RateLimit, lists as in RFC 9651, to what other limits of the same request have set.
func addDraft11(header http.Header, items []item) {
	var policies, limits []byte
	for _, it := range items {
		if it.policy == "" {
			continue
		}
		policies = appendNumber(it.appendName(policies), ";q=", it.quota)
		if it.slot {
			policies = append(policies, `;qu="concurrent-requests"`...)
		}
		if it.window > 0 {
			policies = appendNumber(policies, ";w=", it.window)
		}
		if it.degraded {
			continue
		}
		limits = appendNumber(it.appendName(limits), ";r=", it.remaining)
		if it.reset != noReset {
			limits = appendNumber(limits, ";t=", it.seconds)
		}
	}
	if len(policies) > 0 {
		header.Add("Ratelimit-Policy", string(policies))
	}
	if len(limits) > 0 {
		header.Add("Ratelimit", string(limits))
	}
}

// appendName begins an item of a list.
func (it item) appendName(list []byte) []byte {
	if len(list) > 0 {
		list = append(list, ", "...)
	}
	return append(append(append(list, '"'), escaper.Replace(it.policy)...), '"')
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func appendNumber(list []byte, parameter string, n int64) []byte {
	return strconv.AppendInt(append(list, parameter...), n, 10)
}

// setCounts sets the headers of the item with the fewest permits remaining, unless another limit has already
// set headers for an item with fewer. If two are equal, the one that is reset later counts: a client has to wait that
// long. The names are prefix and -Limit, -Remaining, -Reset.
func setCounts(header http.Header, prefix string, items []item, resetOf func(item) int64) {
	items = slices.DeleteFunc(slices.Clone(items), func(it item) bool { return it.degraded || it.slot })
	if len(items) == 0 {
		return
	}
	it := slices.MinFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(a.remaining, b.remaining), cmp.Compare(b.reset, a.reset))
	})
	remaining, reset := prefix+"-Remaining", prefix+"-Reset"
	before, err := strconv.ParseInt(header.Get(remaining), 10, 64)
	resetBefore, _ := strconv.ParseInt(header.Get(reset), 10, 64)
	if err == nil && (before < it.remaining || before == it.remaining && resetBefore > resetOf(it)) {
		return
	}
	header.Set(prefix+"-Limit", strconv.FormatInt(it.quota, 10))
	header.Set(remaining, strconv.FormatInt(it.remaining, 10))
	if it.reset == noReset {
		header.Del(reset)
		return
	}
	header.Set(reset, strconv.FormatInt(resetOf(it), 10))
}

// resetTime returns the time of the reset, in seconds since 1970, rounded up.
func (it item) resetTime() int64 {
	if it.reset == noReset {
		return math.MaxInt64
	}
	return admit.Seconds(time.Duration(it.now.Add(it.reset).UnixNano()))
}
