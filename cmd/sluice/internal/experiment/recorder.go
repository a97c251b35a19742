package experiment

import (
	"slices"
	"sync"
	"time"
)

// Act is one payment: the time it was booked for by the server's clock, and the time it happened by our clock. The two
// clocks are never compared.
type Act struct {
	Booked time.Time
	Real   time.Time
}

// Recorder notes acts as they happen. It does not know the limits and is the same for every limiter.
type Recorder struct {
	mu   sync.Mutex
	acts []Act
}

// Act records an act that happens now and was booked for the given time.
func (r *Recorder) Act(booked time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts = append(r.acts, Act{Booked: booked, Real: now})
}

// Acts returns the acts recorded so far.
func (r *Recorder) Acts() []Act {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.acts)
}
