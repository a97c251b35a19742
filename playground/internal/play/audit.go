package play

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// promise is what a limiter promises for any interval of a window. Each step of the server's clock that costs something
// allows more, but only where grants before it and after it are together.
type promise struct {
	Limit
	more  int64   // permits for each step
	steps []int64 // when
	ahead int64   // grants are booked up to so far ahead
	lasts int64   // how long a step may cost something
}

// allowed returns how many permits may lie from one time up to another, both included, that are in one window.
func (p *promise) allowed(first, last int64) int64 {
	permits := p.Permits
	for _, at := range p.steps {
		if first < at+p.ahead && at <= last && last-at < p.lasts {
			permits += p.more
		}
	}
	return permits
}

// measure finds what is granted most of one key.
type measure interface {
	// grant counts a grant.
	grant(g grant)
	// change changes what a grant counts, by more or less permits, at a time.
	change(g grant, by, at int64)
	// found returns the most, the earliest of several, and what is furthest above what is allowed.
	found() (most, worst stretch)
}

// fullest finds the half-open interval of one window that holds the most permits of one key, wherever it lies. It looks
// at each grant once, as long as they come in the order of the times for which they are granted.
type fullest struct {
	*promise
	grants []grant // in the order of their times
	seen   int     // grants up to here are counted
	first  int     // the first one in the window that ends with the last counted one
	inside int64   // permits in that window

	most  stretch // the fullest, the earliest of several
	worst stretch // the one that is furthest above what is allowed
}

// stretch is what lies in one window.
type stretch struct {
	permits int64
	from    int64 // the first grant
	allowed int64
}

func (s stretch) excess() int64 { return s.permits - s.allowed }

// grant is a number of permits that may be used from a time on, by the request that arrived so.
type grant struct {
	at, permits int64
	until       int64 // of a slot
	arrival     int
}

func (f *fullest) grant(g grant) {
	at := len(f.grants)
	for at > 0 && f.grants[at-1].at > g.at { // a booking made before the clock stepped is later
		at--
	}
	f.grants = slices.Insert(f.grants, at, g)
	f.changed(at)
}

// change counts fewer permits for a grant: those that were given back were not used.
func (f *fullest) change(g grant, by, _ int64) {
	at, _ := slices.BinarySearchFunc(f.grants, g.at, func(other grant, at int64) int { return cmp.Compare(other.at, at) })
	for f.grants[at].arrival != g.arrival {
		at++
	}
	if f.grants[at].permits += by; f.grants[at].permits == 0 {
		f.grants = slices.Delete(f.grants, at, at+1)
	}
	f.changed(at)
}

// changed has all counted again, if what was counted has changed.
func (f *fullest) changed(at int) {
	if at < f.seen {
		f.seen, f.first, f.inside, f.most, f.worst = 0, 0, 0, stretch{}, stretch{}
	}
}

func (f *fullest) found() (most, worst stretch) {
	f.count()
	return f.most, f.worst
}

// count brings most and worst up to date.
func (f *fullest) count() {
	for ; f.seen < len(f.grants); f.seen++ {
		g := f.grants[f.seen]
		f.inside += g.permits
		for f.grants[f.first].at <= g.at-f.Window {
			f.inside -= f.grants[f.first].permits
			f.first++
		}
		from := f.grants[f.first].at
		now := stretch{f.inside, from, f.allowed(from, g.at)}
		if now.permits > f.most.permits {
			f.most = now
		}
		if now.excess() > max(f.worst.excess(), 0) {
			f.worst = now
		}
	}
}

// tally is what happened in a lane.
type tally struct {
	promises []*promise
	peaks    bool                 // measured when something is granted
	keys     map[string][]measure // one for each promise
	inOrder  []string             // the keys

	calls      int
	here       int // decided by processes
	outcomes   [outcomes]int
	firstError string
	permits    int64
	waits      median
}

func (s *Scenario) newTally(k *limiter) *tally {
	return &tally{promises: s.promises(k), peaks: s.hasPeaks(k), keys: map[string][]measure{}}
}

// hasPeaks reports whether what is held changes afterwards. What a log books is measured when it is due, less what was
// given back.
func (s *Scenario) hasPeaks(k *limiter) bool {
	return k.follows == releases || k.follows == settles || k.follows == returns && s.Unused > 0 && s.Ahead == 0
}

func (t *tally) measure(p *promise) measure {
	if t.peaks {
		return newPeak(p)
	}
	return &fullest{promise: p}
}

// grant counts a grant of a key.
func (t *tally) grant(key string, g grant) {
	measures, known := t.keys[key]
	if !known {
		for _, p := range t.promises {
			measures = append(measures, t.measure(p))
		}
		t.keys[key] = measures
		t.inOrder = append(t.inOrder, key)
	}
	for _, m := range measures {
		m.grant(g)
	}
	t.permits += g.permits
}

// charge is change, of permits that are charged or given back: they count in all.
func (t *tally) charge(key string, g grant, by, at int64) {
	t.change(key, g, by, at)
	t.permits += by
}

// change changes what a grant of a key counts, at a time.
func (t *tally) change(key string, g grant, by, at int64) {
	for _, m := range t.keys[key] {
		m.change(g, by, at)
	}
}

// WindowAudit is the fullest window of a lane so far, over all keys; or the one that is furthest above what is promised
// for it. A window of 0 stands for the most at once.
type WindowAudit struct {
	Window   int64 `json:"window"`
	Promised int64 `json:"promised"`
	Most     int64 `json:"most"`
	From     int64 `json:"from"`
	Over     bool  `json:"over"`
}

func (t *tally) windows() []WindowAudit {
	audits := make([]WindowAudit, len(t.promises))
	for i, p := range t.promises {
		most, worst := stretch{allowed: p.Permits}, stretch{}
		for _, key := range t.inOrder {
			m, w := t.keys[key][i].found()
			if m.permits > most.permits || m.permits == most.permits && m.from < most.from {
				most = m
			}
			if w.excess() > worst.excess() {
				worst = w
			}
		}
		over := worst.excess() > 0
		if over {
			most = worst
		}
		audits[i] = WindowAudit{p.Window, most.allowed, most.permits, most.from, over}
	}
	return audits
}

// costlySteps returns the times at which the server's clock steps on, or further behind its highest time than a window
// and 60 s.
func (s *Scenario) costlySteps(window int64) (at []int64) {
	ahead, highest := int64(0), int64(0)
	for _, step := range s.Steps {
		highest = max(highest, step.At+ahead)
		ahead += step.By
		if step.By > 0 || step.At+ahead < highest-window-60*second {
			at = append(at, step.At)
		}
	}
	return at
}

// promises returns what a limiter promises for each window. Others than ours promise the limit, a bucket twice as much.
func (s *Scenario) promises(k *limiter) (promises []*promise) {
	if k.follows == releases {
		return []*promise{s.slotsPromise(k)}
	}
	for _, limit := range s.limitsOf(k) {
		p := &promise{Limit: limit, more: limit.Permits, lasts: never}
		if k.books() {
			p.ahead = s.Ahead
		}
		switch k.id {
		case "gcra":
			p.Permits += s.Burst
			if p.more = s.Burst; s.Ahead > 0 {
				p.more = p.Permits
			}
		case "ahead":
			p.Permits += p.Permits * s.Error / 100
			p.more = p.Permits
		case "quota", "tutorial_bucket":
			p.Permits *= 2
		}
		if strings.Contains(k.source, `"TIME"`) { // by the server's clock
			window := limit.Window
			if k.id == "quota" {
				window = 0 // further back than 60 s is a period before
			}
			p.steps = s.costlySteps(window)
		}
		promises = append(promises, p)
	}
	return promises
}

// limitsOf returns the limits that a limiter takes.
func (s *Scenario) limitsOf(k *limiter) []Limit {
	if k.severalWindows() {
		return s.Limits
	}
	return s.Limits[:1]
}

// slotsPromise returns what is promised of slots: so many at once. Where the server's clock steps on, leases end early,
// and their holders know when they renew them next. Where it steps back, leases last longer.
func (s *Scenario) slotsPromise(k *limiter) *promise {
	p := &promise{Limit: Limit{Permits: s.Limits[0].Permits}, more: s.Limits[0].Permits, lasts: s.TTL / 3}
	if k.ours != nil {
		p.steps = s.costlySteps(math.MaxInt64 / 2)
	}
	return p
}
