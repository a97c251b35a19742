package loader

import (
	"math"
	"slices"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// algorithm is what limiters of one script have in common.
type algorithm struct {
	name           string // "GCRA"
	amount         string // for errors: what a caller calls the permits, "" for n
	largerLimiters string // for errors: which limiters take a larger limit
	largerCalls    string // for errors: which limiters grant more in one call
	script         *sluice.Script
	code           string
	hasIDs         bool // a call has an id: it may be repeated
	canBook        bool // a max_wait is possible
	hasBurst       bool
	unused         []string      // options that do not apply, although others of this kind of limiter do
	maxWindow      time.Duration // 0: that of the script
	capacity       func(core) int64
	checkID        func(s *settings, id string) error        // nil: ids have been checked
	setArgs        func(c core, call *wire.Call, q question) // sets the keys and arguments
	permitsAt      int                                       // the index of the permits in a call's Args
	maxPermits     int64                                     // of one call
	moreFields     int                                       // of the reply, for that
	keys           func(c core, key string) []string         // what Reset removes

	// detail adds to a decision what only this script replies; nil if that is nothing.
	detail func(c core, d Decision, call *wire.Call, reply []int64) Decision

	// over returns by how much a report has left the subject above its limit; nil if the script takes none.
	over func(c core, reply []int64) int64

	// makeReturn makes the call that gives back n permits of a grant; nil if the script cannot.
	makeReturn func(c core, key string, d Decision, n int64) *wire.Call
}

// maxArgument returns the maximum of the first of these arguments that the script has, math.MaxInt64 if it has none.
func (k *algorithm) maxArgument(arguments ...string) int64 {
	return maxArgument(k.script, arguments...)
}

// longestWindow returns the longest window that the script takes.
func (k *algorithm) longestWindow() time.Duration {
	if k.maxWindow > 0 {
		return k.maxWindow
	}
	return time.Duration(k.maxArgument("window", "interval")) * time.Microsecond
}

func maxArgument(script *sluice.Script, arguments ...string) int64 {
	for i := range script.Args {
		if slices.Contains(arguments, script.Args[i].Name) {
			return script.Args[i].Max
		}
	}
	return math.MaxInt64
}
