package wire

import (
	"context"
	"fmt"
)

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
	if err := c.Admit(ctx); err != nil {
		return Answer{}, err
	}
	err = ErrNoOutcome // where a hook panics
	defer c.Report(&err)
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
	if c.keepsDeadlines {
		return c.Redis.Process(ctx, cmd)
	}
	t := c.start(cmd)
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
