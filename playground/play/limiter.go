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
)

// limiters are all of them, in the order of the page.
var limiters = []limiter{
	ours(&sluice.ListLogV1, "ll1", "Exact: any window holds at most the limit. A list with a time for each permit."),
	ours(&sluice.ZSetLogV1, "zl1", "Exact, and a repeated request with the same ID is charged once. A sorted set."),
	ours(&sluice.GCRAV1, "gcra1", "The refilling token bucket: a smooth rate with a burst. One small string."),
	ours(&sluice.TokenBucketV1, "tb1", "Exact. The rate is stored in Redis, where an operator can change it."),
	ours(&sluice.SliceRingV1, "sr1", "Several windows at once, all or nothing. Counts by slices of time."),
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

func way(id, title, source, note string) limiter {
	return limiter{
		id: id, title: title, kind: kindOther, note: note,
		file: "playground/play/ways/" + id + ".lua", source: source, code: id,
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
func (k *limiter) argumentNames(n int) []string {
	if k.ours == nil {
		return []string{"limit", "window", "permits", "now", "id"}
	}
	return names(k.ours.Args, n)
}

// replyNames returns the names of n fields of a reply.
func (k *limiter) replyNames(n int) []string {
	if k.ours == nil {
		return names([]sluice.Field{{Name: "granted"}, {Name: "remaining"}, {Name: "wait"}}, n)
	}
	return names(k.ours.Reply, n)
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
