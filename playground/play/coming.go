package play

// coming are the calls of requests that have come before, a heap: the earliest first, of equal times that of the
// request that came first.
type coming []call

func (r coming) before(i, j int) bool {
	return r[i].at < r[j].at || r[i].at == r[j].at && r[i].arrival < r[j].arrival
}

func (r *coming) push(c call) {
	*r = append(*r, c)
	h := *r
	for i := len(h) - 1; i > 0 && h.before(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (r *coming) pop() call {
	h := *r
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	*r = h
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.before(child, least) {
				least = child
			}
		}
		if least == i {
			return first
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
