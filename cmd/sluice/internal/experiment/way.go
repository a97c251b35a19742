package experiment

import (
	"context"
	"time"
)

// Kind says what a limiter promises.
type Kind int

const (
	Booking Kind = iota // one of our scripts that books ahead: one call a permit
	Asking              // one of our scripts that says when to ask again
	Faulty              // a faulty limiter, for comparison
)

// Way is a limiter under test: what it is, and how a worker asks it for a permit.
type Way struct {
	Name string
	Text string // what it does, in a few words
	Kind Kind

	take func(context.Context) (answer, error)
}

// answer is a limiter's reply to a worker.
type answer struct {
	granted bool
	now     time.Time     // the server's clock
	wait    time.Duration // granted: act after this; denied: ask again after this
}

// due returns the server's time at which to act, or to ask again.
func (a answer) due() time.Time { return a.now.Add(a.wait) }
