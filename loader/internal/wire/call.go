package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// NewCall makes the call of a question that has no arguments yet: append them to its Args.
func (c *Client) NewCall(script *sluice.Script, key string, fields int) *Call {
	call := &Call{client: c, Question: Question{Script: script, Key: key, Fields: fields, Timeout: c.Timeouts[0]}}
	call.Args = call.args[:0]
	return call
}

// AllowGroup allows a question for this many permits, which stand at a place among its arguments, to share its command
// with others who ask for as many, up to a capacity.
func (q *Question) AllowGroup(permits int64, at int, capacity int64) {
	q.Permits, q.PermitsAt = permits, at
	q.MaxGroup = max(min(capacity, q.Script.Args[at].Max)/permits, 1)
}

// MayJoin reports whether the call may share its command with other callers.
func (c *Call) MayJoin() bool { return c.MaxGroup > 0 && !c.source }

// MayPack reports whether the call may be a part of a command for many keys.
func (c *Call) MayPack() bool { return !c.single && !c.source }

// Sender sends a command. It returns the command's error, or the context's as soon as the context ends; the reply must
// not be read then.
type Sender interface {
	Send(ctx context.Context, cmd *Command) error
}

// Ask makes attempts until there is a reply, or an error that a retry would not cure: an *Error, unless it is one that
// a hook made. via sends them: the Client itself, or what shares round trips.
func (c *Call) Ask(ctx context.Context, via Sender) (answer Answer, err error) {
	ctx, cancel := c.client.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if ctx.Err() != nil {
		return Answer{}, c.unanswered(ctx.Err())
	}
	if err := c.Admit(ctx, nil); err != nil {
		return Answer{}, err
	}
	err = ErrNoOutcome // where a hook panics
	defer c.TellBreaker(&err)
	for {
		cmd := c.Attempt()
		c.Sent++
		step := c.Judge(ctx, cmd, via.Send(ctx, cmd))
		if step.Load != nil {
			step = c.AfterLoad(ctx, step, c.Load(ctx, step.Load))
		}
		if step.Pause > 0 {
			step = c.AfterPause(step, Sleep(ctx, step.Pause))
		}
		if step.Done {
			return step.Answer, step.Err
		}
	}
}

// Admit asks the breaker of the call's node, and returns an error if that is open. Otherwise the call ends with
// TellBreaker. round is that of a call which is sent with others, else nil.
func (c *Call) Admit(ctx context.Context, round *Round) error {
	all := c.client.breakers
	if all == nil {
		return nil
	}
	node, _ := c.client.unwrapped.(*redis.Client)
	c.breaker = all.only
	if !c.client.Single {
		var err error
		if node, err = c.client.NodeOf(ctx, c.Key); err != nil { // no seed of a cluster answers
			c.breaker = nil
			return nil
		}
		c.breaker = all.breakerOf(node)
	}
	b, now := c.breaker, time.Now()
	c.told, c.follows = false, round != nil && slices.Contains(round.admitted, b)
	b.mu.Lock()
	b.asked = now
	open := !c.follows && b.failures >= b.Failures && now.Sub(b.silentSince) >= c.Timeout
	if open && !b.tried && node != nil {
		b.tried = true
		c.client.Start(func() { b.tryAnew(node, c.Timeout) })
	}
	if open && (!b.probing.IsZero() || now.Sub(b.pauseFrom) < b.Pause) {
		c.told = true
		return c.unanswered(b.refuse(now))
	}
	defer b.mu.Unlock()
	if b.inFlight == 0 && b.failures == 0 {
		b.silentSince = now
	}
	b.inFlight++
	if open {
		b.probing = now
	}
	if round != nil {
		round.admitted = append(round.admitted, b)
	}
	return nil
}

// TellBreaker tells the breaker how the call has ended. Only the first time counts.
func (c *Call) TellBreaker(outcome *error) {
	b, err, now := c.breaker, *outcome, time.Now()
	if b == nil || c.told {
		return
	}
	c.told = true
	b.mu.Lock()
	b.inFlight--
	closed, silent := false, now.Sub(b.silentSince)
	switch {
	case err == nil, showsLife(err):
		closed = b.refused
		b.failures, b.silentSince, b.last, b.refused, b.tried = 0, now, nil, false, false
	case c.follows:
	case err != ErrNoOutcome && !errors.Is(err, context.Canceled):
		b.failures++
		b.last, b.pauseFrom = err, cmp.Or(b.probing, now)
		if e, ok := err.(*Error); ok {
			b.last = e.Err
		}
	}
	b.probing = time.Time{}
	b.mu.Unlock()
	if closed {
		b.log.Log(context.Background(), slog.LevelInfo, "breaker closed", b.node, slog.String("node", b.node),
			slog.Duration("silent", silent))
	}
}

// Judge returns what an attempt leads to, by the error of sending its command.
func (c *Call) Judge(ctx context.Context, cmd *Command, err error) Step {
	if err != nil {
		return c.judgeError(ctx, cmd, err)
	}
	if !c.client.answered.Load() {
		c.client.answered.Store(true)
	}
	answer := cmd.Shared
	if answer == nil {
		answer = &Answer{Reply: cmd.Val()}
	}
	if len(answer.Reply) < c.Fields {
		return fail(c.noDecision(fmt.Errorf("a reply of %d integers, want %d", len(answer.Reply), c.Fields)))
	}
	return Step{Done: true, Answer: *answer}
}

// Attempt returns the command of the next attempt. It has no words until Compose.
func (c *Call) Attempt() *Command {
	cmd := &c.first
	if cmd.Call != nil { // an earlier attempt, which a hook may have kept
		cmd = &Command{}
	}
	cmd.Call = c
	return cmd
}

// Send sends a command by itself.
func (c *Client) Send(ctx context.Context, cmd *Command) error {
	cmd.Compose(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.keepsDeadlines && !c.patience.isGiven() {
		return c.Redis.Process(ctx, cmd)
	}
	t := c.start(cmd, running)
	finished, err := c.wait(ctx, t)
	if !finished {
		cmd.Late = &Late{Ended: t.ended, Read: func() []int64 {
			if t.err != nil || t.raised != nil {
				return nil
			}
			return cmd.Val()
		}}
	}
	return err
}
