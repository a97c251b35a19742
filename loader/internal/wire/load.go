package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// errAltered is the error of a script that was changed between this process and the server.
var errAltered = errors.New("script was changed in transit")

func load(ctx context.Context, on redis.Scripter, script *sluice.Script) error {
	sum, err := on.ScriptLoad(ctx, script.Source).Result()
	if err != nil {
		return err
	}
	if sum != script.SHA1 {
		return fmt.Errorf("%w: SHA1 %s, want %s", errAltered, sum, script.SHA1)
	}
	return nil
}

// load loads a script on the node of a key, or on every master. Concurrent callers share one call.
func (c *Client) load(ctx context.Context, script *sluice.Script, key string, all bool) error {
	to := LoadTarget{Script: script}
	_, cluster := c.unwrapped.(clusterClient)
	if to.All = all && cluster; !to.All {
		node, err := c.NodeOf(ctx, key)
		if err != nil {
			return err
		}
		to.Node = node
	}
	return c.shared.doOnce(ctx, to, func() error {
		return c.Await(context.WithoutCancel(ctx), c.Timeouts[0], func(ctx context.Context) error {
			return c.loadOn(ctx, to)
		})
	})
}

func (c *Client) loadOn(ctx context.Context, to LoadTarget) error {
	switch {
	case to.All:
		return c.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return load(ctx, node, to.Script)
		})
	case to.Node != nil:
		return load(ctx, to.Node, to.Script)
	}
	return load(ctx, c.Redis, to.Script)
}

// eachMaster calls do for every master. ForEachMaster does so in its own goroutines: a panic there is raised here.
func (c *Client) eachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	var mu sync.Mutex
	var first *Raised
	err := c.unwrapped.(clusterClient).ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		returned := false
		defer func() {
			if r := Caught(returned, recover()); r != nil {
				mu.Lock()
				defer mu.Unlock()
				first = r
			}
		}()
		err := do(ctx, node)
		returned = true
		return err
	})
	first.Reraise()
	return err
}
