package model

// maxReturnSlices is how many slices back permits can be given back, in all windows together.
const maxReturnSlices = 1000

// sliceRingReturn is slice_ring_return_v1.
func sliceRingReturn(c call) Outcome {
	every := func(window) bool { return true }
	returned, after, unread := c.ringsLowered(every, c.args.number["moment"], c.args.number["permits"])
	if unread != nil {
		return *unread
	}
	return Outcome{Reply: []int64{returned}, After: after}
}

// ringsLowered takes permits out of the slice that holds a time, as many as it holds, in each of the windows that take part.
// It returns how many at most.
func (c call) ringsLowered(takesPart func(window) bool, moment, permits int64) (most int64, after Store, unread *Outcome) {
	left := int64(maxReturnSlices)
	after = c.store
	for i, w := range c.windows() {
		r, bad := c.ring(w, i+1)
		if bad != "" {
			return 0, nil, &Outcome{Err: bad, After: c.store}
		}
		slice := moment / w.slice
		later := r.last - slice
		if r.isEmpty || !takesPart(w) || later < 0 || later >= w.size || later > left {
			continue
		}
		if !r.sound {
			unread = &Outcome{Or: badRing[:len("BADSTATE ring_")], Any: true, After: c.store}
			continue
		}
		left -= later
		n := min(permits, r.charged[slice])
		if n == 0 {
			continue
		}
		r.charged[slice] -= n
		r.total = index(r.total-n, ringWrap)
		after = after.With(w.key, Value{Type: "string", Text: r.encoded(), Expires: c.store[w.key].Expires})
		most = max(most, n)
	}
	return most, after, unread
}
