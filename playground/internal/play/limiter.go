package play

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-redis/sluice"
)

// limiter is one that a lane may show.
type limiter struct {
	id, title string
	kind      string // ours, other or own
	note      string
	file      string
	source    string
	code      string         // in keys
	ours      *sluice.Script // nil of others
	follows   follows
	endsWith  *sluice.Script // what a call that ends a request runs; nil: the same as the first
}

// What the kind of a limiter may be.
const (
	kindOurs  = "ours"
	kindOther = "other"
	kindOwn   = "own"
)

const ownID = "own"

var (
	//go:embed ways/fixed_window.lua
	fixedWindow string
	//go:embed ways/two_windows.lua
	twoWindows string
	//go:embed ways/tutorial_log.lua
	tutorialLog string
	//go:embed ways/tutorial_bucket.lua
	tutorialBucket string
	//go:embed ways/s1.lua
	s1 string
	//go:embed ways/s2.lua
	s2 string
	//go:embed ways/s3.lua
	s3 string
	//go:embed ways/s4.lua
	s4 string
	//go:embed ways/counter.lua
	counter string
	//go:embed ways/cached_counter.lua
	cachedCounter string
)

// limiters are all of them, in the order of the page.
var limiters = []limiter{
	ours(new(sluice.ListLogV1()), "ll1", "Exact: any window holds at most the limit. A list with a time for each permit.").
		then(returns, new(sluice.ListLogReturnV1())),
	ours(new(sluice.ZSetLogV1()), "zl1", "Exact, and a repeated request with the same ID is charged once. A sorted set.").
		then(returns, new(sluice.ZSetLogReturnV1())),
	ours(new(sluice.GCRAV1()), "gcra1", "The refilling token bucket: a smooth rate with a burst. One small string."),
	ours(new(sluice.TokenBucketV1()), "tb1", "Exact. The rate is stored in Redis, where an operator can change it."),
	ours(new(sluice.SliceRingV1()), "sr1", "Several windows at once, all or nothing. Counts by slices of time.").
		then(returns, new(sluice.SliceRingReturnV1())),
	ours(new(sluice.SliceRingV1()), "sr1",
		"A slice_ring whose processes grant by themselves and tell Redis later. Any window holds at most limit and error.").
		named("ahead").then(reports, nil),
	ours(new(sluice.QuotaV1()), "qt1", "A period of the calendar, here as long as the window, by clocks that are right. "+
		"Around its end twice the limit.").then(returns, new(sluice.QuotaReturnV1())),
	ours(new(sluice.BudgetV1()), "sr1", "Charges an estimate, and later what it did cost. A debt is paid off first.").
		then(settles, new(sluice.BudgetSettleV1())),
	ours(new(sluice.ConcurrencyV1()), "cc1", "At most so many at once. Who dies loses its slot when its lease ends.").
		then(releases, new(sluice.ConcurrencyReleaseV1())),
	way("fixed_window", "fixed window", fixedWindow,
		"A counter for each second or minute of the clock. Across an edge it lets twice the limit through."),
	way("two_windows", "two-window estimate", twoWindows,
		"The counter of this window and a share of the last one's: right only if calls come evenly."),
	way("tutorial_log", "log of a tutorial", tutorialLog,
		"A sorted set with the client's clock, as many tutorials have it. It adds before it counts: denied calls count."),
	way("tutorial_bucket", "bucket of a tutorial", tutorialBucket,
		"Tokens and a time in a hash, refilled by the client's clock: clocks that differ fill it again and again."),
	way("s1", "log that records denied calls", s1,
		"Adds before it counts, with the time as member: who keeps asking is never let in again."),
	way("s2", "log that says yes or no", s2,
		"Exact, but it says no time to wait: callers poll, take turns by chance and leave permits unused."),
	way("s3", "log of milliseconds", s3,
		"The member is the millisecond: calls of one millisecond count as one."),
	way("s4", "counter beside a log", s4,
		"As RRateLimiter works: a counter beside the log of what comes back, by the client's clock. Skewed clocks break it."),
	way("counter", "counter up and down", counter,
		"Counts who is at work. Who dies is counted until the key expires, and then nobody is.").then(releases, nil),
	way("cached_counter", "cached counter", cachedCounter,
		"Each process counts by itself and adds up in Redis at intervals. Meanwhile each may let the whole limit through.").
		then(reports, nil),
	{
		id: ownID, title: "your own script", kind: kindOwn, note: "The script that you pasted.", file: "own.lua",
		code: ownID,
	},
}

func ours(script *sluice.Script, code, note string) limiter {
	return limiter{
		id: script.Name, title: script.Name, kind: kindOurs, note: note,
		file: "scripts/" + script.File, source: script.Source, code: code, ours: script,
	}
}

// then returns the limiter with what follows a grant.
func (k limiter) then(f follows, script *sluice.Script) limiter {
	k.follows, k.endsWith = f, script
	return k
}

// named returns the limiter with another name than its script's.
func (k limiter) named(id string) limiter {
	k.id, k.title = id, id
	return k
}

// severalWindows reports whether it takes both limits.
func (k *limiter) severalWindows() bool {
	return k.id == "slice_ring" || k.id == "ahead" || k.id == "budget"
}

// books reports whether it books ahead.
func (k *limiter) books() bool { return !k.severalWindows() && k.id != "quota" }

// scriptFor returns which of our scripts a call runs, nil of others.
func (k *limiter) scriptFor(p purpose) *sluice.Script {
	if p == ending && k.endsWith != nil {
		return k.endsWith
	}
	return k.ours
}

func way(id, title, source, note string) limiter {
	return limiter{
		id: id, title: title, kind: kindOther, note: note,
		file: "playground/internal/play/ways/" + id + ".lua", source: source, code: id,
	}
}

func limiterOf(id string) *limiter {
	if i := slices.IndexFunc(limiters, func(k limiter) bool { return k.id == id }); i >= 0 {
		return &limiters[i]
	}
	return nil
}

func laneIDs() (ids []string) {
	for _, k := range limiters {
		ids = append(ids, k.id)
	}
	return ids
}

// maxArgument returns the largest value that the script takes for the first of these arguments that it has; for other
// limiters there is none.
func (k *limiter) maxArgument(names ...string) int64 {
	if k.ours != nil {
		for _, arg := range k.ours.Args {
			if slices.Contains(names, arg.Name) {
				return arg.Max
			}
		}
	}
	return 1 << 53
}

// argumentNames returns the names of n arguments.
func (k *limiter) argumentNames(p purpose, n int) []string {
	if script := k.scriptFor(p); script != nil {
		return names(script.Args, n)
	}
	return []string{"limit", "window", "permits", "now", "id"}
}

// replyNames returns the names of n fields of a reply.
func (k *limiter) replyNames(p purpose, n int) []string {
	if script := k.scriptFor(p); script != nil {
		return names(script.Reply, n)
	}
	return names([]sluice.Field{{Name: "granted"}, {Name: "remaining"}, {Name: "wait"}}, n)
}

// names returns the names of n fields: the repeated ones, which are last, as often as there are fields, with numbers
// from 1 on. A field without a name has "".
func names(fields []sluice.Field, n int) (all []string) {
	first := slices.IndexFunc(fields, func(f sluice.Field) bool { return f.Repeated })
	if first < 0 {
		first = len(fields)
	}
	for _, field := range fields[:first] {
		all = append(all, field.Name)
	}
	for i := 1; first < len(fields) && len(all) < n; i++ {
		for _, field := range fields[first:] {
			all = append(all, strings.TrimSuffix(field.Name, "i")+strconv.Itoa(i))
		}
	}
	for len(all) < n {
		all = append(all, "")
	}
	return all[:n]
}
