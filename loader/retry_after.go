package loader

import "time"

// maxRetryAfter is the most that RetryAfter says: 366 days.
const maxRetryAfter = 366 * 24 * time.Hour

// RetryAfter is Wait as an HTTP server answers it, in the header Retry-After of a 429: whole seconds, rounded up, so
// that whoever comes back then is not too early.
//
//	w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfter(), 10))
//
// It is at least 1 for a denial, and 0 where there is nothing to wait for. It is 31622400, which is 366 days, for
// everything longer and for Never: where that is the answer because a plan does not include the thing at all, 403
// without the header tells the client more. Cost: nothing.
func (d Decision) RetryAfter() int64 {
	if d.Wait <= 0 {
		return 0
	}
	return int64((min(d.Wait, maxRetryAfter) + time.Second - 1) / time.Second)
}
