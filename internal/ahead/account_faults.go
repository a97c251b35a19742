//go:build ahead_faults

// Package ahead with parts of its rule taken out, for the audits of the loader: each must notice that. What nothing is
// taken out of is account.go.
package ahead

// Without is the part of the rule that is taken out. The tests set it.
var Without Part

// Part is a part of the rule.
type Part int

// The parts of the rule.
const (
	Nothing        Part = iota
	TakenOff            // strict: the error is taken off the limit
	Charge              // a report is charged
	Room                // no room, no grant
	LostReport          // a lost report stays
	InFlightCounts      // what is on its way counts
)

// Account is as in account.go.
type Account struct{ Unsent, InFlight, Remaining int64 }

// Share is as in account.go.
func Share(limit int64, processes int, err float64) int64 {
	return int64(err * float64(limit) / (2 * float64(processes)))
}

// Taken returns nothing without TakenOff.
func Taken(limit int64, processes int, err float64) int64 {
	if Without == TakenOff {
		return 0
	}
	return 2 * int64(processes) * Share(limit, processes, err)
}

// Unreported leaves out what is on its way without InFlightCounts.
func (a *Account) Unreported() int64 {
	if Without == InFlightCounts {
		return a.Unsent
	}
	return a.Unsent + a.InFlight
}

// Denied denies nothing without Room.
func Denied(permits int64) int64 {
	if Without == Room {
		return 0
	}
	return max(permits, 1)
}

// Grant needs no room without Room.
func (a *Account) Grant(n, most int64) bool {
	if Without != Room {
		most = min(a.Remaining, most)
	}
	if n > most-a.Unreported() {
		return false
	}
	a.Unsent += n
	return true
}

// Take reports nothing without Charge.
func (a *Account) Take() (reported int64) {
	a.InFlight, a.Unsent = a.Unsent, 0
	if Without == Charge {
		return 0
	}
	return a.InFlight
}

// Answered is as in account.go.
func (a *Account) Answered(remaining int64) { a.InFlight, a.Remaining = 0, remaining }

// Lost forgets what was on its way without LostReport.
func (a *Account) Lost() {
	if Without != LostReport {
		a.Unsent += a.InFlight
	}
	a.InFlight = 0
}
