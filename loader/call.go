package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Bounds on what one call does by itself.
const (
	mostRetries = 3                    // of attempts that cannot have run
	mostHeals   = 8                    // loads of a script that someone flushes again and again
	firstPause  = 8 * time.Millisecond // then 32, 128
)

// Call runs any of the scripts by the arguments in its header, with all that the limiters do about missing
// scripts, lost replies and ending contexts. keys are passed as they are: see Key. It returns the
// reply, whose fields the script's header names. Cost: one round trip, unless the script is missing.
func (l *Limits) Call(ctx context.Context, script *sluice.Script, keys []string, args ...any) ([]int64, error) {
	return l.run(ctx, script, keys, args, len(script.Reply))
}

// run sends one decision of a script and returns its reply, which holds at least want integers.
func (l *Limits) run(ctx context.Context, script *sluice.Script, keys []string, argv []any, want int) ([]int64, error) {
	ctx, cancel := l.bounded(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return nil, failed(script, err)
	}
	c := call{limits: l, script: script, keys: keys, argv: argv}
	c.inspect()
	reply, err := c.decide(ctx)
	if err != nil {
		return nil, err
	}
	if len(reply) < want {
		return nil, failed(script, fmt.Errorf("a reply of %d integers, want %d", len(reply), want))
	}
	return reply, nil
}

// call is one decision, through all its attempts.
type call struct {
	limits *Limits
	script *sluice.Script
	keys   []string
	argv   []any

	id     string // the request id, if it carries one
	looks  bool   // it changes nothing
	lost   error  // an attempt may have run: why its reply is missing
	tries  int    // attempts after which nothing had run, or that may be repeated
	heals  int    // times the script was loaded
	source bool   // send the source: EVAL
	master bool   // do not send EVALSHA_RO, the server refuses it
}

// inspect reads from the arguments what the header says they mean.
func (c *call) inspect() {
	for i := range min(len(c.script.Args), len(c.argv)) {
		switch c.script.Args[i].Name {
		case "permits":
			c.looks = isZero(c.argv[i])
		case "id":
			c.id, _ = c.argv[i].(string)
		}
	}
}

func isZero(arg any) bool {
	switch n := arg.(type) {
	case int64:
		return n == 0
	case int:
		return n == 0
	case string:
		return n != "" && strings.Trim(n, "0") == ""
	}
	return false
}

// decide sends until there is a reply, or an error that sending again would not cure.
func (c *call) decide(ctx context.Context) ([]int64, error) {
	for {
		cmd := newCommand(ctx, c.args())
		err := c.limits.send(ctx, cmd)
		if err == nil {
			return cmd.Int64Slice()
		}
		if err := c.recover(ctx, cmd, err); err != nil {
			return nil, err
		}
	}
}

// args is the command as it is sent.
func (c *call) args() []any {
	args := make([]any, 0, 3+len(c.keys)+len(c.argv))
	args = append(args, c.verb(), c.text(), len(c.keys))
	for _, key := range c.keys {
		args = append(args, key)
	}
	return append(args, c.argv...)
}

func (c *call) verb() string {
	switch {
	case c.readOnly() && c.source:
		return "eval_ro"
	case c.readOnly():
		return "evalsha_ro"
	case c.source:
		return "eval"
	}
	return "evalsha"
}

func (c *call) text() string {
	if c.source {
		return c.script.Source
	}
	return c.script.SHA1
}

// readOnly reports whether a replica may answer.
func (c *call) readOnly() bool { return c.looks && c.limits.readReplicas && !c.master }

// recover makes the next attempt possible after one that failed, or returns the call's error.
func (c *call) recover(ctx context.Context, cmd *command, err error) error {
	if ctx.Err() != nil && !isReply(err) {
		return c.gaveUp(cmd, err)
	}
	code := codeOf(err)
	switch {
	case code == "NOSCRIPT":
		return c.heal(ctx, err)
	case c.readOnly() && refused(code, err):
		c.master, c.source = true, false
		return nil
	case notRun(code), neverLeft(err):
		return c.again(ctx, err)
	case isReply(err):
		return c.final(code, err)
	case cmd.giveUp() && isNetwork(err):
		return c.again(ctx, err)
	case cmd.giveUp():
		return c.unknown(err)
	}
	if !c.looks {
		c.lost = err
	}
	if c.looks || c.id != "" {
		return c.again(ctx, err)
	}
	return c.unknown(err)
}

// again pauses before another attempt, or returns err when there have been enough.
func (c *call) again(ctx context.Context, err error) error {
	pause := firstPause << (2 * c.tries)
	pause = pause/2 + rand.N(pause/2)
	c.tries++
	deadline, bounded := ctx.Deadline()
	if c.tries > mostRetries || bounded && time.Until(deadline) < pause {
		return c.unknown(err)
	}
	if ended := sleep(ctx, pause); ended != nil {
		return c.unknown(fmt.Errorf("%w: %w", ended, err))
	}
	return nil
}

// heal loads the script where it was missing. A second time it loads it on every master, for the slot may
// be on the move between two of them. Replicas take the source with the call: nobody can tell which of
// them will be asked next.
func (c *call) heal(ctx context.Context, err error) error {
	switch {
	case c.readOnly():
		c.master = c.limits.preloadedOnly
		c.source = !c.master
		return nil
	case c.limits.preloadedOnly:
		return c.notLoaded(err)
	}
	c.heals++
	if c.heals > mostHeals {
		return c.notLoaded(err)
	}
	err = c.limits.load(ctx, c.script, c.keys, c.heals > 1)
	switch {
	case err == nil:
		return nil
	case refused(codeOf(err), err):
		c.source = true
		return nil
	case ctx.Err() != nil, errors.Is(err, errAltered), isReply(err) && !notRun(codeOf(err)):
		return c.unknown(fmt.Errorf("loading it: %w", err))
	}
	return c.again(ctx, fmt.Errorf("loading it: %w", err))
}

// gaveUp is the error of a call whose context ended.
func (c *call) gaveUp(cmd *command, err error) error {
	if !c.looks && !cmd.giveUp() && !neverLeft(err) {
		c.lost = err
	}
	return c.unknown(err)
}

// unknown is the error of a call that ended without a reply: an *OutcomeUnknownError if any of its attempts
// may have run.
func (c *call) unknown(err error) error {
	if c.lost == nil {
		return failed(c.script, err)
	}
	return &OutcomeUnknownError{Script: nameOf(c.script), Keys: c.keys, ID: c.id, Err: err}
}

func (c *call) notLoaded(err error) error {
	return failed(c.script, fmt.Errorf("%w (%s): %w", ErrNotLoaded, c.script.SHA1, err))
}

// final is the typed error of a reply that asking again would not change.
func (c *call) final(code string, err error) error {
	_, text, _ := strings.Cut(err.Error(), " ")
	switch code {
	case "BADARG":
		argument, want, _ := strings.Cut(text, ": want ")
		return &ArgumentError{Script: nameOf(c.script), Argument: argument, Want: want}
	case "BADSTATE", "WRONGTYPE":
		return &StateError{Script: nameOf(c.script), Keys: c.keys, Code: code, Text: text}
	}
	if c.source && refused(code, err) {
		return c.notLoaded(err)
	}
	return c.unknown(err)
}

// microseconds is d in whole microseconds; a fraction of one is an *ArgumentError that names the
// argument, never rounded away.
func microseconds(script *sluice.Script, name string, d time.Duration) (int64, error) {
	if d%time.Microsecond != 0 {
		return 0, &ArgumentError{Script: nameOf(script), Argument: name, Want: "whole microseconds, not " + d.String()}
	}
	return d.Microseconds(), nil
}

func failed(script *sluice.Script, err error) error {
	return fmt.Errorf("loader: %s: %w", nameOf(script), err)
}

// isReply reports whether err is what a server answered.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// raised stands in the errors that Redis 5 and 6 make of one that a command in a script raised.
const raised = "@user_script:"

// codeOf is the code of an error reply: its first word, or, where a script raised it in Redis 5 or 6, the
// one behind "ERR Error running script (call to f_<sha>): @user_script:1: @user_script: 1: -READONLY".
func codeOf(err error) string {
	if !isReply(err) {
		return ""
	}
	text := err.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		_, text, _ = strings.Cut(text[strings.LastIndex(text, raised)+1:], ": ")
		text = strings.TrimPrefix(strings.TrimLeft(text, " :0123456789"), "-")
	}
	code, _, _ := strings.Cut(text, " ")
	if code == "ERR" && strings.HasPrefix(text, "ERR max number of clients") {
		return "MAXCLIENTS"
	}
	return code
}

// notRun reports whether the code of an error reply proves that the script wrote nothing, and may be gone
// a moment later.
func notRun(code string) bool {
	switch code {
	case "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "BUSY", "NOREPLICAS", "MAXCLIENTS":
		return true
	}
	return false
}

// neverLeft reports whether an error proves that nothing was sent at the last attempt of go-redis. The ones
// before it, if any, were answered with MOVED, ASK or READONLY.
func neverLeft(err error) bool {
	return errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) || isDialError(err)
}

// refused reports whether a server does not let this user have a command, or does not know it.
func refused(code string, err error) bool {
	text := strings.ToLower(err.Error())
	return code == "NOPERM" || code == "ERR" && (strings.Contains(text, "unknown") || strings.Contains(text, "unsupported"))
}

// isNetwork reports whether a connection was lost or not made.
func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// isDialError reports whether there was no connection to send anything on.
func isDialError(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}
