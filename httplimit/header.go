package httplimit

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/sluice-redis/sluice/loader"
)

// HeaderSet says which headers are sent: see Headers. Join several by |.
type HeaderSet int

const (
	// Draft11 is RateLimit-Policy and RateLimit as in draft-ietf-httpapi-ratelimit-headers-11. The draft is not final:
	// later ones may get a name of their own. There is an item for each window, named by the policy and, if it has
	// several windows, the window ("api-1m0s", "api-1h0m0s").
	Draft11 HeaderSet = 1 << iota

	// XRateLimit is X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset, for clients that know no others: of
	// the window with the fewest permits remaining. Reset is in seconds since 1970, as at GitHub.
	XRateLimit

	// ShadowHeaders sends the headers also for limits in shadow.
	ShadowHeaders
)

// item is what the headers say of one window.
type item struct {
	policy     string
	unit       string // "": requests
	quota      int64
	window     time.Duration // 0: not said
	remaining  int64
	resetAfter time.Duration
	known      bool // what remains is known
	now        time.Time
}

// setHeaders sets the headers of the result.
func (q *request) setHeaders() {
	header := q.w.Header()
	if q.result.RetryAfter > 0 {
		header.Set("Retry-After", strconv.FormatInt(q.result.RetryAfter, 10))
	}
	items := q.items()
	if q.options.headers&Draft11 != 0 && len(items) > 0 {
		policy, limit := draft11(items, q.result.RetryAfter)
		header.Add("RateLimit-Policy", policy)
		if limit != "" {
			header.Add("RateLimit", limit)
		}
	}
}

// items returns what the headers say.
func (q *request) items() (items []item) {
	for _, d := range q.result.Decisions {
		if d.Err != nil || d.Shadow && q.options.headers&ShadowHeaders == 0 {
			continue
		}
		items = append(items, itemsOf(d)...)
	}
	return items
}

// itemsOf returns an item for each window of a decision, the shortest window first.
func itemsOf(d Decision) []item {
	if len(d.Windows) == 0 {
		return []item{itemOf(d, d.Policy, d.Limit, d.Remaining, d.ResetAfter)}
	}
	windows := slices.Clone(d.Windows)
	slices.SortStableFunc(windows, func(a, b loader.WindowState) int { return int(a.Limit.Window - b.Limit.Window) })
	items := make([]item, len(windows))
	for i, w := range windows {
		items[i] = itemOf(d, d.Policy+"-"+w.Limit.Window.String(), w.Limit, w.Remaining, w.ResetAfter)
	}
	return items
}

func itemOf(d Decision, policy string, limit loader.Limit, remaining int64, resetAfter time.Duration) item {
	return item{
		policy: policy, quota: limit.Permits, window: limit.Window, remaining: remaining, resetAfter: resetAfter,
		known: !d.Degraded, now: d.Now,
	}
}

// draft11 returns RateLimit-Policy and RateLimit.
func draft11(items []item, retryAfter int64) (policy, limit string) {
	var policies, limits httpsfv.List
	for _, it := range items {
		p := httpsfv.NewItem(it.policy)
		p.Params.Add("q", it.quota)
		if it.window > 0 {
			p.Params.Add("w", seconds(it.window))
		}
		policies = append(policies, p)
		if !it.known {
			continue
		}
		l := httpsfv.NewItem(it.policy)
		l.Params.Add("r", it.remaining)
		l.Params.Add("t", seconds(it.resetAfter))
		limits = append(limits, l)
	}
	policy, _ = httpsfv.Marshal(policies)
	limit, _ = httpsfv.Marshal(limits)
	return policy, strings.TrimSpace(limit)
}

// seconds returns a time in whole seconds, rounded up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
