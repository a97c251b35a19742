package play

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A LinkError says what is wrong with a parameter of a link.
type LinkError struct {
	Parameter, Value string
	Want             string
}

func (e *LinkError) Error() string {
	value := e.Value
	if len(value) > 40 {
		value = value[:40] + "..."
	}
	return e.Parameter + " " + strconv.Quote(value) + ": want " + e.Want
}

// Scenario is what a link says: the limits, the traffic and the clocks. Times and lengths are in microseconds.
type Scenario struct {
	Lanes  []string
	Limits []Limit // the second one is for slice_ring, ahead and budget only
	Burst  int64
	Ahead  int64

	For               int64
	Rate              int64 // calls in 1000 s
	Burstiness        int64
	Clients, Noisy    int64
	KeyPerClient      bool
	Cost, CostMax     int64
	Hold, HoldMax     int64 // how long a granted request works
	Actual, ActualMax int64 // percent of the cost
	Lost, Unused      int64 // percent of the granted requests
	TTL               int64
	Denied            string
	Every, Tries      int64
	Processes, Error  int64 // that grant by themselves; percent of the limit
	Skew              int64
	Steps             []ClockStep
	BunchEvery, Bunch int64
	Paint             []int64 // tenths of the rate, a bin each
	Calls             []int64
	Seed              uint64
	Own               string // a script
}

// A Limit is a number of permits in a window.
type Limit struct {
	Permits int64 `json:"permits"`
	Window  int64 `json:"window"`
}

// A ClockStep is a step of the server's clock.
type ClockStep struct{ At, By int64 }

// What the parameter denied may be.
const (
	deniedLeave = "leave"
	deniedWait  = "wait"
	deniedPoll  = "poll"
)

const (
	second = int64(time.Second / time.Microsecond)
	day    = 24 * 3600 * second

	maxLanes    = 6
	maxSingle   = 500
	maxBins     = 200
	maxOwn      = 100_000 // bytes
	maxSteps    = 100
	thousandths = 1000
	maxActual   = 1000 // percent
)

// parameters are the names of all parameters, with their defaults: "" is none, or that of another parameter.
var parameters = map[string]string{
	"lanes": "list_log,fixed_window", "permits": "5", "window": "1s", "permits2": "", "window2": "", "burst": "",
	"ahead": "0s", "for": "10s", "rate": "8", "burstiness": "1", "clients": "10", "noisy": "0", "key": "one",
	"cost": "1", "costmax": "", "denied": deniedLeave, "every": "100ms", "tries": "10", "skew": "0s", "step": "",
	"bunch": "", "paint": "", "calls": "", "seed": "1", "lua": "",
	"hold": "500ms", "holdmax": "", "actual": "100", "actualmax": "", "lost": "0", "unused": "0", "ttl": "30s",
	"processes": "4", "error": "20",
}

// Parse reads the hash of a URL. The error is a *LinkError.
func Parse(link string) (*Scenario, error) {
	values, err := url.ParseQuery(strings.TrimPrefix(link, "#"))
	if err != nil {
		return nil, &LinkError{"link", link, "name=value pairs, joined by &, with special characters as %XX"}
	}
	r := &reader{values: values}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, known := parameters[name]; !known {
			names := strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")
			return nil, &LinkError{name, values.Get(name), "one of the parameters " + names}
		}
		if len(values[name]) > 1 {
			return nil, &LinkError{name, values[name][1], "each parameter once"}
		}
	}
	s := r.scenario()
	if r.err == nil {
		r.checkLanes(s)
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, nil
}

// reader reads parameters until one is wrong.
type reader struct {
	values url.Values
	err    *LinkError
}

func (r *reader) scenario() *Scenario {
	s := &Scenario{
		Lanes:  r.lanes(),
		Limits: []Limit{{r.integer("permits", 1, 100_000), r.duration("window", time.Millisecond, 24*time.Hour)}},
		Ahead:  r.duration("ahead", 0, time.Minute),

		For: r.duration("for", 100*time.Millisecond, 24*time.Hour), Rate: r.rate(),
		Burstiness: r.integer("burstiness", 0, 100),
		Clients:    r.integer("clients", 1, 1000), Noisy: r.integer("noisy", 0, 100),
		KeyPerClient: r.oneOf("key", "one", "client") == "client",
		Cost:         r.integer("cost", 1, 100_000),
		Denied:       r.oneOf("denied", deniedLeave, deniedWait, deniedPoll),
		Every:        r.duration("every", time.Millisecond, time.Hour), Tries: r.integer("tries", 1, 100),
		Skew: r.duration("skew", 0, time.Hour), Steps: r.steps(),
		Paint: r.paint(), Calls: r.calls(), Seed: uint64(r.integer("seed", 0, 1<<53-1)), Own: r.own(),
		Hold:   r.duration("hold", time.Millisecond, time.Hour),
		Actual: r.integer("actual", 0, maxActual), Lost: r.integer("lost", 0, 100), Unused: r.integer("unused", 0, 100),
		TTL:       r.duration("ttl", 10*time.Millisecond, 24*time.Hour),
		Processes: r.integer("processes", 1, 100), Error: r.integer("error", 1, 100),
	}
	s.BunchEvery, s.Bunch = r.bunch()
	s.Burst, s.CostMax, s.HoldMax, s.ActualMax = s.Limits[0].Permits, s.Cost, s.Hold, s.Actual
	if r.get("burst") != "" {
		s.Burst = r.integer("burst", 1, 10_000_000)
	}
	if r.get("costmax") != "" {
		s.CostMax = r.integer("costmax", s.Cost, 100_000)
	}
	if r.get("holdmax") != "" {
		s.HoldMax = r.duration("holdmax", time.Duration(s.Hold)*time.Microsecond, time.Hour)
	}
	if r.get("actualmax") != "" {
		s.ActualMax = r.integer("actualmax", s.Actual, maxActual)
	}
	r.secondWindow(s)
	return s
}

func (r *reader) get(name string) string {
	if r.values.Has(name) {
		return r.values.Get(name)
	}
	return parameters[name]
}

func (r *reader) wrong(name, want string) {
	if r.err == nil {
		r.err = &LinkError{name, r.get(name), want}
	}
}

func (r *reader) integer(name string, least, most int64) int64 {
	n, err := strconv.ParseInt(r.get(name), 10, 64)
	if err != nil || n < least || n > most {
		r.wrong(name, "a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return n
}

func (r *reader) duration(name string, least, most time.Duration) int64 {
	us, ok := microseconds(r.get(name), least, most)
	if !ok {
		r.wrong(name, "a duration from "+brief(least)+" to "+brief(most)+", in whole microseconds")
	}
	return us
}

// microseconds reads a duration in Go's words.
func microseconds(text string, least, most time.Duration) (us int64, ok bool) {
	d, err := time.ParseDuration(text)
	return d.Microseconds(), err == nil && d >= least && d <= most && d%time.Microsecond == 0
}

// brief writes a duration as people do: 24h0m0s is 24h.
func brief(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (r *reader) oneOf(name string, options ...string) string {
	if !slices.Contains(options, r.get(name)) {
		r.wrong(name, strings.Join(options, " or "))
	}
	return r.get(name)
}

// rate reads a decimal with up to three places as thousandths.
func (r *reader) rate() int64 {
	whole, part, _ := strings.Cut(r.get("rate"), ".")
	n, err := strconv.ParseUint(whole+(part + "000")[:3], 10, 32)
	if err != nil || whole == "" || len(part) > 3 || n > 10_000*thousandths {
		r.wrong("rate", "0 to 10000 calls a second, with up to three decimal places")
	}
	return int64(n)
}

func (r *reader) lanes() []string {
	ids := strings.Split(r.get("lanes"), ",")
	for i, id := range ids {
		if limiterOf(id) == nil || i == maxLanes || slices.Contains(ids[:i], id) {
			r.wrong("lanes", "up to 6 different ones of "+strings.Join(laneIDs(), ", "))
		}
	}
	return ids
}

// own reads the text of the lane own.
func (r *reader) own() string {
	text := r.get("lua")
	switch {
	case len(text) > maxOwn:
		r.wrong("lua", "a script of up to 100000 bytes")
	case text == "" && slices.Contains(r.lanes(), ownID):
		r.wrong("lua", "the text of the lane own")
	}
	return text
}

func (r *reader) secondWindow(s *Scenario) {
	if r.get("permits2") == "" && r.get("window2") == "" {
		return
	}
	permits, window := r.integer("permits2", 1, 100_000), r.duration("window2", time.Millisecond, 24*time.Hour)
	s.Limits = append(s.Limits, Limit{permits, window})
}

// pairs reads at:by,at:by,... and reports whether there are at most so many pairs.
func (r *reader) pairs(name string, most int, read func(first, second string) bool) bool {
	text := r.get(name)
	if text == "" {
		return true
	}
	items := strings.Split(text, ",")
	return len(items) <= most && !slices.ContainsFunc(items, func(item string) bool {
		first, second, _ := strings.Cut(item, ":")
		return !read(first, second)
	})
}

func (r *reader) steps() (steps []ClockStep) {
	ok := r.pairs("step", maxSteps, func(first, second string) bool {
		at, ok := microseconds(first, 0, 24*time.Hour)
		by, ok2 := microseconds(second, -24*time.Hour, 24*time.Hour)
		steps = append(steps, ClockStep{at, by})
		return ok && ok2
	})
	if !ok {
		r.wrong("step", "up to 100 steps at:by, such as 4s:-10s, of up to 24h")
	}
	slices.SortStableFunc(steps, func(a, b ClockStep) int { return cmp.Compare(a.At, b.At) })
	return steps
}

func (r *reader) bunch() (every, calls int64) {
	ok := r.pairs("bunch", 1, func(first, second string) (ok bool) {
		every, ok = microseconds(first, 100*time.Millisecond, 24*time.Hour)
		n, err := strconv.ParseUint(second, 10, 32)
		calls = int64(n)
		return ok && err == nil && n >= 1 && n <= 10_000
	})
	if !ok {
		r.wrong("bunch", "a period from 100ms to 24h and 1 to 10000 calls, such as 1s:10")
	}
	return every, calls
}

func (r *reader) paint() (bins []int64) {
	text := r.get("paint")
	for _, c := range text {
		weight, err := strconv.ParseUint(string(c), 36, 8)
		if err != nil {
			break
		}
		bins = append(bins, int64(weight))
	}
	if len(bins) < len(text) || len(bins) > maxBins {
		r.wrong("paint", "up to 200 digits or letters a to z")
	}
	return bins
}

func (r *reader) calls() (calls []int64) {
	text := r.get("calls")
	if text == "" {
		return nil
	}
	for item := range strings.SplitSeq(text, ",") {
		at, ok := microseconds(item, 0, 24*time.Hour)
		if !ok || len(calls) == maxSingle {
			r.wrong("calls", "up to 500 times, such as 1.5s,1.503s, of up to 24h")
			return nil
		}
		calls = append(calls, at)
	}
	slices.Sort(calls)
	return calls
}

// checkLanes checks what the lanes do not take.
func (r *reader) checkLanes(s *Scenario) {
	limit := s.Limits[0]
	if s.Burst*limit.Window/limit.Permits >= 1<<52 {
		r.wrong("burst", "one that comes back in less than 2^52 us")
	}
	for _, id := range s.Lanes {
		k := limiterOf(id)
		if most := k.maxArgument("limit", "rate", "limit_i"); limit.Permits > most {
			r.wrong("permits", "up to "+strconv.FormatInt(most, 10)+" with "+id)
		}
		if most := s.mostPermits(k); s.CostMax > most {
			name := "cost"
			if s.Cost <= most {
				name = "costmax"
			}
			r.wrong(name, "up to "+strconv.FormatInt(most, 10)+" with "+id)
		}
	}
}

// mostPermits returns how many permits a call may ask for.
func (s *Scenario) mostPermits(k *limiter) int64 {
	most := min(k.maxArgument("permits"), s.Limits[0].Permits)
	switch {
	case k.follows == releases: // one slot, whatever the cost
		return s.CostMax
	case k.id == "gcra":
		return min(k.maxArgument("permits"), s.Burst)
	case k.severalWindows() && len(s.Limits) > 1:
		return min(most, s.Limits[1].Permits)
	}
	return most
}
