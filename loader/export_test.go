package loader

import "slices"

// ChargePlainWindow is the ring made wrong: its windows do not count the age of leases.
func (r SliceRing) ChargePlainWindow() SliceRing {
	r.windows = slices.Clone(r.windows)
	for i := range r.windows {
		r.windows[i].Slices -= pieces(r.leaseAge, r.slice)
	}
	return r
}
