package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/sluice-redis/sluice"
)

// Bounds on what one call does by itself.
const (
	maxRetries   = 3                    // after attempts that may be repeated
	maxTryAgain  = 12                   // after TRYAGAIN: about one second in all
	maxManyTries = 2                    // as part of a command for many keys
	maxReloads   = 8                    // of a script that is flushed again and again
	firstPause   = 8 * time.Millisecond // then 32, 128, and 128 again; each is shortened at random, to half at least
)

// errHashSlotMoves is in the error of a call that got TRYAGAIN for too long.
var errHashSlotMoves = errors.New("the slot is moving between two masters, and not all of the keys are on the same one")

// Step is what an attempt leads to: the end of the call, or another attempt, perhaps after loading a script or a pause.
type Step struct {
	Done   bool
	Answer Answer
	Err    error
	Load   *sluice.Script // load this one before
	Pause  time.Duration

	loadFailed func() // the script to load is one for many keys: call this if that fails, and ask by itself
}

// again is another attempt at once.
var again = Step{}

// fail ends a call.
func fail(err error) Step { return Step{Done: true, Err: err} }

// Fail ends a call that cannot be sent.
func (c *Call) Fail(err error) Step { return fail(c.unanswered(err)) }

// judgeError returns what an attempt leads to that has no reply.
func (c *Call) judgeError(ctx context.Context, cmd *Command, err error) Step {
	f := FailureOf(err)
	if !f.isReply() {
		c.client.reloadState(ctx)
		if hasEnded(ctx) {
			if !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return fail(c.outOfTime(cmd, f, err))
		}
	}
	c.cause = err
	neverWritten := cmd.GiveUp()
	switch {
	case f == notDecided:
		return c.askAgain(err)
	case f == scriptMissing:
		return c.reload(err)
	case f.provesNotRun(), f == neverSent && (!cmd.piped || neverWritten):
		return c.retry(ctx, f, err)
	case f.isReply() && !(f == redirected && cmd.piped):
		return fail(c.final(f, err))
	case neverWritten && f == lostNetwork:
		return c.retry(ctx, f, err)
	case neverWritten:
		return fail(c.unanswered(err))
	}
	return c.replyLost(ctx, f, err)
}

// askAgain lets a call ask again that was not decided in a command for many keys.
func (c *Call) askAgain(err error) Step {
	why, _ := errors.AsType[*NotDecided](err)
	c.manyTries++
	c.single = why.Alone || c.manyTries > maxManyTries
	return Step{Load: why.Missing, loadFailed: why.LoadFailed}
}

// replyLost retries if that cannot charge twice.
func (c *Call) replyLost(ctx context.Context, f Failure, err error) Step {
	if !c.Looks {
		c.mayHaveRun = err
	}
	if c.Looks || c.ID != "" {
		return c.retry(ctx, f, err)
	}
	return fail(c.unanswered(err))
}

// retry pauses before the next attempt, or ends the call after too many of them.
func (c *Call) retry(ctx context.Context, f Failure, err error) Step {
	limit := maxRetries
	if f == hashSlotMoves {
		limit, err = maxTryAgain, fmt.Errorf("%w: %w", errHashSlotMoves, err)
	}
	pause := firstPause << (2 * min(c.retries, maxRetries-1))
	pause = pause/2 + rand.N(pause/2)
	c.retries++
	deadline, bounded := ctx.Deadline()
	if c.retries > limit || bounded && time.Until(deadline) < pause {
		return fail(c.unanswered(err))
	}
	c.cause = err
	return Step{Pause: pause}
}

// reload loads a script that is missing; the second time, a client that hides its nodes sends the source.
func (c *Call) reload(err error) Step {
	c.reloads++
	if c.client.PreloadedOnly || c.reloads > maxReloads {
		return fail(c.notLoaded(err))
	}
	if c.reloads > 1 && c.client.errHiddenNodes() != nil {
		return c.sendSource()
	}
	return Step{Load: c.Script}
}

// sendSource has the next attempt send the script itself.
func (c *Call) sendSource() Step {
	c.source, c.Loaded = true, true
	return again
}

// AfterLoad takes the outcome of loading the script that a step asked for.
func (c *Call) AfterLoad(ctx context.Context, step Step, err error) Step {
	if err == nil {
		c.Loaded = c.Loaded || step.loadFailed == nil
		return again
	}
	if step.loadFailed != nil { // the script for one may work
		step.loadFailed()
		c.single = true
		return again
	}
	err = fmt.Errorf("loading the script: %w", err)
	switch f := FailureOf(err); {
	case f == notAllowed:
		return c.sendSource()
	case ctx.Err() != nil, errors.Is(err, errAltered), f.isReply() && !f.provesNotRun():
		return fail(c.unanswered(err))
	default:
		return c.retry(ctx, f, err)
	}
}

// AfterPause takes the outcome of the pause that a step asked for.
func (c *Call) AfterPause(step Step, err error) Step {
	if err != nil {
		return fail(c.unanswered(fmt.Errorf("%w: %w", err, c.cause)))
	}
	return step
}

// Target returns where a script that a step asks for is loaded: calls with the same one load it once.
func (c *Call) Target(ctx context.Context, script *sluice.Script) LoadTarget {
	node, _ := c.client.NodeOf(ctx, c.Key) // without one, loading says why
	return LoadTarget{script, node, c.reloads > 1}
}

// Load loads a script on the key's node; the second time on every master, because the slot may be moving between two.
func (c *Call) Load(ctx context.Context, script *sluice.Script) error {
	err := c.client.load(ctx, script, c.Key, c.reloads > 1)
	if err == nil && c.client.Log != nil {
		name, node := NameOf(script), c.loadedOn(ctx)
		c.client.Log.Log(ctx, slog.LevelInfo, "script loaded", name+" "+node, slog.String("script", name),
			slog.String("sha1", script.SHA1), slog.String("node", node))
	}
	return err
}

// loadedOn names the node on which the call loaded its script.
func (c *Call) loadedOn(ctx context.Context) string {
	if _, ok := c.client.unwrapped.(clusterClient); ok && c.reloads > 1 {
		return "every master"
	}
	if node, _ := c.client.NodeOf(ctx, c.Key); node != nil {
		return node.Options().Addr
	}
	return addrOf(c.client.Redis)
}
