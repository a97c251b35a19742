package loader

import (
	"context"

	"github.com/redis/go-redis/v9"
)

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
	if l.sharing != nil && !c.readOnly() { // a pipeline with a decision in it goes to no replica
		return l.sharing.send(ctx, c, cmd)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.direct {
		return l.rdb.Process(ctx, cmd)
	}
	t := l.tasks.start(func() error { return l.rdb.Process(ctx, cmd) })
	finished, err := l.tasks.wait(ctx, t)
	if !finished {
		c.inFlight = t.ended
	}
	return err
}

// sendPipeline sends commands in one pipeline, which go-redis splits by nodes. It returns the first error.
func (l *Loader) sendPipeline(ctx context.Context, cmds []redis.Cmder) error {
	if len(cmds) == 1 {
		return l.rdb.Process(ctx, cmds[0])
	}
	pipe := l.rdb.Pipeline()
	for _, cmd := range cmds {
		if err := pipe.Process(ctx, cmd); err != nil {
			return err
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}
