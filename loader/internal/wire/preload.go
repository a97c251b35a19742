package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Loading is what became of loading all scripts on one node.
type Loading struct {
	Addr string
	Err  error
}

// Preload loads all scripts on every node, or with Functions the libraries of functions, unless a node has their very
// bytes.
func (c *Client) Preload(ctx context.Context) ([]Loading, error) {
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("loader: listing nodes: %w", err)
	}
	all := make([]func() error, len(nodes))
	for i, node := range nodes {
		all[i] = func() error { return node.preload(ctx) }
	}
	loadings := make([]Loading, len(nodes))
	for i, err := range c.AwaitAll(ctx, all) {
		loadings[i] = Loading{nodes[i].addr, err}
	}
	return loadings, nil
}

// node is one server that scripts are loaded on: the server of a Client, a master of a ClusterClient, a shard of a
// Ring.
type node struct {
	addr   string
	client redis.Cmdable // nil: the shard is down
	on     *Client
}

// errShardDown is the error of a shard that a Ring does not use because it is down.
var errShardDown = errors.New("the ring has marked this shard as down")

// load loads a script.
func (n node) load(ctx context.Context, script *sluice.Script) error {
	if n.client == nil {
		return errShardDown
	}
	return n.on.Await(ctx, n.on.Timeouts[0], func(ctx context.Context) error {
		return load(ctx, n.client, script)
	})
}

// preload loads what Preload does.
func (n node) preload(ctx context.Context) error {
	if n.on.Functions {
		return n.loadFunctions(ctx)
	}
	scripts := sluice.All()
	for i := range scripts {
		if err := n.load(ctx, &scripts[i]); err != nil {
			return err
		}
	}
	return nil
}

func (n node) loadFunctions(ctx context.Context) error {
	if n.client == nil {
		return errShardDown
	}
	for _, library := range sluice.Libraries() {
		err := n.on.Await(ctx, n.on.Timeouts[0], func(ctx context.Context) error {
			return loadLibrary(ctx, n.client, library)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// loadLibrary loads a library, unless it is there: that takes the server 3 ms, and goes to its replicas.
func loadLibrary(ctx context.Context, on redis.Cmdable, library sluice.Library) error {
	query := redis.FunctionListQuery{LibraryNamePattern: library.Name, WithCode: true}
	found, _ := on.FunctionList(ctx, query).Result() // if the user has no right to it, load
	if len(found) == 1 && found[0].Code == library.Source {
		return nil
	}
	return on.FunctionLoadReplace(ctx, library.Source).Err()
}

// listNodes returns the nodes that scripts are loaded on, sorted by address, also shards that are marked as down.
// Replicas are not included: a promoted replica gets missing scripts with the first call.
func (c *Client) listNodes(ctx context.Context) ([]node, error) {
	if err := c.errHiddenNodes(); err != nil {
		return nil, err
	}
	var err error
	nodes := []node{{addr: addrOf(c.Redis), client: c.Redis, on: c}}
	switch rdb := c.unwrapped.(type) {
	case clusterClient:
		nodes, err = c.gather(ctx, rdb.ForEachMaster)
	case ringClient:
		nodes, err = c.gather(ctx, rdb.ForEachShard)
		nodes = c.addDown(nodes)
	}
	slices.SortFunc(nodes, func(a, b node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes, err
}

// gather collects the nodes that a client visits.
func (c *Client) gather(
	ctx context.Context, each func(context.Context, func(context.Context, *redis.Client) error) error,
) ([]node, error) {
	var mu sync.Mutex
	var nodes []node
	err := c.Await(ctx, c.Timeouts[0], func(ctx context.Context) error {
		return each(ctx, func(_ context.Context, client *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			nodes = append(nodes, node{addr: client.Options().Addr, client: client, on: c})
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return nodes, nil
}

// addDown adds the shards of a Ring that it did not visit.
func (c *Client) addDown(nodes []node) []node {
	r, ok := c.unwrapped.(interface{ Options() *redis.RingOptions })
	if !ok {
		return nodes
	}
	for _, addr := range r.Options().Addrs {
		if !slices.ContainsFunc(nodes, func(n node) bool { return n.addr == addr }) {
			nodes = append(nodes, node{addr: addr, on: c})
		}
	}
	return nodes
}
