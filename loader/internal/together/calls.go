package together

import (
	"cmp"
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Result is what became of one of several calls.
type Result struct {
	wire.Answer
	Err error
}

// AskAll is Ask for several calls at once: one round trip, unless some need another attempt. It takes no longer than
// the longest of their timeouts. Where no two ask about one key (mayShare), they may share round trips with other
// callers.
func (c *Client) AskAll(ctx context.Context, calls []*wire.Call, mayShare bool) []Result {
	results := make([]Result, len(calls))
	open := make([]*openCall, len(calls))
	var timeout time.Duration
	for i, call := range calls {
		open[i] = &openCall{call: call, result: &results[i]}
		timeout = max(timeout, call.Timeout)
	}
	ctx, cancel := c.WithTimeout(ctx, timeout)
	defer cancel()
	open = admitted(ctx, open)
	defer func() {
		panicked := wire.ErrNoOutcome
		for _, a := range open {
			a.call.TellBreaker(&panicked)
		}
	}()
	for len(open) > 0 {
		open = c.askOnce(ctx, open, mayShare)
	}
	return results
}

// openCall is one of several calls, with its last attempt.
type openCall struct {
	call    *wire.Call
	result  *Result
	cmd     *wire.Command
	outcome error
	step    wire.Step
}

// askOnce makes an attempt of each call, and what is needed before the next. It returns the calls that need one.
func (c *Client) askOnce(ctx context.Context, open []*openCall, mayShare bool) []*openCall {
	if err := ctx.Err(); err != nil {
		for _, a := range open {
			a.step = a.call.Fail(err)
		}
		return unended(open)
	}
	c.send(ctx, open, mayShare)
	for _, a := range open {
		a.step = a.call.Judge(ctx, a.cmd, a.outcome)
	}
	open = unended(open)
	c.load(ctx, open)
	open = unended(open)
	var pause time.Duration
	for _, a := range open {
		pause = max(pause, a.step.Pause)
	}
	slept := wire.Sleep(ctx, pause)
	for _, a := range open {
		a.step = a.call.AfterPause(a.step, slept)
	}
	return unended(open)
}

// unended returns the calls that need another attempt, and sets the results of the others.
func unended(all []*openCall) []*openCall {
	open := make([]*openCall, 0, len(all))
	for _, a := range all {
		if a.step.Done {
			a.result.Answer, a.result.Err = a.step.Answer, a.step.Err
			a.call.TellBreaker(&a.step.Err)
			continue
		}
		open = append(open, a)
	}
	return open
}

// admitted asks the breaker of each call's node, and returns the calls that may be sent.
func admitted(ctx context.Context, all []*openCall) []*openCall {
	open := make([]*openCall, 0, len(all))
	var round wire.Round
	for _, a := range all {
		if a.result.Err = a.call.Admit(ctx, &round); a.result.Err == nil {
			open = append(open, a)
		}
	}
	return open
}

// send sends a command of each call, and sets the outcomes.
func (c *Client) send(ctx context.Context, open []*openCall, mayShare bool) {
	for _, a := range open {
		a.call.Sent++
		a.cmd = a.call.Attempt()
	}
	if c.share != nil && mayShare {
		c.share.sendAll(ctx, open)
		return
	}
	c.sendAlone(ctx, open)
}

// sendAlone sends the commands in one pipeline of their own.
func (c *Client) sendAlone(ctx context.Context, open []*openCall) {
	cmds := make([]redis.Cmder, len(open))
	for i, a := range open {
		a.cmd.SetPiped()
		a.cmd.Compose(ctx)
		cmds[i] = a.cmd
	}
	returned := make(chan struct{})
	var sendErr error
	finished, err := c.AwaitOne(ctx, func() error {
		defer close(returned)
		sendErr = wire.ErrNoOutcome // where a hook panics
		sendErr = c.sendPipeline(ctx, cmds)
		for _, a := range open { // some nodes may have answered and others not
			if ctx.Err() != nil && (sendErr == nil || a.cmd.Answered()) {
				a.call.HearLate()
			}
		}
		return sendErr
	})
	for _, a := range open {
		if !finished {
			a.cmd.Late = lateReply(a.cmd, returned, &sendErr)
		}
		a.outcome = a.cmd.Outcome(finished, err)
	}
}

// lateReply returns the reply to a command that was abandoned. err is its pipeline's, set when returned is closed.
func lateReply(cmd *wire.Command, returned <-chan struct{}, err *error) *wire.Late {
	return &wire.Late{Ended: returned, Read: func() []int64 {
		if cmd.Outcome(true, *err) != nil {
			return nil
		}
		return cmd.Val()
	}}
}

// load loads each missing script once on each node.
func (c *Client) load(ctx context.Context, open []*openCall) {
	waiting := map[wire.LoadTarget][]*openCall{}
	for _, a := range open {
		if script := a.step.Load; script != nil {
			to := a.call.Target(ctx, script)
			waiting[to] = append(waiting[to], a)
		}
	}
	var groups [][]*openCall
	var loads []func() error
	for to, group := range waiting {
		groups = append(groups, group)
		loads = append(loads, func() error { return group[0].call.Load(ctx, to.Script) })
	}
	for i, err := range c.AwaitAll(ctx, loads) {
		for _, a := range groups[i] {
			a.step = a.call.AfterLoad(ctx, a.step, err)
		}
	}
}

// sendAll sends the commands of several calls in pipelines with others.
func (s *sharing) sendAll(ctx context.Context, open []*openCall) {
	members := make([]*member, len(open))
	nodes := make([]*redis.Client, len(open))
	for i, a := range open {
		nodes[i], a.outcome = s.client.NodeOf(ctx, a.call.Key)
	}
	s.mu.Lock()
	for i, a := range open {
		if a.outcome == nil {
			members[i] = s.enqueue(ctx, s.queueOf(nodes[i]), a.cmd)
		}
	}
	for _, m := range members {
		if m != nil {
			s.startNext(m.queue)
		}
	}
	s.mu.Unlock()
	var first *wire.Raised
	for i, a := range open {
		if members[i] != nil {
			var r *wire.Raised
			r, a.outcome = s.await(ctx, members[i])
			first = cmp.Or(first, r)
		}
	}
	first.Reraise()
}
