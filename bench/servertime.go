package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// A ServerTime is what the server spends on one call, by INFO commandstats.
type ServerTime struct {
	Subject string `json:"subject"`
	Outcome string `json:"outcome"` // granted, denied, looked
	Live    int64  `json:"live"`    // permits that count when the call comes
	State   string `json:"state"`   // how they came: spread over the window, in one burst
	Usec    Spread `json:"usec"`
	Ratio   Spread `json:"ratio"` // to the floor, in the same round
	Ours    bool   `json:"ours"`
}

// The outcomes of a call.
const (
	granted = "granted"
	denied  = "denied"
	looked  = "looked"
)

// How permits came.
const (
	spread = "spread"
	burst  = "burst"
)

// A cell is one row of ServerTime before it is measured.
type cell struct {
	subject subject
	outcome string
	live    int64
	state   string
	asked   int // calls so far: no two share an id
	usec    []float64
	ratio   []float64
}

func (c *cell) String() string {
	return fmt.Sprintf("%s/%s/%d/%s", c.subject.name, c.outcome, c.live, c.state)
}

// cells are the rows for one subject, as far as the ranges of its header go, and up to most permits.
func cells(s subject, most int64) []*cell {
	var list []*cell
	add := func(outcome string, state string, lives ...int64) {
		for _, live := range lives {
			if live <= min(s.most, most) {
				list = append(list, &cell{subject: s, outcome: outcome, live: live, state: state})
			}
		}
	}
	lives := []int64{1, 100, 1e4, 1e6}
	full := []int64{10, 100, 1e4, 1e6}
	if !s.ours {
		lives, full = lives[1:3], full[1:3]
	}
	add(granted, spread, lives...)
	if !s.always {
		add(denied, spread, full...)
	}
	if s.kind == rings && s.ours && !s.always {
		add(denied, burst, full...)
	}
	if s.looks {
		add(looked, spread, lives...)
	}
	return list
}

// plan is how a cell is run: so many limiters, each called so often, so that the live permits stay about the same.
func (c *cell) plan(calls int) (limiters, each int) {
	if c.outcome != granted {
		return 1, calls
	}
	each = room(c.live, calls)
	return calls / each, each
}

// room is how many permits a limiter may be granted before it is another row.
func room(live int64, calls int) int { return int(min(max(live/20, 1), int64(calls))) }

// prefilled is the permits that are there when the first call comes: up to a twentieth fewer than the row says where
// the limit leaves no room for more.
func (c *cell) prefilled(calls int) int64 {
	if c.live < 100 {
		return c.live
	}
	return min(c.live, c.subject.most-int64(room(c.live, calls)))
}

// ask finds the limiter full for a denial, and room for every call else.
func (c *cell) ask(calls int) ask {
	a := ask{limit: c.prefilled(calls), window: c.subject.longest, permits: 1}
	if c.outcome == looked {
		a.permits = 0
	}
	if c.outcome != denied {
		a.limit += int64(room(c.live, calls))
	}
	return a
}

// template makes the state from which every round starts. Rows share it.
func (c *cell) template(ctx context.Context, on *server, calls int) error {
	live, a := c.prefilled(calls), c.ask(calls)
	each, h := c.subject.spreadOut(live)
	if c.state == burst {
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
	return fmt.Sprintf("{%s/%s/%d of %d}", c.subject.name, c.state, c.prefilled(calls), c.templateLimit(calls))
}

// templateLimit is the limit that the template is filled under: any where copies get their own.
func (c *cell) templateLimit(calls int) int64 {
	if c.subject.stored && c.subject.ours { // S4 stores what is left of the limit, too
		return c.subject.most
	}
	return c.ask(calls).limit
}

// key is a limiter of the cell, in one slot with its template.
func (c *cell) key(calls int, part any) string {
	return fmt.Sprintf("%s:%s:%v", c.templateKey(calls), c.outcome, part)
}

// measure runs one round: the floor, then the cell from its template, each in one pipeline and on as many keys.
func (c *cell) measure(ctx context.Context, on *server, calls int) error {
	limiters, each := c.plan(calls)
	if err := c.prepare(ctx, on, limiters, calls); err != nil {
		return err
	}
	base := floor()
	below, err := on.run(ctx, base, limiters, each, true, func(limiter, _ int) []any {
		return base.command(fmt.Sprint("floor:", limiter), ask{})
	})
	if err != nil {
		return err
	}
	a := c.ask(calls)
	usec, err := on.run(ctx, c.subject, limiters, each, c.outcome == granted, func(limiter, _ int) []any {
		c.asked++
		a.id = fmt.Sprintf("%016d", c.asked)
		return c.subject.command(c.key(calls, limiter), a)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	c.usec, c.ratio = append(c.usec, usec), append(c.ratio, usec/below)
	return nil
}

// prepare fills the limiters that the calls find.
func (c *cell) prepare(ctx context.Context, on *server, limiters, calls int) error {
	if c.subject.kind == buckets { // buckets drain with time
		if err := c.template(ctx, on, calls); err != nil {
			return err
		}
	}
	if c.outcome == granted || c.subject.kind == buckets || len(c.usec) == 0 {
		return c.copies(ctx, on, limiters, calls)
	}
	return nil
}

// copies puts the template under the keys of every limiter.
func (c *cell) copies(ctx context.Context, on *server, limiters, calls int) error {
	from := c.subject.at(c.templateKey(calls))
	a := c.ask(calls)
	_, err := on.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range limiters {
			to := c.subject.at(c.key(calls, i))
			p.Unlink(ctx, to...)
			for k := range to {
				p.Copy(ctx, from[k], to[k], 0, false)
			}
			c.subject.configured(ctx, p, to[0], a)
		}
		return nil
	})
	return err
}

// run pipelines the calls and returns the server's microseconds for one of them. A reply other than what is wanted is
// an error: nothing counts that did not do what its row says.
func (s *server) run(ctx context.Context, of subject, limiters, each int, grant bool,
	command func(limiter, i int) []any) (float64, error) {
	if err := s.ScriptLoad(ctx, of.source).Err(); err != nil {
		return 0, err
	}
	if err := s.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	p := s.Pipeline()
	for i := range limiters * each {
		p.Do(ctx, command(i%limiters, i)...)
	}
	replies, err := p.Exec(ctx)
	if err != nil && err != redis.Nil {
		return 0, fmt.Errorf("%s: %w", of.name, err)
	}
	for i, reply := range replies {
		cmd := reply.(*redis.Cmd)
		if err := cmd.Err(); err != nil && err != redis.Nil {
			return 0, fmt.Errorf("%s: %w", of.name, err)
		}
		if got := of.says(cmd.Val()); got != grant {
			return 0, fmt.Errorf("%s: call %d of %d: granted %t, want %t: %v", of.name, i+1, len(replies), got, grant, cmd.Val())
		}
	}
	stats, err := s.commandStats(ctx)
	if err != nil {
		return 0, err
	}
	evalsha := stats["evalsha"]
	if evalsha.calls != limiters*each {
		return 0, fmt.Errorf("%s: %d calls of EVALSHA, want %d", of.name, evalsha.calls, limiters*each)
	}
	return evalsha.usec / float64(evalsha.calls), nil
}

// serverTimes measures every cell once a round. A round begins one cell later than the one before it.
func (b *bench) serverTimes(ctx context.Context, subjects []subject) ([]ServerTime, error) {
	var all []*cell
	for _, s := range subjects {
		all = append(all, cells(s, b.mostLive)...)
	}
	filled := map[string]bool{}
	for _, c := range all {
		key := c.templateKey(b.calls)
		if filled[key] {
			continue
		}
		filled[key] = true
		b.progress("server time: filling %s", key)
		if err := c.template(ctx, b.server, b.calls); err != nil {
			return nil, err
		}
	}
	for round := range b.rounds {
		b.progress("server time: round %d of %d", round+1, b.rounds)
		for i := range all {
			if err := all[(i+round)%len(all)].measure(ctx, b.server, b.calls); err != nil {
				return nil, err
			}
		}
	}
	rows := make([]ServerTime, len(all))
	for i, c := range all {
		rows[i] = ServerTime{c.subject.name, c.outcome, c.live, c.state, spreadOf(c.usec), spreadOf(c.ratio),
			c.subject.ours}
	}
	return rows, b.server.FlushAll(ctx).Err()
}
