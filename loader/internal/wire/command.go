package wire

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// FirstKey is where the keys of a command begin: behind EVALSHA, the SHA1 and the number of keys.
const FirstKey = 3

// Words appends the words of a command to a slice: EVALSHA (EVAL with the source, FCALL with Functions), the number of
// keys, the keys, the arguments. No other code makes them.
func (c *Client) Words(words []any, q *Question, source bool, keys any) []any {
	switch {
	case source:
		words = append(words, "eval", q.Script.Source, keys)
	case c.Functions && q.Looks:
		words = append(words, "fcall", NameOf(q.Script)+"_look", keys) // it works while Redis refuses writes
	case c.Functions:
		words = append(words, "fcall", NameOf(q.Script), keys)
	default:
		words = append(words, "evalsha", q.Script.SHA1, keys)
	}
	if q.Key != "" {
		words = append(words, q.Key)
	}
	for _, key := range q.Keys {
		words = append(words, key)
	}
	return append(words, q.Args...)
}

// NameOf returns a script's name and version, "gcra_v1".
func NameOf(script *sluice.Script) string { return script.File[:len(script.File)-len(".lua")] }

// Command is one attempt of a call. go-redis sends it once and does not retry it: NoRetry.
//
// A command knows whether it has been written, because its number of keys is a value that go-redis asks for its bytes
// when it writes the command. If the caller has given the command up before that, it is written with 0 keys: the script
// then answers BADARG KEYS and does nothing. So no one is charged for a decision after having left.
//
// It is an IntSliceCmd, which reads integers without an allocation for each.
type Command struct {
	*redis.IntSliceCmd         // nil until Compose
	Call               *Call   // whose attempt it is
	Late               *Late   // the reply, if the command was abandoned
	Shared             *Answer // in place of the reply: a command for other callers too was answered

	onWrite func() // called when the command is written; nil: nothing is
	piped   bool   // sent in a pipeline
	ctx     context.Context
	state   atomic.Int32
	words   [12]any // room for the words
}

// The states of a command: waiting -> sent -> answered, or waiting -> givenUp. Unclaim: sent -> waiting.
const (
	waiting  int32 = iota // not written yet
	sent                  // written, or being written
	givenUp               // its caller left before it was written
	answered              // in a pipeline: its reply has been read
)

// Context returns the context with which the command was composed.
func (c *Command) Context() context.Context { return c.ctx }

// Compose gives the command its words, unless it has them.
func (c *Command) Compose(ctx context.Context) {
	if c.IntSliceCmd != nil {
		return
	}
	q := &c.Call.Question
	c.compose(ctx, c.Call.client.Words(c.words[:0], q, c.Call.source, (*writtenKeys)(c)))
}

// ComposeFor returns a command of the same question with other words for its permits. It calls onWrite when it is
// written.
func (c *Command) ComposeFor(ctx context.Context, permits any, onWrite func()) *Command {
	q := c.Call.Question
	q.Args = append([]any(nil), q.Args...)
	q.Args[q.PermitsAt] = permits
	shared := &Command{Call: c.Call, onWrite: onWrite, piped: true}
	shared.compose(ctx, c.Call.client.Words(shared.words[:0], &q, false, (*writtenKeys)(shared)))
	return shared
}

func (c *Command) compose(ctx context.Context, words []any) {
	c.IntSliceCmd, c.ctx = redis.NewIntSliceCmd(ctx, words...), ctx
	c.SetFirstKeyPos(FirstKey)
	c.SetStepCount(1) // otherwise a ClusterClient asks COMMAND for it
}

// do sends the command: it is the task of a Send.
func (c *Command) do() error {
	ctx, end := c.Call.client.Outlast(c.ctx)
	defer end()
	return c.Call.client.Redis.Process(ctx, c)
}

func (c *Command) hearLate() { c.Call.HearLate() }

// IsShared reports whether the command asks for several callers.
func (c *Command) IsShared() bool { return c.onWrite != nil }

// SetPiped notes that the command is sent in a pipeline.
func (c *Command) SetPiped() { c.piped = true }

// NoRetry keeps go-redis from sending the command, and the pipeline that it is in, a second time.
func (c *Command) NoRetry() bool { return true }

// StartWrite notes that the command is being written. It reports false if the caller has given it up.
func (c *Command) StartWrite() bool {
	if c.onWrite != nil {
		c.onWrite()
	}
	return c.state.CompareAndSwap(waiting, sent) || c.Wanted()
}

// Claim notes that the command is being written, and reports whether it was not before.
func (c *Command) Claim() bool { return c.state.CompareAndSwap(waiting, sent) }

// Unclaim notes that the command was written for nothing: it waits to be written again.
func (c *Command) Unclaim() { c.state.Store(waiting) }

// writtenKeys is the number of a command's keys.
type writtenKeys Command

// MarshalBinary is called by go-redis when it writes the command.
func (k *writtenKeys) MarshalBinary() ([]byte, error) {
	c := (*Command)(k)
	n := 1 + len(c.Call.Keys)
	if !c.StartWrite() {
		n = 0
	}
	if n < len(digits) {
		return digits[n : n+1], nil
	}
	return []byte(strconv.Itoa(n)), nil
}

// String is for hooks that log commands.
func (k *writtenKeys) String() string { return strconv.Itoa(1 + len(k.Call.Keys)) }

// digits are the numbers 0 to 9 as they are written.
var digits = []byte("0123456789")

// SetErr is called by go-redis for each command of a pipeline, with nil when its reply has been read.
func (c *Command) SetErr(err error) {
	c.IntSliceCmd.SetErr(err)
	if err == nil {
		c.state.CompareAndSwap(sent, answered)
	}
}

// Clone returns a copy, which go-redis does not retry either.
func (c *Command) Clone() redis.Cmder { return CloneOf(c.IntSliceCmd) }

// CloneOf returns a copy of a command that go-redis does not retry.
func CloneOf(cmd *redis.IntSliceCmd) redis.Cmder {
	clone, _ := cmd.Clone().(*redis.IntSliceCmd) // it is one
	return &Command{IntSliceCmd: clone}
}

// GiveUp keeps the command from being sent, and reports whether that was in time.
func (c *Command) GiveUp() bool {
	return c.state.CompareAndSwap(waiting, givenUp) || c.state.Load() == givenUp
}

// Wanted reports whether the command has not been given up.
func (c *Command) Wanted() bool { return c.state.Load() != givenUp }

// Answered reports whether the command, sent in a pipeline, has its reply.
func (c *Command) Answered() bool { return c.state.Load() == answered }

// Outcome returns the error of a command in a pipeline; err is the pipeline's error, done says that go-redis has
// returned. It is nil if the command's reply has been read: a connection that is lost later leaves its error on all
// commands.
func (c *Command) Outcome(done bool, err error) error {
	switch {
	case c.Answered():
		return nil
	case done && c.Err() != nil:
		return c.Err()
	}
	return err
}
