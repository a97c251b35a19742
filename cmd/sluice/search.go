package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
)

// How a search scans the keys of a server. A page of 200 keys takes Redis about 0.2 ms, and three quarters of the time
// are left to other clients. A million keys take 5 to 10 s.
const (
	searchPage  = 200
	searchShare = 25 // percent of the time
	maxOthers   = 20 // keys to look at besides those that the arguments name
)

// search is the result of a scan for the keys of one subject of one limiter.
type search struct {
	pattern string
	node    string
	keys    []string // all of them, sorted
	missed  error    // why there may be more

	clients  int      // clients of a token_bucket with a rate for each: only counted
	ids      int      // of budgets: only counted
	unknown  []string // keys of no known layout
	unlooked int      // keys above maxOthers
}

// errNotScanned is why a search with --no-scan may have missed keys.
var errNotScanned = errors.New(
	"--no-scan looks only at keys that the arguments name, by slice=, lease_age= and client=")

// holder returns a client for the server that has a key, and a function that closes it.
func (t target) holder(ctx context.Context, key string) (*redis.Client, func(), error) {
	switch t.flag {
	case "cluster":
		rdb := t.clusterClient()
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
		for _, n := range nodes {
			if n.role == "master" {
				rdb := t.connect(n.addr)
				return rdb, func() { _ = rdb.Close() }, nil
			}
		}
		return nil, nil, fmt.Errorf("the sentinels name no master of %s", t.master)
	}
	rdb := t.connect(t.addrs[0])
	return rdb, func() { _ = rdb.Close() }, nil
}

func (i inspection) newSearch(rdb *redis.Client) search {
	begin := strings.TrimSuffix(i.keys[0].Text, i.keys[0].Code)
	return search{pattern: begin + "*", node: rdb.Options().Addr}
}

// search looks for every key of a subject. They are all on one server, in a cluster too, because they share a hash tag.
func (a app) search(ctx context.Context, rdb *redis.Client, i inspection) search {
	s := i.newSearch(rdb)
	begin := strings.TrimSuffix(s.pattern, "*")
	progress := a.newScanProgress()
	keys, err := scanAll(ctx, rdb, begin, progress)
	progress.end()
	if err == nil {
		// A server without the subject's slot, or with a part of its keys while it moves, answers MOVED or ASK to a key
		// that does not exist. SCAN would then have missed the keys elsewhere.
		err = rdb.Exists(ctx, begin+"none-"+rand.Text()).Err()
	}
	if err != nil {
		s.missed = fmt.Errorf("looking for %s on %s: %w", s.pattern, s.node, err)
	}
	s.keys = keys
	return s
}

// scanAll scans all keys of a server once and returns those with the prefix begin, sorted.
func scanAll(ctx context.Context, rdb *redis.Client, begin string, progress *scanProgress) ([]string, error) {
	found := map[string]bool{}
	all := scan{pattern: globEscape.Replace(begin) + "*", page: searchPage, share: searchShare, progress: progress}
	_, err := all.run(ctx, rdb, func(page []string) error {
		for _, key := range page {
			if strings.HasPrefix(key, begin) {
				found[key] = true
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(found)), err
}

// scan is a scan of all keys of a server, in pages with pauses between them.
type scan struct {
	pattern     string
	page, share int // keys of a page, and percent of the time spent scanning
	progress    *scanProgress
}

// run passes each page of keys that match to use. It returns how many keys were scanned.
func (s scan) run(ctx context.Context, rdb *redis.Client, use func(page []string) error) (seen int64, err error) {
	total, err := rdb.DBSize(ctx).Result()
	counted := err == nil
	if err != nil && !stored.IsReply(err) {
		return 0, err
	}
	for cursor := uint64(0); ; {
		began := time.Now()
		var page []string
		if page, cursor, err = rdb.Scan(ctx, cursor, s.pattern, int64(s.page)).Result(); err != nil {
			return seen, err
		}
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
		s.progress.show(rdb.Options().Addr, seen, total)
		if err := rest(ctx, time.Since(began), s.share); err != nil {
			return seen, err
		}
	}
}

// globEscape escapes the special characters of Redis's patterns.
var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// others returns the keys that were found and still have to be looked at, up to maxOthers.
func (s *search) others(views []view) []stored.Key {
	perClient := false
	seen := map[string]bool{}
	for _, v := range views {
		seen[v.key.Text], seen[v.key.Config().Text] = true, true
		perClient = perClient || v.Config != nil && v.Config.PerClient
	}
	var others []stored.Key
	for _, text := range s.keys {
		key, known := stored.ParseKey(text)
		switch {
		case seen[text]:
		case key.IsID():
			s.ids++
		case !known:
			s.unknown = append(s.unknown, text)
		case perClient && key.Client() != "":
			s.clients++
		case len(others) == maxOthers:
			s.unlooked++
		default:
			others = append(others, key)
		}
	}
	return others
}

// unread returns how many keys were found and not read.
func (s search) unread() int { return len(s.unknown) + s.unlooked }

// notes returns what was found and is not shown, and what may have been missed.
func (s search) notes(i inspection, views []view) []string {
	var notes []string
	if s.clients > 0 {
		notes = append(notes, counted(s.clients, "client has its own permits",
			"clients have their own permits")+": client=<id> shows those of one")
	}
	if s.ids > 0 {
		notes = append(notes, counted(s.ids, "id of a budget is stored", "ids of a budget are stored"))
	}
	if s.unlooked > 0 {
		notes = append(notes, counted(s.unlooked, "more key was",
			"more keys were")+" found and not looked at: name one to see it")
	}
	for n, key := range s.unknown {
		if n == maxOthers {
			notes = append(notes, strconv.Itoa(len(s.unknown)-n)+" more keys of that kind")
			break
		}
		notes = append(notes, "this key is not known: "+key)
	}
	if i.named && len(views) > 0 && s.missed == errNotScanned {
		notes = append(notes, "there may be more: "+s.missed.Error())
	}
	return notes
}
