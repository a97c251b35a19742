package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// topPage is how many keys are scanned at a time.
const topPage = 50

// topFlags are the flags of top.
type topFlags struct {
	serverFlags
	prefix, limiter, by string
	n, share            int
	json                bool
}

func parseTop(args []string) (topFlags, error) {
	var f topFlags
	flags := f.register("top")
	flags.StringVar(&f.prefix, "prefix", "sluice", "")
	flags.StringVar(&f.limiter, "limiter", "", "")
	flags.StringVar(&f.by, "by", "permits", "")
	flags.IntVar(&f.n, "n", 20, "")
	flags.IntVar(&f.share, "share", 5, "")
	flags.BoolVar(&f.json, "json", false, "")
	if err := parseOnlyFlags(flags, args); err != nil {
		return f, err
	}
	switch {
	case f.n < 1 || f.n > 1000:
		return f, usagef("--n is %d: want 1 to 1000", f.n)
	case f.by != "permits" && f.by != "memory":
		return f, usagef("--by is %s: want permits or memory", given(f.by))
	case f.share < 1 || f.share > 100:
		return f, usagef("--share is %d: want 1 to 100", f.share)
	}
	if _, err := keyOf(f.prefix, cmp.Or(f.limiter, "any"), "subject", "state"); err != nil {
		return f, err
	}
	return f, nil
}

// pattern returns the glob of the keys to read.
func (f topFlags) pattern() string { return f.prefix + ":" + cmp.Or(f.limiter, "*") + ":{*}:*" }

func (a app) top(ctx context.Context, args []string) error {
	f, err := parseTop(args)
	if err != nil {
		return err
	}
	out, t, err := a.open(f.serverFlags)
	if err != nil {
		return err
	}
	nodes, _, err := t.nodes(ctx)
	if err != nil {
		return err
	}
	c := census{flags: f, status: newScreen(a.stderr), Logs: []*subject{}, Buckets: []*subject{}}
	for _, n := range nodes {
		if n.role == "replica" && t.Kind != "redis" {
			continue
		}
		err := c.take(ctx, t, n.addr)
		if ctx.Err() != nil {
			break
		}
		switch {
		case err == nil:
			c.answered++
		case !n.empty:
			c.fail(n.addr, err)
		}
	}
	c.Partial = ctx.Err() != nil
	c.weigh(ctx, t)
	if f.json {
		if err := out.json(c); err != nil {
			return err
		}
	} else if c.answered > 0 || c.Partial {
		out.census(c)
	}
	return withRights(c.verdict(ctx), c.rights())
}

// rights is the cure if the user may not do what top needs.
func (c *census) rights() string {
	return rightsCure("top", c.flags.prefix, c.flags.target.Cluster != "")
}

// verdict returns the final error: nil if every server and every key was read.
func (c *census) verdict(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var errs []error
	for _, failure := range c.Failures {
		errs = append(errs, fmt.Errorf("not known: %w", failure.err))
	}
	if c.unreadable != nil {
		errs = append(errs, fmt.Errorf("not known: %s could not be read, the first with: %w",
			counted(c.Unread, "key", "keys"), c.unreadable))
	}
	return errors.Join(errs...)
}

// fail records a server that could not be read completely.
func (c *census) fail(node string, err error) {
	c.Failures = append(c.Failures, nodeFailure{Node: node, Error: errorText(err), err: err})
}

// census is the result for all subjects.
type census struct {
	flags  topFlags
	status screen

	Seen    int64      `json:"keys_seen"`        // all keys of the servers
	Counted int        `json:"subjects"`         // keys with permits or a bucket
	Refused int        `json:"refused"`          // our keys that a script would refuse
	Unread  int        `json:"unreadable"`       // our keys that the server refused to show
	Logs    []*subject `json:"permits"`          // by permits
	Buckets []*subject `json:"backlog"`          // by how far they are from full
	Biggest []*subject `json:"memory,omitempty"` // by memory, in place of the two above
	Partial bool       `json:"interrupted"`      // not all keys were seen

	// FirstRefused is the first key that a script would refuse.
	FirstRefused string `json:"first_refused,omitempty"`

	// Failures are the servers that could not be read completely, and why.
	Failures []nodeFailure `json:"failures,omitempty"`

	answered   int   // servers that answered
	unweighed  error // the first refusal of memory or TTL
	unreadable error // the error of the first key that could not be read
}

// nodeFailure is what went wrong on a server.
type nodeFailure struct {
	Node  string `json:"node"`
	Error string `json:"error"`
	err   error
}

type subject struct {
	Key     string `json:"key"`
	Script  string `json:"script"`
	Limiter string `json:"limiter"`
	Subject string `json:"subject"`
	Client  string `json:"client,omitempty"`
	Window  int64  `json:"window,omitempty"` // of a slice_ring, in microseconds
	Permits int64  `json:"permits,omitempty"`
	Backlog int64  `json:"backlog,omitempty"` // microseconds until a gcra is full
	// microseconds since the newest permit; negative: booked ahead; not for gcra and slots
	Idle   *int64 `json:"idle,omitempty"`
	Memory int64  `json:"memory,omitempty"` // bytes
	TTL    int64  `json:"ttl,omitempty"`    // microseconds

	node string
	read time.Time // when permits, backlog and idle were read
}

// take counts the subjects of one server.
func (c *census) take(ctx context.Context, t target, addr string) error {
	rdb := t.Connect(addr)
	defer rdb.Close()
	all := scan{
		pattern: c.flags.pattern(), page: topPage, share: c.flags.share, status: c.status, found: c.first,
	}
	seen, err := all.run(ctx, rdb, func(page []string) (err error) {
		all.used, err = c.turn(ctx, rdb, page)
		return err
	})
	c.Seen += seen
	if err != nil {
		return fmt.Errorf("scanning %s: %w", addr, err)
	}
	return nil
}

// first is the first of the tables so far, for the progress.
func (c *census) first() string {
	switch {
	case len(c.Biggest) > 0:
		return fmt.Sprintf(", %s of %s %s", size(c.Biggest[0].Memory), c.Biggest[0].Limiter, c.Biggest[0].Subject)
	case len(c.Logs) > 0:
		return fmt.Sprintf(", %d permits of %s %s", c.Logs[0].Permits, c.Logs[0].Limiter, c.Logs[0].Subject)
	}
	return ""
}

// turn counts the subjects of one page of keys. It returns how long it kept the server busy.
func (c *census) turn(ctx context.Context, rdb *redis.Client, page []string) (time.Duration, error) {
	var keys []stored.Key
	for _, text := range page {
		if key, ok := stored.ParseKey(text); ok && !key.IsConfig() {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return 0, nil
	}
	summaries, busy, err := stored.Read(ctx, rdb, keys)
	if err != nil {
		return busy, err
	}
	memory := make([]*redis.IntCmd, len(keys))
	if c.flags.by == "memory" {
		pipe := rdb.Pipeline()
		_, more, err := stored.Timed(ctx, pipe, func() {
			for i, key := range keys {
				memory[i] = pipe.MemoryUsage(ctx, key.Text)
			}
		})
		if busy += more; err != nil {
			return busy, err
		}
	}
	for i, s := range summaries {
		c.count(s, rdb.Options().Addr, memory[i])
	}
	return busy, nil
}

// count adds a subject, if it is among the first so far. memory is nil where subjects are not ranked by it.
func (c *census) count(s stored.Summary, node string, memory *redis.IntCmd) {
	script, _ := s.Key.Script()
	one := &subject{
		Key: s.Key.Text, Script: fullName(script), Limiter: s.Key.Limiter, Subject: s.Key.Subject,
		Client: s.Key.Client(), Permits: s.Permits, node: node, read: time.Now(),
	}
	table := &c.Logs
	switch {
	case s.Err != nil:
		c.Unread++
		c.unreadable = cmp.Or(c.unreadable, s.Err)
		return
	case s.Damage != "":
		c.Refused++
		c.FirstRefused = cmp.Or(c.FirstRefused, s.Key.Text)
		return
	case s.Bucket != nil:
		one.Backlog = s.Bucket.Backlog(s.Now)
		table = &c.Buckets
	case !s.Exists:
		return
	case s.Slots == nil && s.Quota == nil:
		idle := s.Now - s.Newest
		one.Idle = &idle
	}
	if s.Ring != nil {
		one.Window = s.Ring.Span()
	}
	if memory != nil {
		one.Memory = memory.Val()
		c.unweighed = cmp.Or(c.unweighed, memory.Err())
		table = &c.Biggest
	}
	c.Counted++
	*table = keep(*table, one, c.flags.n)
}

// keep inserts a subject into the first n. It ignores duplicates, because SCAN may return a key twice.
func keep(busiest []*subject, one *subject, n int) []*subject {
	busiest = slices.DeleteFunc(busiest, func(s *subject) bool { return s.Key == one.Key })
	at, _ := slices.BinarySearchFunc(busiest, one, func(a, b *subject) int {
		return cmp.Or(cmp.Compare(b.Memory, a.Memory), cmp.Compare(b.Permits, a.Permits),
			cmp.Compare(b.Backlog, a.Backlog), cmp.Compare(a.Key, b.Key))
	})
	if at >= n {
		return busiest
	}
	busiest = slices.Insert(busiest, at, one)
	return busiest[:min(len(busiest), n)]
}

// weighTimeout is how long an interrupted census may still send commands.
const weighTimeout = 3 * time.Second

// weigh asks for the memory and TTL of the subjects that are shown, even if the census was interrupted, and brings what
// was read before to the same moment. What the user has no right to stays 0.
func (c *census) weigh(ctx context.Context, t target) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), weighTimeout)
	defer cancel()
	byNode := map[string][]*subject{}
	for _, one := range slices.Concat(c.Logs, c.Buckets, c.Biggest) {
		byNode[one.node] = append(byNode[one.node], one)
	}
	for addr, subjects := range byNode {
		rdb := t.Connect(addr)
		pipe := rdb.Pipeline()
		memory, ttl := make([]*redis.IntCmd, len(subjects)), make([]*redis.DurationCmd, len(subjects))
		for i, one := range subjects {
			memory[i], ttl[i] = pipe.MemoryUsage(ctx, one.Key), pipe.PTTL(ctx, one.Key)
		}
		if err := stored.Exec(ctx, pipe); err != nil {
			c.fail(addr, fmt.Errorf("asking %s for memory and TTL: %w", addr, err))
		}
		for i, one := range subjects {
			if c.unweighed = cmp.Or(c.unweighed, memory[i].Err(), ttl[i].Err()); errors.Is(c.unweighed, redis.Nil) {
				c.unweighed = nil // it has expired
			}
			one.Memory, one.TTL = memory[i].Val(), max(ttl[i].Val().Microseconds(), 0)
			since := time.Since(one.read).Microseconds()
			one.Backlog = max(one.Backlog-since, 0)
			if one.Idle != nil {
				*one.Idle += since
			}
		}
		_ = rdb.Close()
	}
}
