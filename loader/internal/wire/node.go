package wire

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// firstLookup is the key under which a client shares its first look for nodes.
var firstLookup = LoadTarget{}

// firstLookupTimeout bounds how long a ClusterClient looks for its nodes for the first time.
const firstLookupTimeout = 5 * time.Second

// nodes are the servers of a client.
type nodes struct {
	rdb       redis.UniversalClient
	unwrapped any  // rdb without its wrappers
	Single    bool // there is one server
	known     atomic.Bool
	shared    sharedCalls
}

// NodeOf returns the node of a key, nil if the client has only one. The first time, a ClusterClient asks its seeds,
// some of which may be down; this goes on if the caller leaves.
func (n *nodes) NodeOf(ctx context.Context, key string) (*redis.Client, error) {
	if n.known.Load() {
		return n.nodeForKey(ctx, key)
	}
	if _, ok := n.unwrapped.(clusterClient); ok {
		err := n.shared.doOnce(ctx, firstLookup, func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), firstLookupTimeout)
			defer cancel()
			_, err := n.nodeForKey(ctx, key)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	n.known.Store(true)
	return n.nodeForKey(ctx, key)
}

func (n *nodes) nodeForKey(ctx context.Context, key string) (*redis.Client, error) {
	switch rdb := n.unwrapped.(type) {
	case clusterClient:
		return rdb.MasterForKey(ctx, key)
	case ringClient:
		return rdb.GetShardClientForKey(key)
	}
	return nil, nil
}

// reloadState makes a ClusterClient ask who the masters are now, in the background and a few times a second at most. By
// itself it asks once a minute and when a node redirects it, which a dead node does not do.
func (n *nodes) reloadState(ctx context.Context) {
	if rdb, ok := n.unwrapped.(interface{ ReloadState(context.Context) }); ok {
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
		switch client := rdb.(type) {
		case singleClient, clusterClient, ringClient:
			return client
		case wrapper:
			rdb = client.Unwrap()
		default:
			return nil
		}
	}
}

// errHiddenNodes is the error of a client that hides its nodes, nil for others.
func (n *nodes) errHiddenNodes() error {
	if n.unwrapped != nil {
		return nil
	}
	return fmt.Errorf("%T hides its nodes: give it the method Unwrap() redis.UniversalClient", n.rdb)
}

// addrOf returns the address of a client with one server.
func addrOf(rdb any) string {
	if client, ok := unwrapped(rdb).(singleClient); ok {
		return client.Options().Addr
	}
	return "redis"
}

// IsNil reports whether there is no client, or a wrapper around none.
func IsNil(rdb redis.UniversalClient) bool {
	v := reflect.ValueOf(rdb)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	w, ok := rdb.(wrapper)
	return ok && IsNil(w.Unwrap())
}
