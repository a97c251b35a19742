package play

import "slices"

// peak finds the most permits of one key that are held at once when one is granted: the slots of holders at work, or
// what was charged in the window that ends then and not given back. What a budget settles for more than its estimate is
// a debt: it counts, but it may lie above the limit. A step of the server's clock that costs something ends it.
type peak struct {
	*promise
	held  map[holding]int64
	order []holding // as they came; some may be held no more
	ends  []holding // those that end by themselves, in the order of their ends
	sum   int64
	steps int // of the promise that are over

	most, worst stretch
}

// holding is what a request holds, or what it owes beside that.
type holding struct {
	arrival     int
	since, ends int64
	owed        bool
}

func newPeak(p *promise) *peak { return &peak{promise: p, held: map[holding]int64{}} }

func (p *peak) grant(g grant) {
	p.end(g.at)
	p.hold(p.holding(g), g.permits)
	for p.held[p.order[0]] == 0 {
		p.order = p.order[1:]
	}
	from := p.order[0].since
	now := stretch{p.sum, from, p.allowed(from, g.at)}
	if p.Window == 0 {
		now.from = g.at
	}
	if now.permits > p.most.permits {
		p.most = now
	}
	if now.excess() > max(p.worst.excess(), 0) {
		p.worst = now
	}
}

// holding returns what a grant holds: of a window, for as long as that is.
func (p *peak) holding(g grant) holding {
	if p.Window > 0 {
		g.until = g.at + p.Window
	}
	return holding{arrival: g.arrival, since: g.at, ends: g.until}
}

func (p *peak) hold(h holding, permits int64) {
	if permits == 0 {
		return
	}
	p.held[h] = permits
	p.sum += permits
	p.order = append(p.order, h)
	if h.ends == never {
		return
	}
	at := len(p.ends)
	for at > 0 && p.ends[at-1].ends > h.ends {
		at--
	}
	p.ends = slices.Insert(p.ends, at, h)
}

// end ends what has ended until a time.
func (p *peak) end(at int64) {
	for ; p.steps < len(p.promise.steps) && p.promise.steps[p.steps] <= at; p.steps++ {
		p.forgetDebts()
	}
	for len(p.ends) > 0 && p.ends[0].ends <= at {
		p.lower(p.ends[0], p.held[p.ends[0]])
		p.ends = p.ends[1:]
	}
}

func (p *peak) forgetDebts() {
	for h, permits := range p.held {
		if h.owed {
			p.lower(h, permits)
		}
	}
}

func (p *peak) lower(h holding, by int64) {
	by = min(by, p.held[h])
	p.sum -= by
	if p.held[h] -= by; p.held[h] == 0 {
		delete(p.held, h)
	}
}

func (p *peak) change(g grant, by, at int64) {
	p.end(at)
	if by < 0 {
		p.lower(p.holding(g), -by)
		return
	}
	p.hold(holding{arrival: g.arrival, since: at, ends: at + p.Window, owed: true}, by)
}

func (p *peak) found() (most, worst stretch) { return p.most, p.worst }
