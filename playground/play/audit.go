package play

import "slices"

// fullest finds the half-open interval of one window that holds the most permits of one key, wherever it lies. It looks
// at each grant once, as long as they come in the order of the times for which they are granted.
type fullest struct {
	window int64
	grants []grant // in the order of their times
	seen   int     // grants up to here are counted
	first  int     // the first one in the window that ends with the last counted one
	inside int64   // permits in that window

	most int64
	from int64 // the first grant of the fullest window, the earliest of several
}

// grant is a number of permits that may be used from a time on.
type grant struct{ at, permits int64 }

func (f *fullest) add(g grant) {
	at := len(f.grants)
	for at > 0 && f.grants[at-1].at > g.at { // a booking made before the clock stepped is later
		at--
	}
	f.grants = slices.Insert(f.grants, at, g)
	if at < f.seen {
		f.seen, f.first, f.inside, f.most = 0, 0, 0, 0
	}
}

// count brings most and from up to date.
func (f *fullest) count() {
	for ; f.seen < len(f.grants); f.seen++ {
		g := f.grants[f.seen]
		f.inside += g.permits
		for f.grants[f.first].at <= g.at-f.window {
			f.inside -= f.grants[f.first].permits
			f.first++
		}
		if f.inside > f.most {
			f.most, f.from = f.inside, f.grants[f.first].at
		}
	}
}

// tally is what happened in a lane.
type tally struct {
	limits  []Limit // what each window is audited for: the promise
	keys    map[string][]*fullest
	inOrder []string // the keys

	calls, granted, booked, denied, errors int
	firstError                             string
	permits                                int64
	waits                                  median
}

func newTally(promise []Limit) *tally { return &tally{limits: promise, keys: map[string][]*fullest{}} }

// grant counts permits of a key that may be used at a time.
func (t *tally) grant(key string, g grant) {
	windows, known := t.keys[key]
	if !known {
		for _, limit := range t.limits {
			windows = append(windows, &fullest{window: limit.Window})
		}
		t.keys[key] = windows
		t.inOrder = append(t.inOrder, key)
	}
	for _, w := range windows {
		w.add(g)
	}
	t.permits += g.permits
}

// WindowAudit is the fullest window of a lane so far, over all keys.
type WindowAudit struct {
	Window   int64 `json:"window"`
	Promised int64 `json:"promised"`
	Most     int64 `json:"most"`
	From     int64 `json:"from"`
	Over     bool  `json:"over"`
}

func (t *tally) windows() []WindowAudit {
	audits := make([]WindowAudit, len(t.limits))
	for i, limit := range t.limits {
		a := WindowAudit{Window: limit.Window, Promised: limit.Permits}
		for _, key := range t.inOrder {
			f := t.keys[key][i]
			f.count()
			if f.most > a.Most || f.most == a.Most && f.from < a.From {
				a.Most, a.From = f.most, f.from
			}
		}
		a.Over = a.Most > a.Promised
		audits[i] = a
	}
	return audits
}

// extra returns how many times the limit may be granted in addition in one window, because the server's clock stepped:
// on, or back by more than a window and 60 s. A step changes what is granted until the last booking made before it.
func (s *Scenario) extra(window int64) (most int64) {
	var bad []int64
	ahead, highest := int64(0), int64(0) // of the server's clock: how far it is ahead, and was at most
	for _, step := range s.Steps {
		ahead += step.By
		if step.By > 0 || ahead < highest-window-60*second {
			bad = append(bad, step.At)
		}
		highest = max(highest, ahead)
	}
	for i, at := range bad {
		for j := i; j < len(bad) && bad[j] < at+window+s.Ahead; j++ {
			most = max(most, int64(j-i+1))
		}
	}
	return most
}

// promise returns what a limiter promises for each window.
func (s *Scenario) promise(k *limiter) []Limit {
	limits := s.Limits[:1]
	if k.id == "slice_ring" {
		limits = s.Limits
	}
	promise := slices.Clone(limits)
	for i := range promise {
		limit := &promise[i]
		once := limit.Permits
		switch k.id {
		case "gcra":
			limit.Permits += s.Burst
			if once = s.Burst; s.Ahead > 0 {
				once = limit.Permits
			}
		case "tutorial_bucket":
			limit.Permits *= 2
		}
		if k.kind == kindOurs {
			limit.Permits += once * s.extra(limit.Window)
		}
	}
	return promise
}
