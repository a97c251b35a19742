package model

// maxReturnSlices is how many slices back permits can be given back, in all sections together.
const maxReturnSlices = 1000

// sliceRingReturn is slice_ring_return_v1: it lowers the count of the slices in which permits were granted.
func sliceRingReturn(c call) Outcome {
	r, bad := c.ring()
	if bad != "" {
		return c.fails(bad)
	}
	if !r.sound {
		return Outcome{Or: badRing, Any: true, After: c.store}
	}
	returned, after := c.ringLowered(r, c.args.number["moment"], c.args.number["permits"])
	return Outcome{Reply: []int64{returned}, After: after}
}

// ringLowered takes permits out of the slices that hold a time, as many as they hold. It returns how many at most.
func (c call) ringLowered(r ring, moment, permits int64) (returned int64, after Store) {
	left := int64(maxReturnSlices)
	for i, s := range r.sections {
		slice, last := moment/s.slice, r.last/s.slice
		if slice > last || slice <= last-s.size || last-slice > left {
			continue
		}
		left -= last - slice
		n := min(permits, s.granted[slice])
		s.granted[slice] -= n
		r.sections[i].shift = apart(s.shift, n)
		returned = max(returned, n)
	}
	if returned == 0 {
		return 0, c.store
	}
	stored := c.store[c.keys[0]]
	stored.Text = r.encoded() + r.behind
	return returned, c.store.With(c.keys[0], stored)
}
