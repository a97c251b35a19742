package model

// maxReturnSlices is how many slices back permits can be given back.
const maxReturnSlices = 1000

// sliceRingReturn is slice_ring_return_v1: it lowers the count of the slice in which permits were taken.
func sliceRingReturn(c call) Outcome {
	stored, ok := c.holds(c.keys[0], "string")
	if !ok {
		return c.fails(wrongType)
	}
	if stored.Text == "" {
		return Outcome{Reply: []int64{0}, After: c.store}
	}
	r, bad := ringOf(stored.Text, c.args.number["slice"])
	if bad != "" {
		return c.fails(bad)
	}
	taken := c.args.number["taken"] / r.slice
	if taken > r.last || taken <= r.last-r.size || taken < r.last-maxReturnSlices {
		return Outcome{Reply: []int64{0}, After: c.store}
	}
	if !r.reaches(taken) {
		return c.fails(badCells)
	}
	returned := min(c.args.number["permits"], apart(r.before(taken+1), r.before(taken)))
	if returned == 0 {
		return Outcome{Reply: []int64{0}, After: c.store}
	}
	stored.Text = r.lowered(taken, returned)
	return Outcome{Reply: []int64{returned}, After: c.store.With(c.keys[0], stored)}
}

// before returns the total before a slice. For the slice after the last it is the total of all.
func (r ring) before(slice int64) int64 {
	if slice > r.last {
		return r.total
	}
	total, _ := r.cell(slice)
	return total
}

// reaches reports whether the bytes hold the cells of a slice and of all later ones.
func (r ring) reaches(slice int64) bool {
	for s := slice; s <= r.last; s++ {
		if ringHeader+ringCell*(index(s, r.size)+1) > int64(len(r.bytes)) {
			return false
		}
	}
	return true
}

// lowered returns the bytes with n permits fewer in a slice: later totals are lowered, links stay.
func (r ring) lowered(slice, permits int64) string {
	after := []byte(r.bytes)
	for s := slice + 1; s <= r.last; s++ {
		total, link := r.cell(s)
		copy(after[ringHeader+ringCell*index(s, r.size):], inBytes(apart(total, permits)*linkWrap+link, ringCell))
	}
	copy(after[18:], inBytes(apart(r.total, permits), 6))
	return string(after)
}
