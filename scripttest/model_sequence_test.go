package scripttest_test

import (
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/model"
)

// A sequence is what happens to one limiter. It is drawn as a whole before it is played, so that rapid can shrink it;
// what depends on the state is left as a choice that the player makes true.
type sequence struct {
	start   int64 // of the clock
	expire  bool  // TTLs fire
	configs []config
	steps   []step
}

// config are the arguments that stay from call to call: limit and window, say.
type config []int64

// step moves the clock and does one thing.
type step struct {
	move   string // of the clock: one of moves
	share  int64  // 0..1000, of what a move may cover
	pick   int64  // which of several: edges of the clock, keys, damages
	off    int64  // -1..1 microseconds beside an edge
	do     string // one of deeds
	config int    // which of the sequence's

	permits string // one of amounts
	maxWait int64
	id      string // "fresh" is one that was not used before
	caller  int
	times   int // the call is made so often
}

// What comes often is drawn often, the first and the last more often still. The first is what rapid shrinks to.
var (
	moves = []string{
		"stays", "stays", "stays", "on by 1us", "on by 1us", "back by 1us", "on within the window", "on within the window",
		"on within the window", "to an edge", "to an edge", "to an edge", "to an edge", "on by windows", "on by years",
		"back within the window and 60s", "back within the window and 60s", "back by years", "back by hours",
		"on within the window",
	}
	deeds = slices.Concat(slices.Repeat([]string{"call"}, 32), strings.Split(
		"evict one,evict one,evict all,evict all,set,set,set,remove,remove,return,return,return,return,"+
			"flush,wrap,damage,damage,call", ","))
	amounts  = []string{"1", "1", "1", "0", "0", "2", "3", "all", "all", "all but 1", "too many", "some", "some"}
	maxWaits = []int64{0, 0, 0, 1, 1000, 1_000_000, 10_000_000, 59_999_999, 60_000_000, 60_000_000}
	ids      = []string{fresh, fresh, fresh, fresh, fresh, "a", "a", "a", "b", "c", "zed", "4", "4102444800000000", "%d",
		"\xff\x00", ""}
	repeats = slices.Concat(ones, []int{2, 2, 3, 3, 5, 5, 130, 130}, ones)
)

var ones = slices.Repeat([]int{1}, 150)

const fresh = "fresh"

var anyStep = rapid.Custom(func(t *rapid.T) step {
	return step{
		move:    rapid.SampledFrom(moves).Draw(t, "move"),
		share:   rapid.Int64Range(0, 1000).Draw(t, "share"),
		pick:    rapid.Int64Range(0, 999).Draw(t, "pick"),
		off:     rapid.SampledFrom([]int64{0, -1, 1, -20, 0}).Draw(t, "off"),
		do:      rapid.SampledFrom(deeds).Draw(t, "do"),
		config:  rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 1, 2}).Draw(t, "config"),
		permits: rapid.SampledFrom(amounts).Draw(t, "permits"),
		maxWait: rapid.SampledFrom(maxWaits).Draw(t, "max_wait"),
		id:      rapid.SampledFrom(ids).Draw(t, "id"),
		caller:  rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(t, "caller"),
		times:   rapid.SampledFrom(repeats).Draw(t, "times"),
	}
})

// firstClock is the earliest clock: in the first second of 1970 times are written with zeros in front, which change
// nothing but the text.
const firstClock = 1_000_000

// starts are times of other sizes than the epoch: a clock that was not set, its sixteenth digit, today.
var starts = []int64{epoch, firstClock, 999_999_990_000_000, 1_732_100_000_123_456, epoch}

// sequences draws what may happen to the subject's limiter.
func (s subject) sequences(starts ...int64) *rapid.Generator[sequence] {
	return rapid.Custom(func(t *rapid.T) sequence {
		drawn := sequence{start: draw(t, "start", starts...), expire: rapid.Bool().Draw(t, "expire")}
		first := s.config(t, nil)
		drawn.configs = []config{first, s.config(t, first), s.config(t, first)}
		t.Repeat(map[string]func(*rapid.T){"step": func(t *rapid.T) {
			drawn.steps = append(drawn.steps, anyStep.Draw(t, "step"))
		}})
		return drawn
	})
}

// A subject is a script and how random calls of it are made.
type subject struct {
	script *sluice.Script
	back   *sluice.Script // the script that gives permits back, if there is one
	settle *sluice.Script // the script that settles, if there is one
	one    *sluice.Script // the script for one key, of a script for many
	keys   [][]string     // one set of keys a caller

	config func(t *rapid.T, first config) config // first is nil for the first one
	span   func(c config) int64                  // how long permits count, about
	limit  func(c config) int64                  // the most permits of a call
	args   func(c config, permits, maxWait int64, id string) []string
	dated  bool // args get the clock behind the config
	// returns are the arguments of back.
	returns func(p *player, st step, key string, c config) []string
	damages func(store model.Store, keys []string, pick int64) [][]string // commands, one of which is done
}

var subjects = slices.Concat(subjectsOfOne, []subject{
	manySubject(&listLogManyV1Script, listLogManyV1),
	manySubject(&gcraManyV1Script, gcraManyV1),
	manySubject(&sliceRingManyV1Script, sliceRingManyV1),
})

// manySubject is the subject of a script for many: two limiters, one of which is asked twice at times. Every third call
// is one of the script for one.
func manySubject(script *sluice.Script, tab table) subject {
	for _, s := range subjectsOfOne {
		if s.script.Name+"_many" == script.Name {
			a, b := tab.keys[0], tab.more[0]
			s.one, s.script, s.keys = s.script, script, [][]string{{a, b}, {b, a, b}}
			if script == &sliceRingManyV1Script {
				s.config = fewRingsConfig
			}
			return s
		}
	}
	panic("no subject for one key: " + script.Name)
}

var subjectsOfOne = []subject{
	{
		script: &listLogV1Script,
		back:   &listLogReturnV1Script,
		keys:   [][]string{listLogV1.keys},
		config: logConfig(1_000_000),
		span:   secondOf,
		limit:  firstOf,
		args: func(c config, permits, maxWait int64, _ string) []string {
			return decimals(c[0], c[1], permits, maxWait)
		},
		returns: func(p *player, st step, key string, c config) []string {
			return decimals(p.moment(st, key), amount(st, p.subject.limit(c), p.subject.script))
		},
		damages: listDamages,
	},
	{
		script: &zsetLogV1Script,
		back:   &zsetLogReturnV1Script,
		keys:   [][]string{zsetLogV1.keys},
		config: logConfig(10_000),
		span:   secondOf,
		limit:  firstOf,
		args: func(c config, permits, maxWait int64, id string) []string {
			return append(decimals(c[0], c[1], permits, maxWait), id)
		},
		returns: func(p *player, st step, key string, c config) []string {
			return append([]string{p.holder(st, key)}, decimals(amount(st, p.subject.limit(c), p.subject.script))...)
		},
		damages: zsetDamages,
	},
	{
		script: &sliceRingV1Script,
		back:   &sliceRingReturnV1Script,
		keys:   [][]string{sliceRingV1.keys},
		config: ringConfig,
		span:   longestOf,
		limit:  minLimit,
		args: func(c config, permits, maxWait int64, _ string) []string {
			return decimals(append([]int64{permits, reported[maxWait%int64(len(reported))]}, c...)...)
		},
		returns: ringReturns,
		damages: ringDamages,
	},
	{
		script: &budgetV1Script,
		back:   &sliceRingReturnV1Script,
		settle: &budgetSettleV1Script,
		keys:   [][]string{{ringSubject, "t:x:{u}:bg1:"}},
		config: ringConfig,
		span:   longestOf,
		limit:  minLimit,
		args: func(c config, permits, _ int64, id string) []string {
			return append(decimals(idTTLs[len(id)%len(idTTLs)], permits), decimals(c...)...)
		},
		returns: ringReturns,
		damages: func(store model.Store, keys []string, pick int64) [][]string {
			return append(ringDamages(store, keys[:len(keys)-1], pick), idDamages(store, keys[len(keys)-1], pick)...)
		},
	},
	{
		script: &tokenBucketV1Script,
		keys:   [][]string{tokenBucketV1.keys, append(tokenBucketV1.keys[:2:2], "t:x:{u}:tb1:by:d")},
		config: bucketConfig,
		span:   secondOf,
		limit:  firstOf,
		args: func(c config, permits, maxWait int64, _ string) []string {
			return decimals(c[0], c[1], c[2], permits, maxWait)
		},
		damages: bucketDamages,
	},
	{
		script: &concurrencyV1Script,
		back:   &concurrencyReleaseV1Script,
		keys:   [][]string{concurrencyV1.keys},
		config: logConfig(10_000), // a limit and a ttl
		span:   secondOf,
		limit:  firstOf,
		args: func(c config, permits, maxWait int64, id string) []string {
			renew := int64(0)
			if maxWait%1_000_000 != 0 {
				renew = 1
			}
			if permits == 0 {
				id = ""
			}
			return append(decimals(c[0], c[1], renew), id)
		},
		returns: func(p *player, st step, key string, _ config) []string { return []string{p.released(st, key)} },
		damages: zsetDamages,
	},
	{
		script: &gcraV1Script,
		keys:   [][]string{gcraV1.keys},
		config: gcraConfig,
		span:   secondOf,
		limit:  func(c config) int64 { return c[2] },
		args: func(c config, permits, maxWait int64, _ string) []string {
			return decimals(c[0], c[1], c[2], permits, maxWait)
		},
		damages: gcraDamages,
	},
	quotaSubject,
}

// quotaSubject has a limit, the length of a period and the begin of one.
var quotaSubject = subject{
	script: &quotaV1Script,
	back:   &quotaReturnV1Script,
	keys:   [][]string{quotaV1.keys},
	config: func(t *rapid.T, _ config) config {
		length := draw(t, "length", windows...)
		return config{
			draw(t, "limit", append(smallLimits, 1_000_000_000_000)...), length, draw(t, "begin", 0, 7, length/2),
		}
	},
	span:  secondOf,
	limit: firstOf,
	dated: true,
	args: func(c config, permits, maxWait int64, id string) []string {
		words := decimals(c[0], permits, reported[maxWait%int64(len(reported))])
		off := []int64{-1, -1, -1, -2, 0, -3}[len(id)%6] // of the caller's clock
		begin := max(c[2]+((c[3]-c[2])/c[1]+off)*c[1], 0)
		return append(words, decimals(begin, begin+c[1], begin+2*c[1], begin+3*c[1])...)
	},
	returns: func(p *player, st step, key string, c config) []string {
		begin, _, _ := strings.Cut(p.store[key].Text, " ")
		if _, err := strconv.ParseUint(begin, 10, 50); err != nil || st.pick%5 == 0 {
			begin = decimals(c[2])[0]
		}
		return append([]string{begin}, decimals(amount(st, c[0], p.subject.script))...)
	},
	damages: func(store model.Store, keys []string, pick int64) [][]string {
		key, bad := keys[0], notTimes[pick%int64(len(notTimes))]
		if store[key].Type != "string" {
			return [][]string{{"RPUSH", key, "x"}}
		}
		begin, count, _ := strings.Cut(store[key].Text, " ")
		return [][]string{
			{"SET", key, bad}, {"SET", key, bad + " " + count}, {"SET", key, begin + " " + bad}, {"APPEND", key, " "},
			{"SET", key, begin + " 10000000000001"}, {"SET", key, begin + " 10000000000000"}, {"SET", key, "0" + begin + " 01"},
		}
	},
}

func ringReturns(p *player, st step, _ string, c config) []string {
	return append(decimals(p.taken(st, c), amount(st, p.subject.limit(c), p.subject.script)), withoutLimits(c)...)
}

// withoutLimits are the slice and the size of each window.
func withoutLimits(c config) (words []string) {
	for window := range slices.Chunk(c, 3) {
		words = append(words, decimals(window[:2]...)...)
	}
	return words
}

// reported are the permits that calls report.
var reported = []int64{0, 0, 1, 0, 5, 0, 1_000_000_000}

// idTTLs are how long budgets know an id.
var idTTLs = []int64{3_600_000_000, 1000, 1_000_001, 60_000_000, 31_622_400_000_000}

func firstOf(c config) int64  { return c[0] }
func secondOf(c config) int64 { return c[1] }

func decimals(numbers ...int64) []string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.FormatInt(n, 10)
	}
	return words
}

var (
	smallLimits = []int64{3, 1, 2, 5, 10, 40}
	windows     = []int64{10_000_000, 1000, 1001, 1_000_000, 1_500_000, 3_000_007, 60_000_000, 3_600_000_000,
		31_622_400_000_000}
)

func draw(t *rapid.T, label string, from ...int64) int64 {
	return rapid.SampledFrom(from).Draw(t, label)
}

func logConfig(most int64) func(*rapid.T, config) config {
	return func(t *rapid.T, _ config) config {
		return config{draw(t, "limit", append(smallLimits, most, 300, 300)...), draw(t, "window", windows...)}
	}
}

func bucketConfig(t *rapid.T, _ config) config {
	return config{draw(t, "rate", append(smallLimits, 1_000_000, 300, 300)...), draw(t, "interval", windows...),
		draw(t, "scope", 0, 1)}
}

func gcraConfig(t *rapid.T, _ config) config {
	c := config{
		draw(t, "limit", append(smallLimits, 7, 7, 999_983, 1_000_000, 9_999_991, 10_000_000)...),
		draw(t, "window", append(windows, 86_400_000_000, 31_622_399_999_999)...),
		draw(t, "burst", append(smallLimits, 7, 1000, 1_000_000, 9_999_999, 10_000_000)...),
	}
	for float64(c[1])/float64(c[0])*float64(c[2]) > 1<<52 {
		c[2] = (c[2] + 1) / 2
	}
	return c
}

// ringConfig is a slice, a number of slices and a limit for each window. Others ask for the windows of the first with
// other limits, for some of them, or for others.
func ringConfig(t *rapid.T, first config) config {
	c := config{}
	for range draw(t, "windows", 1, 1, 1, 2, 2, 3, 8) {
		slice := draw(t, "slice", 1_000_000, 1_000_000, 1000, 1001, 2_500_000, 60_000_000, 86_400_000_000)
		size := draw(t, "size", 3, 1, 2, 4, 7, 8, 30, 60)
		if rapid.IntRange(0, 299).Draw(t, "long") == 299 {
			size = 1000
		}
		if known := rapid.IntRange(0, 4).Draw(t, "known window"); first != nil && 3*known < len(first) {
			slice, size = first[3*known], first[3*known+1]
		}
		c = append(c, slice, size, draw(t, "limit", append(smallLimits, 1_000_000_000)...))
	}
	return c
}

// fewRingsConfig has no more windows than a call for three subjects may have.
func fewRingsConfig(t *rapid.T, first config) config {
	c := ringConfig(t, first)
	return c[:min(len(c), 3*5)]
}

// longestOf is how long permits count in the longest window.
func longestOf(c config) (span int64) {
	for i := 0; i < len(c); i += 3 {
		span = max(span, c[i]*c[i+1])
	}
	return span
}

func minLimit(c config) int64 {
	limit := c[2]
	for i := 5; i < len(c); i += 3 {
		limit = min(limit, c[i])
	}
	return limit
}
