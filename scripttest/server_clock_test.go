package scripttest_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

// The tests of this file step the clock of a real server, and run the scripts on it as they are: TIME, TTLs and active
// expiry are the server's own.

// steppedServer is a target whose clock the test steps.
type steppedServer struct {
	*remote
	clock *redistest.Clock
}

// eachSteppedServer starts every server with a clock to step.
func eachSteppedServer(t *testing.T, test func(t *testing.T, s steppedServer)) {
	for _, binary := range redistest.Servers(t) {
		t.Run(strings.ReplaceAll(strings.TrimPrefix(binary, "/"), "/", "_"), func(t *testing.T) {
			server, clock := redistest.StartWithClock(t, binary, "--hz", "100")
			test(t, steppedServer{connectServer(t, server.Addr), clock})
		})
	}
}

func (s steppedServer) setTime(us int64) { s.clock.Set(time.UnixMicro(us)) }

// call runs the script's own bytes and leaves its keys the TTLs that it gave them.
func (s steppedServer) call(script *sluice.Script, _ bool, keys, args []string) ([]int64, string) {
	return answerOf(runScript(s.client, script.Source, keys, args))
}

func TestServerClockTimelines(t *testing.T) {
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		eachTable(t, func(t *testing.T, tab table) {
			tab.run(t, func(t *testing.T) target {
				s.do("FLUSHALL")
				return s
			})
		})
	})
}

// A clocked is a script as these tests call it: clockLimit in a window.
type clocked struct {
	script *sluice.Script
	keys   []string
	args   func(window, permits, maxWait string) []string

	ring     bool // it counts slices, of which clockSlices are a window, and does not book
	trickles bool // permits come back one by one, beside a burst
	entries  bool // it knows for when an entry was booked, which is up to 60 s after it was written

	lingers time.Duration // how much longer than it matters its first key may stay
}

const (
	clockLimit  = 5
	clockSlices = 10
)

var clockedScripts = []clocked{
	{script: &listLogV1Script, keys: listLogV1.keys, entries: true,
		args: func(window, permits, maxWait string) []string { return []string{"5", window, permits, maxWait} }},
	{script: &zsetLogV1Script, keys: zsetLogV1.keys, entries: true,
		args: func(window, permits, maxWait string) []string {
			return []string{"5", window, permits, maxWait, freshID()}
		}},
	{script: &tokenBucketV1Script, keys: tokenBucketV1.keys, entries: true, lingers: 100 * time.Millisecond,
		args: func(window, permits, maxWait string) []string { return []string{"5", window, "0", permits, maxWait} }},
	{script: &gcraV1Script, keys: gcraV1.keys, trickles: true,
		args: func(window, permits, maxWait string) []string { return []string{"5", window, "5", permits, maxWait} }},
	{script: &sliceRingV1Script, keys: sliceRingV1.keys, ring: true,
		args: func(window, permits, _ string) []string {
			slice := strings.TrimSuffix(window, "0") // a tenth
			return []string{permits, "0", slice, strconv.Itoa(clockSlices + 1), "5"}
		}},
}

// cycle is how long after a grant the limiter is full again.
func (of clocked) cycle(window time.Duration) time.Duration {
	if of.ring {
		return window + window/clockSlices
	}
	return window
}

// void is how far ahead state must have been written to be dropped: the ring may be a slice late.
func (of clocked) void(window time.Duration) time.Duration {
	switch {
	case of.entries:
		return window + 120*time.Second
	case of.ring:
		return of.cycle(window) + window/clockSlices + 60*time.Second
	}
	return window + 60*time.Second
}

// A trial is one limiter on a clock that steps, and all that it was granted.
type trial struct {
	on       steppedServer
	of       clocked
	window   time.Duration
	keys     []string // of its calls
	runs     bool     // the clock runs; else it stands
	failures []string

	stepped time.Duration // the sum of all steps: how far the server's clock is off
	byClock []act         // grants by the server's clock
	byTruth []act         // the same by a clock that never stepped
	voided  int64         // steps that make state void: each may let one extra limit through
	ahead   int64         // steps on: they too, by the true clock
	booked  int64         // permits that were granted for later
	latest  int64         // the latest time in byClock since state was void
}

func (tr *trial) errorf(format string, args ...any) {
	tr.failures = append(tr.failures, fmt.Sprintf(format, args...))
}

// A said is a reply: times are the server's.
type said struct {
	granted, remaining int64
	wait, resetAfter   time.Duration
	now                int64
}

// ready is the time that a reply's wait ends.
func (s said) ready() int64 { return s.now + s.wait.Microseconds() }

func (tr *trial) ask(permits int64, maxWait time.Duration) said {
	args := tr.of.args(inMicroseconds(tr.window.String()), strconv.FormatInt(permits, 10),
		inMicroseconds(maxWait.String()))
	tr.keys = table{script: tr.of.script, keys: tr.of.keys}.keysOf(args)
	reply, failed := tr.on.call(tr.of.script, permits == 0, tr.keys, args)
	if failed != "" {
		tr.errorf("%d permits: %s", permits, failed)
		return said{}
	}
	s := said{reply[0], reply[1], time.Duration(reply[2]) * time.Microsecond, time.Duration(reply[3]) * time.Microsecond,
		reply[4]}
	if s.granted > 0 {
		// While the clock is behind, the ring counts in its last slice, and the logs grant nothing.
		tr.latest = max(tr.latest, s.ready())
		tr.byClock = append(tr.byClock, act{tr.latest, permits})
		tr.byTruth = append(tr.byTruth, act{s.ready() - tr.stepped.Microseconds(), permits})
		if s.wait > 0 {
			tr.booked += permits
		}
		tr.expiry(s)
	}
	return s
}

// fill takes permits until one is denied, and returns how many there were and the denial.
func (tr *trial) fill() (granted int64, denial said) {
	for range 10 * clockLimit {
		if denial = tr.ask(1, 0); denial.granted == 0 {
			return granted, denial
		}
		granted++
	}
	tr.errorf("%d permits and no denial", granted)
	return granted, denial
}

// step is a step of the clock, pass the time that passes.
func (tr *trial) step(d time.Duration) {
	if d > 0 {
		tr.ahead++
	} else if tr.voids(d) {
		tr.voided++
		tr.latest = 0
	}
	tr.on.clock.Step(d)
	tr.stepped += d
}

func (tr *trial) pass(d time.Duration) { tr.on.clock.Step(d) }

// voids tells whether what was written before a step is further ahead than it may be; within, whether the step must let
// nothing extra through.
func (tr *trial) voids(step time.Duration) bool  { return -step > tr.window+60*time.Second }
func (tr *trial) within(step time.Duration) bool { return step < 0 && !tr.voids(step) }

// audit compares the grants with the limit. By the server's clock one extra limit may come through where state is void;
// by the true clock, where a step passes time early too.
func (tr *trial) audit() {
	if over := tr.over(tr.byClock, 1+tr.voided); over != "" {
		tr.errorf("by the server's clock: %s", over)
	}
	if over := tr.over(tr.byTruth, 1+tr.voided+tr.ahead); over != "" {
		tr.errorf("by a clock that never steps: %s", over)
	}
}

// over names an interval that holds more than so many limits. Where permits trickle they come back meanwhile, and what
// was booked before a step trickles beside what is granted after it.
func (tr *trial) over(acts []act, limits int64) string {
	acts = slices.Clone(acts)
	slices.SortFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	if !tr.of.trickles {
		first, held := 0, int64(0)
		for _, a := range acts {
			held += a.permits
			for acts[first].at <= a.at-tr.window.Microseconds() {
				held -= acts[first].permits
				first++
			}
			if held > limits*clockLimit {
				return fmt.Sprintf("%d permits in a window, want at most %d", held, limits*clockLimit)
			}
		}
		return ""
	}
	for i := range acts {
		most, held := limits*clockLimit, int64(0)
		if limits > 1 {
			most += tr.booked
		}
		for _, later := range acts[i:] {
			held += later.permits
			back := (later.at - acts[i].at) * clockLimit / tr.window.Microseconds()
			if held > most+back {
				return fmt.Sprintf("%d permits within %d us, want at most %d", held, later.at-acts[i].at, most+back)
			}
		}
	}
	return ""
}

// expiry checks the TTLs after a grant (point 11 of the contract): no key is gone before the limiter has been
// full again for a millisecond, and none stays for longer than three, a config than a tenth of a second. Redis drops a
// key when its millisecond is over.
func (tr *trial) expiry(s said) {
	if tr.runs {
		tr.on.clock.Stop()
		defer tr.on.clock.Resume()
	}
	now := tr.on.clock.Now().UnixMilli()
	for _, key := range tr.keys {
		ttl, _ := strconv.ParseInt(tr.on.do("PTTL", key), 10, 64)
		late := (now+ttl+1)*1000 - (s.now + s.resetAfter.Microseconds())
		most := int64(3000)
		if key == tr.keys[0] {
			most += tr.of.lingers.Microseconds()
		}
		switch {
		case ttl == -2 && strings.Contains(key, ":by:"): // token_bucket has one key of two
		case ttl < 0:
			tr.errorf("%s: TTL %d after a grant", key, ttl)
		case late < 1000:
			tr.errorf("%s expires %d us too early", key, 1000-late)
		case late > most && !tr.runs || late > 1_000_000: // SET counts from when it runs, not from TIME
			tr.errorf("%s expires %v after it stops to matter", key, time.Duration(late)*time.Microsecond)
		}
	}
}

// clockSteps are those of the issue, and the last that may let nothing extra through.
func clockSteps(window time.Duration) map[string]time.Duration {
	const threeYears = 3 * 365 * 24 * time.Hour
	return map[string]time.Duration{
		"+1ms": time.Millisecond, "-1ms": -time.Millisecond, "+1s": time.Second, "-1s": -time.Second,
		"+1h": time.Hour, "-1h": -time.Hour, "+3y": threeYears, "-3y": -threeYears,
		"-(window+60s)": -(window + 60*time.Second),
	}
}

// TestServerClockSteps has every script meet every step, on a clock that runs and on one that stands: when its limit is
// used up, half used, and booked ahead; and then the same step the other way.
func TestServerClockSteps(t *testing.T) {
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		steps, grants := 0, 0
		for _, of := range clockedScripts {
			t.Run(of.script.Name, func(t *testing.T) {
				of.eachTrial(s, func(name string, tr *trial) {
					steps, grants = steps+2, grants+len(tr.byClock)
					for _, failure := range tr.failures {
						t.Errorf("%s: %s", name, failure)
					}
				})
			})
		}
		t.Logf("%d steps, %d grants audited", steps, grants)
	})
}

// eachTrial is every window, step, beginning, and the clock running or standing.
func (of clocked) eachTrial(s steppedServer, done func(name string, tr *trial)) {
	for _, window := range []time.Duration{10 * time.Second, time.Hour} {
		for step, d := range clockSteps(window) {
			for beginning, use := range beginnings {
				for _, clock := range []string{"runs", "stands"} {
					tr := newTrial(s, of, window)
					if tr.runs = clock == "runs"; tr.runs {
						s.clock.Resume()
					}
					tr.meet(d, use(tr))
					done(fmt.Sprintf("window %v, %s, step %s, clock %s", window, beginning, step, clock), tr)
				}
			}
		}
	}
}

// newTrial begins with an empty server, and its clock standing.
func newTrial(s steppedServer, of clocked, window time.Duration) *trial {
	s.do("FLUSHALL")
	s.clock.Set(time.UnixMicro(epoch + 1))
	return &trial{on: s, of: of, window: window}
}

// beginnings use permits of a new limiter and return what it says then: a look or a denial.
var beginnings = map[string]func(tr *trial) said{
	"used up": func(tr *trial) said {
		granted, denial := tr.fill()
		if granted != clockLimit {
			tr.errorf("a new limiter granted %d, want its limit", granted)
		}
		return denial
	},
	"half used": func(tr *trial) said {
		tr.ask(1, 0)
		tr.ask(2, 0)
		return tr.ask(0, 0)
	},
	"booked ahead": func(tr *trial) said {
		tr.fill()
		tr.pass(tr.window - min(tr.window, 5*time.Second)) // a booking reaches 60 s
		for range 3 {
			if s := tr.ask(1, time.Minute); !tr.of.ring && s.granted == 0 {
				tr.errorf("not booked")
			}
		}
		return tr.ask(0, 0)
	},
}

// meet steps the clock and back, and checks what the limiter then grants (point 13 of the contract).
func (tr *trial) meet(step time.Duration, before said) {
	tr.check(step, before)
	tr.check(-step, tr.ask(0, 0))
}

func (tr *trial) check(step time.Duration, before said) {
	tr.step(step)
	seen := tr.ask(0, 0)
	granted, denial := tr.fill()
	switch {
	case granted > clockLimit:
		tr.errorf("%d granted at once, want at most the limit", granted)
	case -step > tr.of.void(tr.window) && granted != clockLimit:
		tr.errorf("%d granted after a step further back than a window, want the limit: it begins afresh", granted)
	case step > tr.of.cycle(tr.window)+time.Minute && granted != clockLimit:
		tr.errorf("%d granted after a step on, when all permits have come back", granted)
	case tr.within(step) && granted > before.remaining && !tr.runs: // else some come free meanwhile
		tr.errorf("%d granted after a step back, want up to the %d that there were", granted, before.remaining)
	case tr.within(step) && seen.ready() > max(before.ready(), seen.now):
		tr.errorf("a permit comes free at %d, was %d: later than the step", seen.ready(), before.ready())
	}
	// What was announced is kept, to the microsecond where the clock stands.
	if denial.wait > tr.of.cycle(tr.window)+time.Minute+max(0, -step) {
		tr.errorf("a wait of %v, longer than a booking, a window and the step", denial.wait)
	}
	tr.pass(denial.wait)
	if s := tr.ask(1, 0); s.granted != 1 {
		tr.errorf("denied after the wait of %v that was announced; now %v", denial.wait, s.wait)
	}
	tr.audit()
}

// TestServerClockCatches is TestServerClockSteps with copies of scripts that are broken in what it is for.
func TestServerClockCatches(t *testing.T) {
	broken := []struct{ script, fault, old, new, says string }{
		{"list_log", "a log from far ahead stays", "if newest > now + newest_window + slack then newest = nil end", "",
			"it begins afresh"},
		{"list_log", "a log from a little ahead is dropped", "newest > now + window + slack then",
			"newest > now then newest = nil elseif false then", "want up to"},
		{"list_log", "no TTL", `redis.pcall("PEXPIREAT", log, string.format("%d%03d", (expires - ms) / 1000, ms))`, "1",
			"after a grant"},
		{"token_bucket", "a TTL that rounds down", "math.ceil((due + interval) / 1000)",
			"math.floor((due + interval) / 1000) - 1", "too early"},
		{"gcra", "a TTL a second too long", "math.ceil(reset_after / 1000)", "math.ceil(reset_after / 1000) + 1000",
			"after it stops to matter"},
		{"slice_ring", "a clock that is behind begins afresh", "if time - now > size * slice + step_back then",
			"if time > now then", "want up to"},
	}
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		for _, b := range broken {
			t.Run(b.script+"/"+b.fault, func(t *testing.T) {
				of := clockedScripts[slices.IndexFunc(clockedScripts, func(of clocked) bool { return of.script.Name == b.script })]
				of.script = edited(t, of.script, b.old, b.new)
				caught := false
				of.eachTrial(s, func(_ string, tr *trial) {
					caught = caught || strings.Contains(strings.Join(tr.failures, "\n"), b.says)
				})
				if !caught {
					t.Errorf("no trial says %q", b.says)
				}
			})
		}
	})
}

// edited is a script with one piece of its source replaced, which must stand in it once.
func edited(t testing.TB, script *sluice.Script, old, new string) *sluice.Script {
	t.Helper()
	if n := strings.Count(script.Source, old); n != 1 {
		t.Fatalf("%s holds %q %d times, want once", script.File, old, n)
	}
	copied := *script
	copied.Source = strings.Replace(script.Source, old, new, 1)
	copied.SHA1 = sha1Hex(copied.Source)
	return &copied
}

// TestServerClockChanges: a changed limit, window or burst takes what there is into account, also after a step back.
// The limiter is used up, steps, and is asked for as much as it gives under the changed arguments.
func TestServerClockChanges(t *testing.T) {
	const window = 10 * time.Second
	changes := []struct {
		tab  table
		do   string
		most int64
	}{
		{listLogV1, "9 10s 1 0", 4},
		{listLogV1, "3 10s 1 0", 0},
		{listLogV1, "5 8784h 1 0", 0},
		{zsetLogV1, "9 10s 1 0 *", 4},
		{zsetLogV1, "3 10s 1 0 *", 0},
		{zsetLogV1, "5 8784h 1 0 *", 0},
		{gcraV1, "5 10s 9 1 0", 4},
		{gcraV1, "5 10s 3 1 0", 0},
		{gcraV1, "50 10s 5 1 0", 0},
		{gcraV1, "5 20s 5 1 0", 2},
		{sliceRingV1, "1 0 1s 11 9", 4},
		{sliceRingV1, "1 0 1s 11 3", 0},
		{tokenBucketV1, "9 1ms 0 1 0", 0},
	}
	eachSteppedServer(t, func(t *testing.T, s steppedServer) {
		for _, c := range changes {
			of := clockedScripts[slices.IndexFunc(clockedScripts, func(of clocked) bool { return of.script == c.tab.script })]
			for _, step := range []time.Duration{0, -time.Millisecond, -time.Second, -window - time.Minute} {
				tr := newTrial(s, of, window)
				tr.fill()
				tr.step(step)
				granted := int64(0)
				for range 2 * clockLimit {
					keys, args := c.tab.asked(strings.Replace(c.do, "*", freshID(), 1))
					reply, _ := s.call(of.script, false, keys, args)
					granted += reply[0]
				}
				if granted > c.most || step == 0 && granted < c.most {
					t.Errorf("%s %s, after a step of %v: %d granted, want %d", of.script.Name, c.do, step, granted, c.most)
				}
				if again := tr.ask(1, 0); again.granted != 0 {
					t.Errorf("%s %s, after a step of %v: what was used up is open again", of.script.Name, c.do, step)
				}
			}
		}
	})
}
