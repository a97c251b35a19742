package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// How a search scans the keys of a server. A page of 200 keys takes Redis about 0.1 ms, and three quarters of the time
// are left to other clients. A million keys take a few seconds.
const (
	searchPage  = 200
	searchShare = 25 // percent of the server's time
)

// search is the result of a scan for the keys of one subject of one limiter. They are all on one server, in a cluster
// too, because they share a hash tag.
type search struct {
	pattern string
	node    string
	keys    []string // all of them, sorted
	missed  error    // why there may be more
}

// anyLimiter stands for all limiters.
const anyLimiter = "*"

// search looks for every key of a subject, in one scan. begins are keys up to the script's code, with the name of a
// limiter or anyLimiter.
func (a app) search(ctx context.Context, rdb *redis.Client, begins []string) search {
	s := search{pattern: strings.Join(begins, "* ") + "*", node: rdb.Options().Addr}
	parts := strings.SplitN(begins[0], ":", 3) // prefix, limiter and the rest, of which the rest alone is escaped
	one, limiter := strings.Replace(begins[0], ":"+anyLimiter+":", ":any:", 1), parts[1]
	if len(begins) > 1 {
		limiter = anyLimiter
	}
	pattern := parts[0] + ":" + limiter + ":" + globEscape.Replace(parts[2]) + "*"
	all := scan{pattern: pattern, page: searchPage, share: searchShare, status: newScreen(a.stderr)}
	_, err := all.run(ctx, rdb, func(page []string) error {
		for _, begin := range begins {
			s.keys = append(s.keys, keysOf(page, begin)...)
		}
		return nil
	})
	slices.Sort(s.keys)
	s.keys = slices.Compact(s.keys)
	if err == nil {
		// A server without the subject's slot, or with a part of its keys while it moves, answers MOVED or ASK to a key
		// that does not exist. SCAN would then have missed the keys elsewhere.
		err = rdb.Exists(ctx, one+"none-"+rand.Text()).Err()
	}
	if err != nil {
		s.missed = fmt.Errorf("looking for %s on %s: %w", s.pattern, s.node, err)
	}
	return s
}

// keysOf returns the keys that begin so; all of them if that is with anyLimiter.
func keysOf(keys []string, begin string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(key string) bool {
		return !strings.HasPrefix(key, begin) && !strings.Contains(begin, ":"+anyLimiter+":")
	})
}

// without returns the texts that are not among the others.
func without(texts, others []string) []string {
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return slices.Contains(others, text) })
}

// known returns which of a subject's keys are there, of those that can be named without a search; none if the server
// does not say.
func known(ctx context.Context, rdb *redis.Client, begin string, windows []time.Duration) (keys []string, err error) {
	if strings.Contains(begin, ":"+anyLimiter+":") {
		return nil, nil
	}
	pipe := rdb.Pipeline()
	names := stored.Known(begin, windows)
	there := make([]*redis.IntCmd, len(names))
	for i, name := range names {
		there[i] = pipe.Exists(ctx, name)
	}
	if err := stored.Exec(ctx, pipe); err != nil {
		return nil, fmt.Errorf("asking %s: %w", rdb.Options().Addr, err)
	}
	for i, name := range names {
		if there[i].Val() > 0 {
			keys = append(keys, name)
		}
	}
	return keys, nil
}

// incomplete returns an error if keys may have been missed.
func (s search) incomplete() error {
	if s.missed == nil {
		return nil
	}
	return fmt.Errorf("it is not known whether more is stored: %w", s.missed)
}

// openSubject returns a client for the server that has the keys of a subject in some limiters, the beginning of the
// keys in each of them, and a function that closes the client.
func (a app) openSubject(ctx context.Context, f serverFlags, prefix string, targets ...limited) (
	rdb *redis.Client, begins []string, release func(), err error,
) {
	key := ""
	for _, target := range targets {
		name := target.limiter
		if name == anyLimiter {
			name = "any" // all have the same slot
		}
		if key, err = keyOf(prefix, name, target.name, "state"); err != nil {
			return nil, nil, nil, err
		}
		begin := strings.Replace(strings.TrimSuffix(key, "state"), ":"+name+":", ":"+target.limiter+":", 1)
		begins = append(begins, begin)
	}
	rdb, release, err = a.openHolder(ctx, f, key)
	return rdb, begins, release, err
}

// openHolder returns a client for the server that has a key, and a function that closes it.
func (a app) openHolder(ctx context.Context, f serverFlags, key string) (*redis.Client, func(), error) {
	t, err := a.target(f.target)
	if err != nil {
		return nil, nil, err
	}
	return t.holder(ctx, key)
}

func (t target) holder(ctx context.Context, key string) (*redis.Client, func(), error) {
	addr := t.Addrs[0]
	switch t.Kind {
	case "cluster":
		rdb := t.ClusterClient()
		node, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			_ = rdb.Close()
			return nil, nil, fmt.Errorf("asking the cluster for the master of %s: %w", key, err)
		}
		return node, func() { _ = rdb.Close() }, nil
	case "sentinel":
		nodes, _, err := t.nodes(ctx)
		if err != nil {
			return nil, nil, err
		}
		at := slices.IndexFunc(nodes, func(n node) bool { return n.role == "master" })
		addr = nodes[max(at, 0)].addr
	}
	rdb := t.Connect(addr)
	return rdb, func() { _ = rdb.Close() }, nil
}

// scan is a scan of all keys of a server, in pages with pauses between them.
type scan struct {
	pattern     string
	page, share int           // keys of a page, and percent of the server's time that are used
	status      screen        // shows the progress
	found       func() string // for the progress: what was found so far; may be nil
	used        time.Duration // of the server's time, for what is done with a page
}

// run passes each page of keys that match to use. It returns how many keys were scanned.
func (s *scan) run(ctx context.Context, rdb *redis.Client, use func(page []string) error) (seen int64, err error) {
	total, err := rdb.DBSize(ctx).Result()
	counted := err == nil
	if err != nil && !stored.IsReply(err) {
		return 0, err
	}
	defer s.status.redraw("")
	for cursor := uint64(0); ; {
		began := time.Now()
		var scanned *redis.ScanCmd
		pipe := rdb.Pipeline()
		_, busy, err := stored.Timed(ctx, pipe, func() { scanned = pipe.Scan(ctx, cursor, s.pattern, int64(s.page)) })
		if err = cmp.Or(err, scanned.Err()); err != nil {
			return seen, err
		}
		var page []string
		page, cursor = scanned.Val()
		s.used = 0
		if err := use(page); err != nil {
			return seen, err
		}
		seen += int64(s.page)
		if counted && (seen > total || cursor == 0) {
			seen = total
		}
		if cursor == 0 {
			return seen, nil
		}
		found := ""
		if s.found != nil {
			found = s.found()
		}
		s.status.redraw("%s: %d of %d keys%s; Ctrl-C stops", rdb.Options().Addr, seen, total, found)
		if err := rest(ctx, began, (busy+s.used)*100/time.Duration(s.share)); err != nil {
			return seen, err
		}
	}
}

// rest sleeps until so much time has passed since a page was begun.
func rest(ctx context.Context, began time.Time, period time.Duration) error {
	select {
	case <-time.After(period - time.Since(began)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// globEscape escapes the special characters of Redis's patterns.
var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
