package admit

import (
	"sync/atomic"
	"time"
)

// Complaint is an error that every request may meet, and that is logged once in a while. The zero Complaint is due.
type Complaint struct{ last atomic.Int64 }

// IsDue reports whether the error is to be logged now: not if it was within the pause before.
func (c *Complaint) IsDue(pause time.Duration) bool {
	now, last := time.Now().UnixNano(), c.last.Load()
	return now-last >= pause.Nanoseconds() && c.last.CompareAndSwap(last, now)
}

// Reset has the next one logged.
func (c *Complaint) Reset() { c.last.Store(0) }
