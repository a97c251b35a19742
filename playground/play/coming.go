package play

// coming are the calls of requests that have come before, a heap: the earliest first, of equal times that of the
// request that came first.
type coming []call

func (q coming) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].arrival < q[j].arrival
}

func (q *coming) push(c call) {
	*q = append(*q, c)
	h := *q
	for i := len(h) - 1; i > 0 && h.before(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (q *coming) pop() call {
	h := *q
	first, last := h[0], len(h)-1
	h[0] = h[last]
	h = h[:last]
	*q = h
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
