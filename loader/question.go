package loader

import "time"

// question is what is asked of a limiter.
type question struct {
	method   string        // for errors and observers: that of the call, without the N
	permits  int64         // 0: Peek, Report
	reported int64         // charged in any case, by a SliceRing or a Quota
	maxWait  time.Duration // how far ahead the permits may be booked
	id       string
}

// Methods: the one that asks for no permits, the one that books, the one that returns permits, and the one that charges
// permits in any case.
const (
	peek     = "Peek"
	reserve  = "Reserve"
	giveBack = "GiveBack"
	report   = "Report"
)
