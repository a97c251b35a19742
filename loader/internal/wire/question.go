package wire

import (
	"time"

	"github.com/sluice-redis/sluice"
)

// Question is what one call asks of a script. Its parts stay apart until its command is written.
type Question struct {
	Script  *sluice.Script
	Key     string   // the first one, which decides the node
	Keys    []string // the others
	Args    []any    // in the order of the script's header
	Limiter string   // its name, for the log; "" if no limiter asks
	ID      string   // by which the script knows a repeat; "": none
	Looks   bool     // it changes nothing
	Fields  int      // minimum number of integers in the reply
	Timeout time.Duration

	// Of a question that may be asked for several callers at once:
	Permits   int64 // of one caller
	PermitsAt int   // where they stand among Args
	MaxGroup  int64 // for how many callers one command may ask; 0: it cannot be shared
}

// AllKeys returns all keys of the question.
func (q *Question) AllKeys() []string { return append([]string{q.Key}, q.Keys...) }

// Answer is the reply of a script.
type Answer struct {
	Reply     []int64
	Shared    bool  // the command asked for other callers too
	Remaining int64 // then: the permits that remained after this caller's own
}

// Call is one question with all its attempts.
type Call struct {
	Question
	Sent   int  // commands
	Loaded bool // the server did not have the script, and it was sent

	client     *Client
	breaker    *breaker // of its node; nil: none
	mayHaveRun error    // why the reply of an attempt is missing that may have run; nil: none may have
	late       *Late    // the reply to the last attempt, if that was abandoned
	cause      error    // of the last attempt that is repeated
	retries    int      // without those for a missing script
	reloads    int      // how often the script was missing
	manyTries  int      // how often it was not decided in a command for many keys
	single     bool     // not part of a command for many keys
	source     bool     // send the source: EVAL
	told       bool     // the breaker knows how the call has ended
	follows    bool     // an earlier call of its round trip counts for the breaker

	first Command // of the first attempt, so that most calls are one allocation
	args  [8]any  // room for Args
}

// HearLate notes that the server has answered the call after its caller had left.
func (c *Call) HearLate() { c.breaker.hearLate() }
