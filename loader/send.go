package loader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// Bounds on what one call does by itself.
const (
	maxRetries   = 3                    // after attempts that cannot have run
	maxTryAgain  = 12                   // after TRYAGAIN: about one second in all
	maxManyTries = 2                    // as part of a command for many keys
	maxReloads   = 8                    // of a script that is flushed again and again
	firstPause   = 8 * time.Millisecond // then 32, 128, and 128 again
)

// errSlotMoves is in the error of a call that got TRYAGAIN for too long.
var errSlotMoves = errors.New("the slot is moving between two masters, and not all of the keys are on the same one")

// wordsOf makes the command that runs a script: its keys, and its arguments in the order of the header.
func wordsOf(script *sluice.Script, keys int, keysAndArgs ...any) []any {
	words := make([]any, 0, firstKey+len(keysAndArgs))
	return append(append(words, "evalsha", script.SHA1, keys), keysAndArgs...)
}

// verb returns the command that runs scripts.
func (l *Loader) verb() string {
	if l.functions {
		return "fcall"
	}
	return "evalsha"
}

// nameFor returns what this command calls a script.
func (l *Loader) nameFor(script *sluice.Script) string {
	if l.functions {
		return nameOf(script)
	}
	return script.SHA1
}

// Where the words of a command stand: EVALSHA, SHA1, the number of keys, keys, arguments.
const (
	keyCountAt = 2
	firstKey   = 3
)

// call is one run of a script, with all its attempts. run makes them for a single call. A Batch makes them for many
// calls together, with the same steps: command, note, prepareAttempt.
type call struct {
	limits *Loader
	script *sluice.Script
	words  []any // of the command: EVALSHA, SHA1 (FCALL, name), number of keys, keys, arguments
	keys   int   // number of keys
	fields int   // minimum number of integers in the reply

	limiter   string // its name; "" if no limiter made the call
	id        string // the request id, if any
	peeks     bool   // permits is 0: it changes nothing
	permitsAt int    // index of permits in words, 0 if there is no such argument
	maxGroup  int64  // for how many callers one command may ask; 0: it cannot be shared
	timeout   time.Duration

	lost      error // an attempt may have run: why its reply is missing
	retries   int   // without those for a missing script
	reloads   int   // how often the script was missing
	alone     bool  // not part of a command for many keys
	manyTries int   // how often it was not decided as part of one
	source    bool  // send the source: EVAL

	// What prepareAttempt has to do before the next attempt.
	missing bool           // load the script
	many    *sluice.Script // load this one: the script for many keys
	pause   time.Duration  // sleep
	cause   error          // why: the error of the last attempt, or of loading the script

	sent int        // commands
	late *lateReply // to the last one, if it was abandoned

	ended bool // the fields below are set
	reply []int64
	err   error

	sharedReply bool  // the command asked for other callers too
	remaining   int64 // then it replaces the reply's own
}

// newCall makes a call of a script whose reply has at least this many fields.
func newCall(l *Loader, script *sluice.Script, words []any, fields int) call {
	keys, _ := words[keyCountAt].(int)
	c := call{limits: l, script: script, words: words, keys: keys, fields: fields, timeout: l.deadlines.timeout}
	c.inspect()
	if l.functions {
		words[0], words[1] = l.verb(), c.function()
	}
	return c
}

// function returns the name of the function to call. One that only looks works while Redis refuses writes.
func (c *call) function() string {
	if c.peeks {
		return nameOf(c.script) + "_look"
	}
	return nameOf(c.script)
}

// inspect finds permits and id among the arguments, by the script's header.
func (c *call) inspect() {
	args := c.words[firstKey+c.keys:]
	for i := range min(len(c.script.Args), len(args)) {
		switch c.script.Args[i].Name {
		case "reported":
			n, _ := args[i].(int64)
			c.peeks = c.peeks && n == 0
		case "permits":
			n, ok := args[i].(int64)
			c.peeks, c.permitsAt = ok && n == 0 && decides(c.script), len(c.words)-len(args)+i
		case "id":
			if !givesBack(c.script) { // a part of the id's permits may be given back, but only once
				c.id, _ = args[i].(string)
			}
			looks := args[i] == "" && c.permitsAt == 0 // concurrency has no permits
			c.peeks = c.peeks || looks && decides(c.script)
		}
	}
}

// permitCount returns how many permits the call asks for.
func (c *call) permitCount() int64 {
	if c.permitsAt == 0 {
		return 0
	}
	n, _ := c.words[c.permitsAt].(int64)
	return n
}

// keyNames returns the keys of the call.
func (c *call) keyNames() []string {
	keys := make([]string, c.keys)
	for i := range keys {
		keys[i], _ = c.words[firstKey+i].(string)
	}
	return keys
}

// key returns the first key, which decides the node in a cluster.
func (c *call) key() string {
	if c.keys == 0 {
		return ""
	}
	key, _ := c.words[firstKey].(string)
	return key
}

// run makes attempts until there is a reply, or an error that a retry would not cure.
func (c *call) run(ctx context.Context) {
	if c.endIfDone(ctx) {
		return
	}
	ctx, cancel := c.limits.withTimeout(ctx, c.timeout)
	defer cancel()
	for !c.ended {
		cmd := c.attempt(ctx)
		c.note(ctx, cmd, c.send(ctx, cmd))
		c.prepareAttempt(ctx)
	}
}

// send sends the command, unless a breaker is open. It returns the command's error, or the context's as soon as the
// context ends; the reply must not be read then.
func (c *call) send(ctx context.Context, cmd *command) error {
	report, err := c.admit(ctx)
	if err != nil {
		return err
	}
	outcome := errNoOutcome // where a hook panics
	defer func() {
		report(outcome)
		c.limits.breakers.logChanges()
	}()
	outcome = c.post(ctx, cmd)
	return outcome
}

// post is send without a breaker.
func (c *call) post(ctx context.Context, cmd *command) error {
	c.sent++
	l := c.limits
	if l.sharing != nil {
		return l.sharing.send(ctx, c, cmd)
	}
	return c.postDirectly(ctx, cmd)
}

// postDirectly is post by itself.
func (c *call) postDirectly(ctx context.Context, cmd *command) error {
	l := c.limits
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.keepsDeadlines {
		return l.rdb.Process(ctx, cmd)
	}
	t := l.tasks.start(func() error { return l.rdb.Process(ctx, cmd) })
	finished, err := l.tasks.wait(ctx, t)
	if !finished {
		c.late = t.lateReply(cmd)
	}
	return err
}

// endIfDone ends the call if the context has ended.
func (c *call) endIfDone(ctx context.Context) bool {
	if err := ctx.Err(); err != nil {
		c.fail(c.unknown(err))
	}
	return c.ended
}

// fail ends the call with an error.
func (c *call) fail(err error) { c.ended, c.err = true, err }

// attempt returns the command of the next attempt. One that may join a group gets its words later.
func (c *call) attempt(ctx context.Context) *command {
	if c.mayJoin() {
		return &command{keys: c.keys, alone: c.alone}
	}
	return c.command(ctx)
}

// mayJoin reports whether the call may share its command: see ShareRoundTrips.
func (c *call) mayJoin() bool { return c.limits.sharing != nil && c.maxGroup > 0 && !c.source }

// command returns the command to send. It may use the words of the attempt before, which has ended.
func (c *call) command(ctx context.Context) *command {
	words := c.words
	if c.source {
		words = slices.Clone(words)
		words[0], words[1] = "eval", c.script.Source
	}
	cmd := newCommand(ctx, words, c.keys)
	cmd.alone = c.alone
	return cmd
}

// note takes the outcome of an attempt. Afterwards the call has ended, or prepareAttempt has something to do.
func (c *call) note(ctx context.Context, cmd *command, err error) {
	if err != nil {
		c.diagnose(ctx, cmd, err)
		return
	}
	if !c.sharedReply {
		c.reply = cmd.Val()
	}
	c.ended = true
	if len(c.reply) < c.fields {
		c.fail(failed(c.script, fmt.Errorf("a reply of %d integers, want %d", len(c.reply), c.fields)))
	}
}

// diagnose takes the error of an attempt. It ends the call, or sets what the next attempt needs.
func (c *call) diagnose(ctx context.Context, cmd *command, err error) {
	f := classify(err)
	if !f.isReply() {
		c.limits.reloadNodes(ctx)
		if hasEnded(ctx) {
			if !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			c.outOfTime(cmd, f, err)
			return
		}
	}
	c.cause = err
	switch {
	case f == askAgain:
		c.askAgain(err)
	case f == scriptMissing:
		c.reloadScript(err)
	case f.provesNotRun(), f == neverSent && cmd.unredirected():
		c.retry(ctx, f, err)
	case f.isReply() && !(f == redirected && cmd.piped):
		c.fail(c.final(f, err))
	case cmd.giveUp() && f == lostNetwork:
		c.retry(ctx, f, err)
	case cmd.giveUp():
		c.fail(c.unknown(err))
	default:
		c.replyLost(ctx, f, err)
	}
}

// askAgain prepares the next attempt of a call that was not decided in a command for many keys.
func (c *call) askAgain(err error) {
	why, _ := errors.AsType[*askAgainError](err)
	c.many = why.missing
	c.manyTries++
	c.alone = why.alone || c.manyTries > maxManyTries
}

// replyLost retries if that cannot charge twice.
func (c *call) replyLost(ctx context.Context, f failure, err error) {
	if !c.peeks {
		c.lost = err
	}
	if c.peeks || c.id != "" {
		c.retry(ctx, f, err)
		return
	}
	c.fail(c.unknown(err))
}

// retry sets a pause before the next attempt, or ends the call after too many of them.
func (c *call) retry(ctx context.Context, f failure, err error) {
	limit := maxRetries
	if f == slotMoves {
		limit, err = maxTryAgain, fmt.Errorf("%w: %w", errSlotMoves, err)
	}
	pause := firstPause << (2 * min(c.retries, maxRetries-1))
	pause = pause/2 + rand.N(pause/2)
	c.retries++
	deadline, bounded := ctx.Deadline()
	if c.retries > limit || bounded && time.Until(deadline) < pause {
		c.fail(c.unknown(err))
		return
	}
	c.pause, c.cause = pause, err
}

// reloadScript lets the next attempt load the script; the second time, a client that hides its nodes sends the source.
func (c *call) reloadScript(err error) {
	c.reloads++
	if c.limits.preloadedOnly || c.reloads > maxReloads {
		c.fail(c.notLoaded(err))
		return
	}
	c.source = c.reloads > 1 && c.limits.errHiddenNodes() != nil
	c.missing = !c.source
}

// prepareAttempt loads the script and pauses, if the next attempt needs it.
func (c *call) prepareAttempt(ctx context.Context) {
	if script := c.toLoad(); script != nil && !c.ended {
		c.afterLoad(ctx, c.load(ctx, script))
	}
	if c.pause > 0 && !c.ended {
		c.afterPause(sleep(ctx, c.pause))
	}
}

// load loads a script on the key's node; the second time on every master, because the slot may be moving between two.
func (c *call) load(ctx context.Context, script *sluice.Script) error {
	err := c.limits.load(ctx, script, c.key(), c.loadsEverywhere())
	if err == nil {
		c.limits.eventLog.scriptLoaded(ctx, c, script)
	}
	return err
}

// toLoad returns the script that the next attempt needs loaded, nil if there is none.
func (c *call) toLoad() *sluice.Script {
	switch {
	case c.many != nil:
		return c.many
	case c.missing:
		return c.script
	}
	return nil
}

func (c *call) loadsEverywhere() bool { return c.reloads > 1 }

// afterLoad takes the outcome of loading the script.
func (c *call) afterLoad(ctx context.Context, err error) {
	many := c.many != nil
	c.missing, c.many = false, nil
	if err == nil {
		return
	}
	if many { // the script for one may work
		c.limits.pauseMany()
		c.alone = true
		return
	}
	switch f := classify(err); {
	case f == refused:
		c.source = true
	case ctx.Err() != nil, errors.Is(err, errAltered), f.isReply() && !f.provesNotRun():
		c.fail(c.unknown(fmt.Errorf("loading the script: %w", err)))
	default:
		c.retry(ctx, f, fmt.Errorf("loading the script: %w", err))
	}
}

// afterPause takes the outcome of the pause.
func (c *call) afterPause(err error) {
	c.pause = 0
	if err != nil {
		c.fail(c.unknown(fmt.Errorf("%w: %w", err, c.cause)))
	}
}

// report passes the call's figures to the observation, and its error to the event log.
func (c *call) report(ctx context.Context, seen *observation) {
	seen.addCall(c)
	c.limits.eventLog.callFailed(ctx, c)
}

// outOfTime ends a call whose context has ended.
func (c *call) outOfTime(cmd *command, f failure, err error) {
	switch {
	case cmd.giveUp():
		err = fmt.Errorf("not sent in time: %w", err)
	case !c.peeks && f != neverSent:
		c.lost = err
	}
	if c.cause != nil {
		err = fmt.Errorf("%w: %w", err, c.cause)
	}
	c.fail(c.unknown(err))
}

// unknown wraps the error of a call that got no reply: in an *OutcomeUnknownError if any of its attempts may have run.
func (c *call) unknown(err error) error {
	if c.lost == nil {
		return failed(c.script, err)
	}
	return &OutcomeUnknownError{Script: nameOf(c.script), Keys: c.keyNames(), ID: c.id, Err: err, late: c.late}
}

func (c *call) notLoaded(err error) error {
	if c.limits.functions {
		return failed(c.script, fmt.Errorf("%w (%s): %w", errNoFunction, nameOf(c.script), err))
	}
	if hidden := c.limits.errHiddenNodes(); hidden != nil {
		err = fmt.Errorf("%w; %w", err, hidden)
	}
	return failed(c.script, fmt.Errorf("%w (%s): %w", ErrNotLoaded, c.script.SHA1, err))
}

// final returns the typed error of an error reply that a retry would not change. If Redis stopped the script at a
// command, the script may have written before.
func (c *call) final(f failure, err error) error {
	code := codeOf(err)
	_, text, _ := strings.Cut(err.Error(), " ")
	if failedInScript(text) && code != "WRONGTYPE" && !c.peeks {
		c.lost = err
		return c.unknown(err)
	}
	switch code {
	case "BADARG":
		argument, want, _ := strings.Cut(text, ": want ")
		e := &ArgumentError{Script: nameOf(c.script), Argument: argument, Want: want}
		if argument == "id" && c.id != "" {
			e.Value = strconv.Quote(c.id)
		}
		return e
	case "BADSTATE", "WRONGTYPE":
		return &StateError{Script: nameOf(c.script), Keys: c.keyNames(), Code: code, Text: text}
	}
	switch {
	case c.source && f == refused:
		return c.notLoaded(err)
	case c.limits.functions && f == refused && code == "ERR":
		return failed(c.script, fmt.Errorf("%w: Functions needs Redis 7.0 or later: %w", errors.ErrUnsupported, err))
	}
	return c.unknown(err)
}

func failed(script *sluice.Script, err error) error {
	return fmt.Errorf("loader: %s: %w", nameOf(script), err)
}
