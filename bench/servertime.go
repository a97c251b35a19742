package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// The cases of a call: what it does, on live permits that were granted evenly over the window, or in one burst.
const (
	granted     = "granted"
	denied      = "denied"
	deniedBurst = "denied, burst"
	looked      = "looked"
)

// A cell is one row of the server's time while it is measured: of one call, by INFO commandstats.
type cell struct {
	*Row
	floor   *Row
	subject subject
	asked   int // calls so far: no two share an id
}

func (c *cell) String() string { return fmt.Sprintf("%s/%s/%d", c.Name, c.Case, c.Size) }

// cells are the rows for one subject, as far as the ranges of its header go, and up to most permits.
func cells(s subject, most int64) []*cell {
	var list []*cell
	add := func(outcome string, lives ...int64) {
		for _, live := range lives {
			if live <= min(s.most, most) {
				list = append(list, &cell{Row: &Row{Name: s.name, Case: outcome, Size: live}, subject: s})
			}
		}
	}
	add(granted, 1, 100, 1e4, 1e6)
	if !s.always {
		add(denied, 10, 100, 1e4)
	}
	if s.kind == rings && !s.always {
		add(deniedBurst, 10, 100, 1e4)
	}
	if s.looks {
		add(looked, 100)
	}
	return list
}

// plan is how a cell is run: so many limiters, each called so often, so that the live permits stay about the same.
func (c *cell) plan(calls int) (limiters, each int) {
	if c.Case != granted {
		return 1, calls
	}
	each = room(c.Size, calls)
	return calls / each, each
}

// room is how many permits a limiter may be granted before it is another row.
func room(live int64, calls int) int { return int(min(max(live/20, 1), int64(calls))) }

// prefilled is the permits that are there when the first call comes: up to a twentieth fewer than the row says where
// the limit leaves no room for more.
func (c *cell) prefilled(calls int) int64 {
	if c.Size < 100 {
		return c.Size
	}
	return min(c.Size, c.subject.most-int64(room(c.Size, calls)))
}

// ask finds the limiter full for a denial, and room for every call else.
func (c *cell) ask(calls int) ask {
	a := ask{limit: c.prefilled(calls), window: c.subject.longest, permits: 1}
	switch c.Case {
	case looked:
		a.permits = 0
		fallthrough
	case granted:
		a.limit += int64(room(c.Size, calls))
	}
	return a
}

// template makes the state from which every round starts. Rows share it.
func (c *cell) template(ctx context.Context, on *server, calls int) error {
	live, a := c.prefilled(calls), c.ask(calls)
	each, h := c.subject.spreadOut(live)
	if c.Case == deniedBurst {
		each, h = live, history{calls: 1, from: time.Now()}
	}
	a.permits, a.limit = each, c.templateLimit(calls)
	template := c.templateKey(calls)
	if err := on.Unlink(ctx, c.subject.at(template)...).Err(); err != nil {
		return err
	}
	return c.subject.fill(ctx, on, template, a, h)
}

func (c *cell) templateKey(calls int) string {
	return fmt.Sprintf("{%s/%t/%d of %d}", c.Name, c.Case == deniedBurst, c.prefilled(calls), c.templateLimit(calls))
}

// templateLimit is the limit that the template is filled under: any where copies get their own.
func (c *cell) templateLimit(calls int) int64 {
	if c.subject.stored {
		return c.subject.most
	}
	return c.ask(calls).limit
}

// key is a limiter of the cell, in one slot with its template.
func (c *cell) key(calls, limiter int) string {
	return fmt.Sprintf("%s:%s:%d", c.templateKey(calls), c.Case, limiter)
}

// measure runs one round: the floor, then the cell from its template, each in one pipeline and on as many keys.
func (c *cell) measure(ctx context.Context, on *server, calls int) error {
	if c.subject.kind == buckets { // they drain with time
		if err := c.template(ctx, on, calls); err != nil {
			return err
		}
	}
	limiters, each := c.plan(calls)
	a, base := c.ask(calls), floor()
	var floors, cells [][]any
	for i := range limiters * each {
		c.asked++
		a.id = fmt.Sprintf("%016d", c.asked)
		floors = append(floors, base.command(fmt.Sprint("floor:", i%limiters), ask{}))
		cells = append(cells, c.subject.command(c.key(calls, i%limiters), a))
	}
	_, below, err := on.timed(ctx, base.source, func(redis.Pipeliner) {}, floors...)
	if err != nil {
		return err
	}
	replies, usec, err := on.timed(ctx, c.subject.source, func(p redis.Pipeliner) {
		for i := range limiters {
			c.subject.copied(ctx, p, c.templateKey(calls), c.key(calls, i))
			c.subject.configured(ctx, p, c.key(calls, i), a)
		}
	}, cells...)
	for i, reply := range replies { // nothing counts that did not do what its row says
		if got := c.subject.says(reply.(*redis.Cmd).Val()); err == nil && got != (c.Case == granted) {
			err = fmt.Errorf("call %d of %d: granted %t: %v", i+1, len(replies), got, reply)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	c.floor.note("us", below)
	c.note("us", usec)
	c.note("floors", usec/below)
	return nil
}

// serverTimes measures every cell once a round.
func (b *bench) serverTimes(ctx context.Context) ([]*Row, error) {
	var all []*cell
	rows := []*Row{{Name: floor().name}}
	for _, s := range scripts() {
		for _, c := range cells(s, b.mostLive) {
			c.floor = rows[0]
			all, rows = append(all, c), append(rows, c.Row)
		}
	}
	filled := map[string]bool{}
	for _, c := range all {
		key := c.templateKey(b.calls)
		if filled[key] {
			continue
		}
		filled[key] = true
		b.progress("filling %s", key)
		if err := c.template(ctx, b.server, b.calls); err != nil {
			return nil, err
		}
	}
	return rows, inTurn(b, all, func(c *cell, _ int) error { return c.measure(ctx, b.server, b.calls) })
}
