package play

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// request is one call of one of our scripts, as the loader would make it. scripts/calls.json has examples.
type request struct {
	name, subject string // of the limiter, and whom it is about
	limits        []Limit
	burst         int64
	permits       int64
	maxWait       int64
	id            string // zset_log
	client        string // token_bucket
	perClient     bool   // token_bucket
	slice         int64  // slice_ring: length of the slices of all windows; 0: the default

	// What comes after a grant.
	purpose       purpose
	ttl           int64 // of slots, and of a budget's IDs
	moment, taken int64 // when its permits may be used, when they were granted, by the server's clock
	actual        int64 // what it costs in the end
	reported      int64 // what a process granted before, ahead of Redis
	now           int64 // by the server's clock
}

// escaper is the loader's.
var escaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func (r request) key(code string) string {
	return "sluice:" + r.name + ":{" + escaper.Replace(r.subject) + "}:" + code
}

// words returns KEYS and ARGV.
func (r request) words(k *limiter) (keys, args []string) {
	keys = []string{r.key(k.code)}
	if k.severalWindows() {
		keys = r.rings(k.code)
	}
	if k.id == "budget" {
		keys = append(keys, r.key("bg1")+":"+escaper.Replace(r.id))
	}
	if r.purpose == ending {
		return keys, r.ending(k)
	}
	limit := r.limits[0]
	switch k.id {
	case "gcra":
		return keys, decimals(limit.Permits, limit.Window, r.burst, r.permits, r.maxWait)
	case "token_bucket":
		scope := int64(0)
		if r.perClient {
			scope = 1
		}
		keys = append(keys, keys[0]+":all", keys[0]+":by:"+escaper.Replace(r.client))
		return keys, decimals(limit.Permits, limit.Window, scope, r.permits, r.maxWait)
	case "slice_ring", "ahead":
		return keys, decimals(append([]int64{r.permits, r.reported}, r.windows()...)...)
	case "budget":
		return keys, decimals(append([]int64{r.ttl, r.permits}, r.windows()...)...)
	case "quota":
		begin := r.now - r.now%limit.Window
		length := limit.Window
		return keys, decimals(limit.Permits, r.permits, 0, begin-length, begin, begin+length, begin+2*length)
	case "concurrency":
		return keys, append(decimals(limit.Permits, r.ttl, int64(r.purpose)), r.id)
	}
	args = decimals(limit.Permits, limit.Window, r.permits, r.maxWait)
	if k.id == "zset_log" {
		args = append(args, r.id)
	}
	return keys, args
}

// ending returns ARGV of the call that ends a request.
func (r request) ending(k *limiter) []string {
	switch k.id {
	case "list_log":
		return decimals(r.moment, r.permits)
	case "zset_log":
		return append([]string{r.id}, decimals(r.permits)...)
	case "quota":
		return decimals(r.taken-r.taken%r.limits[0].Window, r.permits)
	case "slice_ring":
		return decimals(append([]int64{r.taken, r.permits}, r.slices()...)...)
	case "ahead":
		return decimals(append([]int64{0, r.reported}, r.windows()...)...)
	case "budget":
		return decimals(append([]int64{r.ttl, r.actual, 0}, r.slices()...)...)
	}
	return []string{r.id} // of a concurrency
}

// rings returns the key of each window.
func (r request) rings(code string) (keys []string) {
	for _, limit := range r.limits {
		slice, size := r.slicesOf(limit)
		keys = append(keys, fmt.Sprintf("%s:%dx%d", r.key(code), slice, size))
	}
	return keys
}

// slices returns the slices of each window.
func (r request) slices() (numbers []int64) {
	for _, limit := range r.limits {
		slice, size := r.slicesOf(limit)
		numbers = append(numbers, slice, size)
	}
	return numbers
}

// windows returns the slices of each window, and its permits.
func (r request) windows() (numbers []int64) {
	for _, limit := range r.limits {
		slice, size := r.slicesOf(limit)
		numbers = append(numbers, slice, size, limit.Permits)
	}
	return numbers
}

// slicesOf returns the length of a window's slices and how many they are, as the loader has them by default.
func (r request) slicesOf(limit Limit) (slice, size int64) {
	slice = cmp.Or(r.slice, max(min(divideUp(limit.Window, slicesPerWindow), maxSlice), minSlice))
	return slice, divideUp(limit.Window, slice) + 1
}

func decimals(numbers ...int64) (texts []string) {
	texts = make([]string, len(numbers), len(numbers)+1)
	for i, n := range numbers {
		texts[i] = strconv.FormatInt(n, 10)
	}
	return texts
}

// The ranges of slice_ring, as the loader has them.
const (
	slicesPerWindow = 200
	minSlice        = 1000
	maxSlice        = day
)

func divideUp(n, by int64) int64 { return (n + by - 1) / by }
