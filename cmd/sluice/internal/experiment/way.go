package experiment

import (
	"context"
	"time"
)

// Kind says what a way of limiting promises.
type Kind int

const (
	Booking Kind = iota // one of our scripts that books ahead: one call a permit
	Asking              // one of our scripts that says when to ask again
	Faulty              // a way that others take, shown for what it does
)

// Way is one way of sharing the limit: what it is, and how a worker asks it for a permit.
type Way struct {
	Name string
	Text string // what it does, in a few words
	Kind Kind

	take func(context.Context) (answer, error)
}

// answer is what a way says to a worker that wants a permit.
type answer struct {
	granted bool
	now     time.Time     // the server's clock
	wait    time.Duration // granted: act after this; denied: ask again after this
}

// due is the moment by the server's clock to act, or else to ask again.
func (a answer) due() time.Time { return a.now.Add(a.wait) }
