package loader

import "time"

// Decision is what a limiter answered. Its times are the server's, in whole microseconds.
type Decision struct {
	// Granted says that all the permits that were asked for were granted. Peek grants nothing.
	Granted bool

	// Remaining is how many permits could be granted now. It is 0 while someone has booked ahead.
	Remaining int64

	// Wait is how long from now the permits come free if no one else asks. RetryAfter is it for an HTTP header.
	// It is 0 when Allow granted them, except to an id that had booked them ahead: then it is
	// what is left. It is Never when the limit is 0. Of a Peek it is what one permit would have to wait.
	Wait time.Duration

	// ResetAfter is how long from now until the limiter is as new.
	ResetAfter time.Duration

	// Now is the server's clock at the decision, so that a log of decisions can be audited. It is zero
	// when the limit is 0, for then no server was asked, and when the decision is Degraded.
	Now time.Time

	// Degraded says that Redis did not decide and the limiter's policy did: see FailOpen and FailLocal.
	Degraded bool
}

// denial is the answer to a limit of 0.
func denial() Decision { return Decision{Wait: Never} }

// decisionOf is the decision in a script's reply: its first five integers, in all scripts.
func decisionOf(reply []int64) Decision {
	return Decision{
		Granted:    reply[0] > 0,
		Remaining:  reply[1],
		Wait:       time.Duration(reply[2]) * time.Microsecond,
		ResetAfter: time.Duration(reply[3]) * time.Microsecond,
		Now:        time.UnixMicro(reply[4]),
	}
}
