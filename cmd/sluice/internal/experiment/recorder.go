package experiment

import (
	"slices"
	"sync"
	"time"
)

// Act is one payment: when it was to happen by the server's clock, and when it did by ours. The two
// clocks are never compared with one another.
type Act struct {
	Booked time.Time
	Real   time.Time
}

// Recorder notes acts as they happen. It knows nothing of limits and is the same for every way.
type Recorder struct {
	mu   sync.Mutex
	acts []Act
}

// Act notes that an act happens now which was booked for the given moment.
func (r *Recorder) Act(booked time.Time) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.acts = append(r.acts, Act{Booked: booked, Real: now})
}

// Acts returns what was noted so far.
func (r *Recorder) Acts() []Act {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.acts)
}
