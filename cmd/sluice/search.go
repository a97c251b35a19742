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

// How a search goes through the keys of a server: 200 keys take Redis about 0.2 ms, and it has three quarters of the
// time for others. A million keys take 5 to 10 s.
const (
	searchPage  = 200
	searchShare = 25 // percent of the time
	mostOthers  = 20 // keys that are looked at beside those that the arguments name
)

// search is what a scan found under the keys of one subject of one limiter.
type search struct {
	pattern string
	node    string
	keys    []string // all of them, sorted
	missed  error    // why there may be more

	clients  int      // of a token_bucket in which each has the rate to itself: keys that are only counted
	unknown  []string // keys of no layout that is known here
	unlooked int      // keys above mostOthers
}

// errNotScanned is why a search that the user did not want may have missed something.
var errNotScanned = errors.New(
	"--no-scan looks only at keys that the arguments name, as slice=, lease_age= and client= do")

// holder is a client of the server that has a key, and how to let go of it.
func (t target) holder(ctx context.Context, key string) (*redis.Client, func(), error) {
	switch t.flag {
	case "cluster":
		rdb := t.clusterClient()
		node, err := rdb.MasterForKey(ctx, key)
		if err != nil {
			_ = rdb.Close()
			return nil, nil, fmt.Errorf("asking the cluster who has %s: %w", key, err)
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

// search is one in which nothing was found yet.
func (i inspection) search(rdb *redis.Client) search {
	begin := strings.TrimSuffix(i.keys[0].Text, i.keys[0].Code)
	return search{pattern: begin + "*", node: rdb.Options().Addr}
}

// search looks for every key of a subject on the server that has them, which in a cluster is one: they share a hash
// tag.
func (a app) search(ctx context.Context, rdb *redis.Client, i inspection) search {
	s := i.search(rdb)
	begin := strings.TrimSuffix(s.pattern, "*")
	progress := a.newScanProgress()
	keys, err := scanAll(ctx, rdb, begin, progress)
	progress.end()
	if err == nil {
		err = stays(ctx, rdb, begin)
	}
	if err != nil {
		s.missed = fmt.Errorf("looking for %s on %s: %w", s.pattern, s.node, err)
	}
	s.keys = keys
	return s
}

// scanAll goes once through all keys of a server and returns those that begin so, sorted.
func scanAll(ctx context.Context, rdb *redis.Client, begin string, progress *scanProgress) ([]string, error) {
	total := rdb.DBSize(ctx).Val() // for the eye only
	found, seen, cursor := map[string]bool{}, int64(0), uint64(0)
	for {
		began := time.Now()
		page, next, err := rdb.Scan(ctx, cursor, globEscape.Replace(begin)+"*", searchPage).Result()
		if err != nil {
			return slices.Sorted(maps.Keys(found)), err
		}
		for _, key := range page {
			if strings.HasPrefix(key, begin) {
				found[key] = true
			}
		}
		if cursor = next; cursor == 0 {
			return slices.Sorted(maps.Keys(found)), nil
		}
		seen += searchPage
		progress.show(rdb.Options().Addr, seen, total)
		if err := rest(ctx, time.Since(began), searchShare); err != nil {
			return slices.Sorted(maps.Keys(found)), err
		}
	}
}

// globEscape takes the meaning from what Redis's patterns understand.
var globEscape = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

// stays asks for a key that nobody has. A server to which the slot does not belong, or not with all its keys while it
// moves, answers MOVED or ASK, where SCAN would have missed what is elsewhere.
func stays(ctx context.Context, rdb *redis.Client, begin string) error {
	return rdb.Exists(ctx, begin+"none-"+rand.Text()).Err()
}

// others are the keys that were found and not looked at yet, as far as they are to be looked at.
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
		case !known:
			s.unknown = append(s.unknown, text)
		case perClient && key.Client() != "":
			s.clients++
		case len(others) == mostOthers:
			s.unlooked++
		default:
			others = append(others, key)
		}
	}
	return others
}

// unread is how many keys were found of which it is not known what they say.
func (s search) unread() int { return len(s.unknown) + s.unlooked }

// notes say what was found and is not shown, or may have been missed.
func (s search) notes(i inspection, views []view) []string {
	var notes []string
	if s.clients > 0 {
		notes = append(notes, counted(s.clients, "client has permits of its own",
			"clients have permits of their own")+": client=<id> shows one's")
	}
	if s.unlooked > 0 {
		notes = append(notes, counted(s.unlooked, "more key was",
			"more keys were")+" found and not looked at: name one to see it")
	}
	for n, key := range s.unknown {
		if n == mostOthers {
			notes = append(notes, strconv.Itoa(len(s.unknown)-n)+" more keys of that kind")
			break
		}
		notes = append(notes, "it is not known what this key is: "+key)
	}
	if i.named && len(views) > 0 && s.missed == errNotScanned {
		notes = append(notes, "there may be more: "+s.missed.Error())
	}
	return notes
}
