package loader

import "time"

// maxRetryAfter is the maximum of RetryAfter: 366 days.
const maxRetryAfter = 366 * 24 * time.Hour

// RetryAfter returns Wait for the header Retry-After of a 429: in whole seconds, rounded up, so that a client that
// waits for so long is not too early.
//
//	w.Header().Set("Retry-After", strconv.FormatInt(d.RetryAfter(), 10))
//
// It is at least 1 for a denial, and 0 if there is nothing to wait for. For everything longer than 366 days, and for
// Never, it is 31622400 (366 days). If the limit is 0 because a plan does not include a feature, consider answering 403
// without the header. Cost: nothing.
func (d Decision) RetryAfter() int64 {
	if d.Wait <= 0 {
		return 0
	}
	return int64((min(d.Wait, maxRetryAfter) + time.Second - 1) / time.Second)
}
