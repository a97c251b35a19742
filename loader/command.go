package loader

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is a decision on its way. go-redis sends it once and never again on its own: NoRetry.
//
// It knows whether it can have left, for its number of keys is a value that go-redis asks for its bytes when it writes
// them. A command that its caller gives up before that is written with no keys: the script answers BADARG KEYS and
// does nothing, so that nobody is charged for a decision that nobody waits for.
//
// It is an IntSliceCmd because that reads integers without an allocation for each.
type command struct {
	*redis.IntSliceCmd               // nil until it is sent by itself: others ask for most members of a group
	keys               int           // how many
	group              *groupCommand // that it is, of a group; nil: it asks for one caller
	piped              bool          // sent together with others
	state              atomic.Int32
}

// The states of a command, each only from the one that it names.
const (
	waiting  int32 = iota
	sent           // waiting
	givenUp        // waiting
	answered       // sent; in a pipeline: its reply has been read, while others may still be missing
)

// newCommand is the command of these words, of which it sets the number of keys.
func newCommand(ctx context.Context, words []any, keys int) *command {
	c := &command{keys: keys}
	c.setWords(ctx, words)
	return c
}

// setWords gives a command its words, unless it has some.
func (c *command) setWords(ctx context.Context, words []any) {
	if c.IntSliceCmd != nil {
		return
	}
	c.IntSliceCmd = redis.NewIntSliceCmd(ctx, words...)
	words[keyCount] = (*writtenKeys)(c)
	c.SetFirstKeyPos(firstKey)
	c.SetStepCount(1) // otherwise a ClusterClient asks COMMAND for it
}

// NoRetry keeps go-redis from sending the command again, and with it the pipeline that it is in.
func (c *command) NoRetry() bool { return true }

// startWrite notes that the command is being written, and reports whether it is still wanted.
func (c *command) startWrite() bool {
	if c.group != nil {
		c.group.claimOnce.Do(c.group.claim)
	}
	return c.state.CompareAndSwap(waiting, sent) || c.wanted()
}

// writtenKeys is the number of a command's keys.
type writtenKeys command

// MarshalBinary is what go-redis calls when it writes the command.
func (k *writtenKeys) MarshalBinary() ([]byte, error) {
	n := k.keys
	if !(*command)(k).startWrite() {
		n = 0
	}
	if n < len(digits) {
		return digits[n : n+1], nil
	}
	return []byte(strconv.Itoa(n)), nil
}

// digits are numbers of keys as they are written.
var digits = []byte("0123456789")

// String is for hooks that log commands.
func (k *writtenKeys) String() string { return strconv.Itoa(k.keys) }

// SetErr is what go-redis calls for each command of a pipeline, with nil once its reply has been read.
func (c *command) SetErr(err error) {
	c.IntSliceCmd.SetErr(err)
	if err == nil {
		c.state.CompareAndSwap(sent, answered)
	}
}

// Clone returns a copy that go-redis does not send again either.
func (c *command) Clone() redis.Cmder {
	clone, ok := c.IntSliceCmd.Clone().(*redis.IntSliceCmd)
	if !ok {
		clone = redis.NewIntSliceCmd(context.Background())
	}
	return &command{IntSliceCmd: clone}
}

// giveUp keeps the command from being sent and reports whether it was in time.
func (c *command) giveUp() bool {
	return c.state.CompareAndSwap(waiting, givenUp) || c.state.Load() == givenUp
}

// wanted reports whether its caller has not given it up.
func (c *command) wanted() bool { return c.state.Load() != givenUp }

// unredirected reports whether an error of making a connection is the whole story of the command. By
// itself it is: redirected before that, it has not run. In a pipeline go-redis leaves the first error of
// its attempts on it, and a later one may have run.
func (c *command) unredirected() bool { return !c.piped || c.giveUp() }

// outcome is the error of a command that was sent with others, whose error is err: its own, if it has one,
// and none if it has been answered, for a connection that is lost after that leaves its error on all of
// them. Done says that go-redis has returned; before that no more can be known than whether there
// is an answer.
func (c *command) outcome(done bool, err error) error {
	switch {
	case c.state.Load() == answered:
		return nil
	case done && c.Err() != nil:
		return c.Err()
	}
	return err
}
