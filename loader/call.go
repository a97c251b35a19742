package loader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Bounds on what one call does by itself.
const (
	mostRetries = 3                    // of attempts that cannot have run
	mostAwaits  = 12                   // of those that a moving slot has refused: a second, altogether
	mostHeals   = 8                    // loads of a script that someone flushes again and again
	firstPause  = 8 * time.Millisecond // then 32, 128, and 128 again
)

// errSlotMoves is in the error of a call for which the keys of one limiter were not in one place for too long.
var errSlotMoves = errors.New("its slot is on the move between two masters, and not all of its keys are where it was asked")

// Call runs any of the scripts by the arguments in its header, with all that the limiters do about missing
// scripts, lost replies and ending contexts. keys are passed as they are: see Key. It returns the
// reply, whose fields the script's header names. Cost: one round trip, unless the script is missing.
//
// Integers, strings and byte slices are sent as they are. A time.Duration is sent in microseconds where the header
// says us, a time.Time where it says time; both must be whole microseconds. Every other type is an *ArgumentError.
func (l *Loader) Call(ctx context.Context, script *sluice.Script, keys []string, args ...any) ([]int64, error) {
	words := make([]any, 0, firstKey+len(keys)+len(args))
	words = append(words, "evalsha", script.SHA1, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	for i, arg := range args {
		sent, err := word(script, i, arg)
		if err != nil {
			return nil, err
		}
		words = append(words, sent)
	}
	c := l.call(script, words, len(script.Reply))
	return c.run(ctx)
}

// Where the words of a command stand: EVALSHA, SHA1, the number of keys, keys, arguments.
const (
	keyCount = 2
	firstKey = 3
)

// call is one decision, through all its attempts.
type call struct {
	limits *Loader
	script *sluice.Script
	words  []any // as they are sent: EVALSHA and what follows
	keys   int   // how many of them are keys
	want   int   // integers in its reply, at least

	id        string // the request id, if it carries one
	looks     bool   // it changes nothing
	permitsAt int    // which of the words says how many permits it asks for, 0 if none does
	together  int64  // for how many callers one command may ask; 0: for this one alone
	timeout   time.Duration
	direct    bool // the client ends it in time: it needs no goroutine

	lost   error // an attempt may have run: why its reply is missing
	tries  int   // attempts after which nothing had run, or that may be repeated
	heals  int   // times the script was missing
	source bool  // send the source: EVAL
	master bool  // do not send EVALSHA_RO, the server refuses it

	// What the next attempt waits for: see prepare.
	missing bool
	pause   time.Duration
	why     error // of the attempt, or of loading the script

	shared    []int64 // the reply to a command that asked for others too
	remaining int64   // in the place of its own

	sent     int             // commands
	inFlight <-chan struct{} // ready once go-redis has come to an end with the command that was abandoned
	seen     *observation    // that it is a part of
}

// call is one decision of a script, whose reply holds at least want integers.
func (l *Loader) call(script *sluice.Script, words []any, want int) call {
	keys, _ := words[keyCount].(int)
	c := call{limits: l, script: script, words: words, keys: keys, want: want, timeout: l.deadlines.timeout}
	c.inspect()
	return c
}

// inspect reads from the arguments what the header says they mean.
func (c *call) inspect() {
	args := c.words[firstKey+c.keys:]
	for i := range min(len(c.script.Args), len(args)) {
		switch c.script.Args[i].Name {
		case "permits":
			c.looks, c.permitsAt = isZero(args[i]), len(c.words)-len(args)+i
		case "id":
			c.id, _ = args[i].(string)
		}
	}
}

// keyNames are the keys of the call, for errors.
func (c *call) keyNames() []string {
	keys := make([]string, c.keys)
	for i := range keys {
		keys[i], _ = c.words[firstKey+i].(string)
	}
	return keys
}

// key is the one by which a cluster finds the node.
func (c *call) key() string {
	if c.keys == 0 {
		return ""
	}
	key, _ := c.words[firstKey].(string)
	return key
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

// tryAll sends until there is a reply, or an error that sending again would not cure.
func (c *call) tryAll(ctx context.Context) ([]int64, error) {
	if c.limits.err != nil {
		return nil, c.limits.err
	}
	if err := ctx.Err(); err != nil {
		return nil, failed(c.script, err)
	}
	c.direct = ctx.Done() == nil && c.limits.keepsDeadlines
	ctx, cancel := c.limits.bounded(ctx, c.timeout)
	defer cancel()
	for {
		cmd := c.attempt(ctx)
		err := c.send(ctx, cmd)
		if err == nil {
			return c.reply(cmd)
		}
		if err := c.recover(ctx, cmd, err); err != nil {
			return nil, err
		}
		if err := c.prepare(ctx); err != nil {
			return nil, err
		}
	}
}

// decide is run for its decision.
func (c *call) decide(ctx context.Context) (Decision, error) {
	reply, err := c.run(ctx)
	if err != nil {
		return Decision{}, err
	}
	d := decisionOf(reply)
	if c.shared != nil {
		d.Remaining = c.remaining
	}
	return d, nil
}

// attempt is the command of the next attempt. One for which another may ask has no words yet.
func (c *call) attempt(ctx context.Context) *command {
	if c.mayJoin() {
		return &command{keys: c.keys}
	}
	return c.command(ctx)
}

// mayJoin reports whether others may ask for the call's permits: see ShareRoundTrips.
func (c *call) mayJoin() bool { return c.limits.sharing != nil && c.together > 0 && !c.source }

// reply is what the script answered.
func (c *call) reply(cmd *command) ([]int64, error) {
	reply := c.shared
	if reply == nil {
		reply = cmd.Val()
	}
	if len(reply) < c.want {
		return nil, failed(c.script, fmt.Errorf("a reply of %d integers, want %d", len(reply), c.want))
	}
	return reply, nil
}

// command is the call as it is sent. Its words are those of the attempt before, which has come to an end.
func (c *call) command(ctx context.Context) *command {
	words := c.words
	if verb := c.verb(); verb != "evalsha" {
		words = slices.Clone(words)
		words[0] = verb
	}
	if c.source {
		words[1] = c.script.Source
	}
	return newCommand(ctx, words, c.keys)
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

// readOnly reports whether a replica may answer.
func (c *call) readOnly() bool { return c.looks && c.limits.readReplicas && !c.master }

// recover finds out what the next attempt needs after one that failed, or returns the call's error.
func (c *call) recover(ctx context.Context, cmd *command, err error) error {
	if !isReply(err) {
		c.limits.lookAgain(ctx)
	}
	if ctx.Err() != nil && !isReply(err) {
		return c.gaveUp(cmd, err)
	}
	c.why = err
	code := codeOf(err)
	switch {
	case code == "NOSCRIPT":
		return c.heal(err)
	case c.readOnly() && refused(code, err):
		c.master, c.source = true, false
		return nil
	case notRun(code), neverLeft(err) && cmd.unredirected():
		return c.again(ctx, err)
	case isReply(err) && !(cmd.piped && redirected(code)):
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

// lookAgain has a ClusterClient ask who the masters are now, in the background and a few times a second at
// most. By itself it does so once a minute, and when a node redirects it, which one that is gone does not.
func (l *Loader) lookAgain(ctx context.Context) {
	if rdb, ok := l.nodes.(interface{ ReloadState(context.Context) }); ok {
		rdb.ReloadState(ctx)
	}
}

// again asks for a pause before another attempt, or returns err when there have been enough.
func (c *call) again(ctx context.Context, err error) error {
	most := mostRetries
	if codeOf(err) == "TRYAGAIN" {
		most, err = mostAwaits, fmt.Errorf("%w: %w", errSlotMoves, err)
	}
	pause := firstPause << (2 * min(c.tries, mostRetries-1))
	pause = pause/2 + rand.N(pause/2)
	c.tries++
	deadline, bounded := ctx.Deadline()
	if c.tries > most || bounded && time.Until(deadline) < pause {
		return c.unknown(err)
	}
	c.pause, c.why = pause, err
	return nil
}

// heal asks for the script to be loaded where it was missing. Replicas take the source with the call: nobody
// can tell which of them will be asked next. So do, the second time, the nodes of a client that hides them.
func (c *call) heal(err error) error {
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
	c.source = c.heals > 1 && c.limits.hidden() != nil
	c.missing = !c.source
	return nil
}

// prepare does what the next attempt waits for.
func (c *call) prepare(ctx context.Context) error {
	if c.missing {
		if err := c.loaded(ctx, c.load(ctx)); err != nil {
			return err
		}
	}
	return c.rested(sleep(ctx, c.pause))
}

// load loads the script on the key's node. A second time it loads it on every master, for the slot may be
// on the move between two of them.
func (c *call) load(ctx context.Context) error {
	err := c.limits.load(ctx, c.script, c.key(), c.everywhere())
	if err == nil {
		c.limits.journal.loaded(ctx, c)
	}
	return err
}

func (c *call) everywhere() bool { return c.heals > 1 }

// loaded notes what came of loading the script.
func (c *call) loaded(ctx context.Context, err error) error {
	c.missing = false
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

// rested notes what came of the pause.
func (c *call) rested(ended error) error {
	c.pause = 0
	if ended == nil {
		return nil
	}
	return c.unknown(fmt.Errorf("%w: %w", ended, c.why))
}

// gaveUp is the error of a call whose context ended.
func (c *call) gaveUp(cmd *command, err error) error {
	switch {
	case cmd.giveUp():
		err = fmt.Errorf("not sent in time: %w", err)
	case !c.looks && !neverLeft(err):
		c.lost = err
	}
	if c.why != nil {
		err = fmt.Errorf("%w: %w", err, c.why)
	}
	return c.unknown(err)
}

// unknown is the error of a call that ended without a reply: an *OutcomeUnknownError if any of its attempts
// may have run.
func (c *call) unknown(err error) error {
	if c.lost == nil {
		return failed(c.script, err)
	}
	return &OutcomeUnknownError{Script: nameOf(c.script), Keys: c.keyNames(), ID: c.id, Err: err, inFlight: c.inFlight}
}

func (c *call) notLoaded(err error) error {
	if hidden := c.limits.hidden(); hidden != nil {
		err = fmt.Errorf("%w; %w", err, hidden)
	}
	return failed(c.script, fmt.Errorf("%w (%s): %w", ErrNotLoaded, c.script.SHA1, err))
}

// final is the typed error of a reply that asking again would not change. A script that Redis has ended at a command
// may have written before.
func (c *call) final(code string, err error) error {
	_, text, _ := strings.Cut(err.Error(), " ")
	if strings.Contains(text, inScript) && code != "WRONGTYPE" && !c.looks {
		c.lost = err
		return c.unknown(err)
	}
	switch code {
	case "BADARG":
		argument, want, _ := strings.Cut(text, ": want ")
		return &ArgumentError{Script: nameOf(c.script), Argument: argument, Want: want}
	case "BADSTATE", "WRONGTYPE":
		return &StateError{Script: nameOf(c.script), Keys: c.keyNames(), Code: code, Text: text}
	}
	if c.source && refused(code, err) {
		return c.notLoaded(err)
	}
	return c.unknown(err)
}

func failed(script *sluice.Script, err error) error {
	return fmt.Errorf("loader: %s: %w", nameOf(script), err)
}

// isReply reports whether err is what a server answered.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// inScript stands in the errors that Redis makes of one that a command in a script raised.
const inScript = "@user_script:"

// codeOf is the code of an error reply: its first word, or, where a script raised it in Redis 5 or 6, the
// one behind "ERR Error running script (call to f_<sha>): @user_script:1: @user_script: 1: -READONLY".
func codeOf(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	text := reply.Error()
	if strings.HasPrefix(text, "ERR Error running script") {
		_, text, _ = strings.Cut(text[strings.LastIndex(text, inScript)+1:], ": ")
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

// redirected reports whether a cluster sent the command elsewhere. go-redis follows by itself; when that
// fails in a pipeline it leaves this error, and does not say how far the second attempt came.
func redirected(code string) bool { return code == "MOVED" || code == "ASK" }

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
