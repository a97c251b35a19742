package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// node is one server that scripts are loaded on: the server of a Client, a master of a ClusterClient, a shard of a
// Ring.
type node struct {
	addr   string
	client redis.Cmdable // nil: the shard is down
	limits *Loader
}

// errShardDown is the error of a shard that a Ring does not use because it is down.
var errShardDown = errors.New("the ring has marked this shard as down")

// load loads a script.
func (n node) load(ctx context.Context, script *sluice.Script) error {
	if n.client == nil {
		return errShardDown
	}
	return n.limits.await(ctx, n.limits.deadlines.timeout, func(ctx context.Context) error {
		return load(ctx, n.client, script)
	})
}

// firstLookupTimeout bounds how long a ClusterClient looks for its nodes for the first time.
const firstLookupTimeout = 5 * time.Second

// nodeOf returns the node of a key, nil if the client has only one. The first time, a ClusterClient asks its seeds,
// some of which may be down; this goes on if the caller leaves.
func (l *Loader) nodeOf(ctx context.Context, key string) (*redis.Client, error) {
	if l.nodesKnown.Load() {
		return l.nodeForKey(ctx, key)
	}
	if _, ok := l.nodes.(clusterClient); ok {
		err := l.loads.doOnce(ctx, &l.tasks, loadTarget{}, func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstLookupTimeout)
			defer cancel()
			_, err := l.nodeForKey(ctx, key)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	l.nodesKnown.Store(true)
	return l.nodeForKey(ctx, key)
}

func (l *Loader) nodeForKey(ctx context.Context, key string) (*redis.Client, error) {
	switch rdb := l.nodes.(type) {
	case clusterClient:
		return rdb.MasterForKey(ctx, key)
	case ringClient:
		return rdb.GetShardClientForKey(key)
	}
	return nil, nil
}

// reloadNodes makes a ClusterClient ask who the masters are now, in the background and a few times a second at most. By
// itself it asks once a minute and when a node redirects it, which a dead node does not do.
func (l *Loader) reloadNodes(ctx context.Context) {
	if rdb, ok := l.nodes.(interface{ ReloadState(context.Context) }); ok {
		rdb.ReloadState(ctx)
	}
}

// Methods of the clients that are not in UniversalClient. They are separate interfaces so that wrappers work.
type (
	singleClient  interface{ Options() *redis.Options }
	clusterClient interface {
		ForEachMaster(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}
	ringClient interface {
		ForEachShard(ctx context.Context, fn func(ctx context.Context, client *redis.Client) error) error
		GetShardClientForKey(key string) (*redis.Client, error)
	}
	wrapper interface{ Unwrap() redis.UniversalClient }
)

// unwrapped returns the client behind all wrappers, nil if a wrapper has no Unwrap.
func unwrapped(rdb any) any {
	for {
		switch c := rdb.(type) {
		case singleClient, clusterClient, ringClient:
			return c
		case wrapper:
			rdb = c.Unwrap()
		default:
			return nil
		}
	}
}

// errHiddenNodes is the error of a client that hides its nodes, nil for others.
func (l *Loader) errHiddenNodes() error {
	if l.nodes != nil {
		return nil
	}
	return fmt.Errorf("%T hides its nodes: give it the method Unwrap() redis.UniversalClient", l.rdb)
}

// listNodes returns the nodes that scripts are loaded on, sorted by address, also shards that are marked as down.
// Replicas are not included: a promoted replica gets missing scripts with the first call.
func (l *Loader) listNodes(ctx context.Context) ([]node, error) {
	if l.err != nil {
		return nil, l.err
	}
	if err := l.errHiddenNodes(); err != nil {
		return nil, fmt.Errorf("loader: listing nodes: %w", err)
	}
	var err error
	nodes := []node{{addr: addrOf(l.rdb), client: l.rdb, limits: l}}
	switch rdb := l.nodes.(type) {
	case clusterClient:
		nodes, err = l.gather(ctx, rdb.ForEachMaster)
	case ringClient:
		nodes, err = l.gather(ctx, rdb.ForEachShard)
		nodes = l.addDown(nodes)
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes, err
}

// gather collects the nodes that a client visits.
func (l *Loader) gather(
	ctx context.Context, each func(context.Context, func(context.Context, *redis.Client) error) error,
) ([]node, error) {
	var mu sync.Mutex
	var nodes []node
	err := l.await(ctx, l.deadlines.timeout, func(ctx context.Context) error {
		return each(ctx, func(_ context.Context, client *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node{addr: client.Options().Addr, client: client, limits: l})
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("loader: listing nodes: %w", err)
	}
	return nodes, nil
}

// addDown adds the shards of a Ring that it did not visit.
func (l *Loader) addDown(nodes []node) []node {
	r, ok := l.nodes.(interface{ Options() *redis.RingOptions })
	if !ok {
		return nodes
	}
	for _, addr := range r.Options().Addrs {
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.addr == addr }) {
			nodes = append(nodes, node{addr: addr, limits: l})
		}
	}
	return nodes
}

// addrOf returns the address of a client with one server.
func addrOf(rdb any) string {
	if client, ok := unwrapped(rdb).(singleClient); ok {
		return client.Options().Addr
	}
	return "redis"
}
