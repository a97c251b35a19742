//go:build !ahead_faults

// Package ahead is the rule by which a process grants permits ahead of Redis. docs/guarantees.md says what it bounds,
// and why.
package ahead

// Account is what a process knows about one subject. As long as Redis has said nothing, it grants nothing.
type Account struct {
	Unsent    int64 // permits granted here that are in no report
	InFlight  int64 // permits in the report or the question on its way
	Remaining int64 // permits that the last answer left, behind what it charged
}

// Share returns how many permits each process may be ahead of Redis. Up to twice as many processes can have granted so
// many in a window: those that are alive, and those that died.
func Share(limit int64, processes int, err float64) int64 {
	return int64(err * float64(limit) / (2 * float64(processes)))
}

// Taken returns how much lower the limit is that Redis enforces, if no window may hold more than the limit: what that
// many processes, and as many that died, can have granted ahead of it.
func Taken(limit int64, processes int, err float64) int64 {
	return 2 * int64(processes) * Share(limit, processes, err)
}

// Unreported returns how many permits were granted ahead of Redis that it has not confirmed.
func (a *Account) Unreported() int64 { return a.Unsent + a.InFlight }

// Grant grants n permits ahead of Redis. It reports false if Redis has to be asked: the last answer left no room for
// all that is unreported, or that would be more than most.
func (a *Account) Grant(n, most int64) bool {
	if n > min(a.Remaining, most)-a.Unreported() {
		return false
	}
	a.Unsent += n
	return true
}

// Take takes all that is unsent on its way. One report or question is on its way at a time.
func (a *Account) Take() (reported int64) {
	a.InFlight, a.Unsent = a.Unsent, 0
	return a.InFlight
}

// Answered says that what was on its way is charged, and how many permits that left.
func (a *Account) Answered(remaining int64) { a.InFlight, a.Remaining = 0, remaining }

// Lost says that what was on its way has no answer. It is unsent again: Redis may count it twice.
func (a *Account) Lost() { a.Unsent, a.InFlight = a.Unsent+a.InFlight, 0 }

// Denied returns how many permits a denied question for so many says are denied: a report asks for none, and one more
// would be denied.
func Denied(permits int64) int64 { return max(permits, 1) }
