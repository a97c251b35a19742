package loader

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// command is one attempt of a decision. go-redis sends it once and does not retry it: NoRetry.
//
// It knows whether it has been written. Its number of keys is a value that go-redis asks for its bytes when it writes
// the command. If the caller has given the command up before that, it is written with 0 keys: the script then answers
// BADARG KEYS and does nothing. So no one is charged for a decision after having left.
//
// It is an IntSliceCmd, which reads integers without an allocation for each.
type command struct {
	*redis.IntSliceCmd               // nil in a group, unless it is sent by itself
	keys               int           // number of keys
	group              *groupCommand // whose command it is; nil: it asks for one caller only
	piped              bool          // sent in a pipeline
	alone              bool          // not part of a command for many keys
	ctx                context.Context
	state              atomic.Int32
}

// The states of a command: waiting -> sent -> answered, or waiting -> givenUp.
const (
	waiting  int32 = iota // not written yet
	sent                  // written, or being written
	givenUp               // its caller left before it was written
	answered              // in a pipeline: its reply has been read
)

// newCommand makes a command of these words, and sets their number of keys.
func newCommand(ctx context.Context, words []any, keys int) *command {
	c := &command{keys: keys}
	c.setWords(ctx, words)
	return c
}

// setWords gives a command its words, unless it has them.
func (c *command) setWords(ctx context.Context, words []any) {
	if c.IntSliceCmd != nil {
		return
	}
	c.IntSliceCmd, c.ctx = redis.NewIntSliceCmd(ctx, words...), ctx
	words[keyCountAt] = (*writtenKeys)(c)
	c.SetFirstKeyPos(firstKey)
	c.SetStepCount(1) // otherwise a ClusterClient asks COMMAND for it
}

// NoRetry keeps go-redis from sending the command, and the pipeline that it is in, a second time.
func (c *command) NoRetry() bool { return true }

// startWrite notes that the command is being written. It reports false if the caller has given it up.
func (c *command) startWrite() bool {
	if c.group != nil {
		c.group.claimOnce.Do(c.group.claim)
	}
	return c.state.CompareAndSwap(waiting, sent) || c.wanted()
}

// writtenKeys is the number of a command's keys.
type writtenKeys command

// MarshalBinary is called by go-redis when it writes the command.
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

// digits are the numbers 0 to 9 as they are written.
var digits = []byte("0123456789")

// String is for hooks that log commands.
func (k *writtenKeys) String() string { return strconv.Itoa(k.keys) }

// SetErr is called by go-redis for each command of a pipeline, with nil when its reply has been read.
func (c *command) SetErr(err error) {
	c.IntSliceCmd.SetErr(err)
	if err == nil {
		c.state.CompareAndSwap(sent, answered)
	}
}

// Clone returns a copy, which go-redis does not retry either.
func (c *command) Clone() redis.Cmder {
	clone, _ := c.IntSliceCmd.Clone().(*redis.IntSliceCmd) // it is one
	return &command{IntSliceCmd: clone}
}

// giveUp keeps the command from being sent, and reports whether that was in time.
func (c *command) giveUp() bool {
	return c.state.CompareAndSwap(waiting, givenUp) || c.state.Load() == givenUp
}

// wanted reports whether the command has not been given up.
func (c *command) wanted() bool { return c.state.Load() != givenUp }

// unredirected reports whether an error of making a connection proves that the command has not run. For a single
// command it does. For a command in a pipeline, go-redis returns the error of the first attempt, and a later attempt
// may have run.
func (c *command) unredirected() bool { return !c.piped || c.giveUp() }

// outcome returns the error of a command in a pipeline; err is the pipeline's error, done says that go-redis has
// returned. It is nil if the command's reply has been read: a connection that is lost later leaves its error on all
// commands.
func (c *command) outcome(done bool, err error) error {
	switch {
	case c.state.Load() == answered:
		return nil
	case done && c.Err() != nil:
		return c.Err()
	}
	return err
}
