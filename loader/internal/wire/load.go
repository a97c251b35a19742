package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Target returns where a script that a step asks for is loaded: calls with the same one load it once.
func (c *Call) Target(ctx context.Context, script *sluice.Script) LoadTarget {
	node, _ := c.client.NodeOf(ctx, c.Key) // without one, loading says why
	return LoadTarget{script, node, c.reloads > 1}
}

// Load loads a script on the key's node; the second time on every master, because the slot may be moving between two.
func (c *Call) Load(ctx context.Context, script *sluice.Script) error {
	err := c.client.load(ctx, script, c.Key, c.reloads > 1)
	if err == nil && c.client.Log != nil {
		name, node := NameOf(script), c.loadedOn(ctx)
		c.client.Log.Log(ctx, slog.LevelInfo, "script loaded", name+" "+node, slog.String("script", name),
			slog.String("sha1", script.SHA1), slog.String("node", node))
	}
	return err
}

// loadedOn names the node on which the call loaded its script.
func (c *Call) loadedOn(ctx context.Context) string {
	if _, ok := c.client.unwrapped.(clusterClient); ok && c.reloads > 1 {
		return "every master"
	}
	if node, _ := c.client.NodeOf(ctx, c.Key); node != nil {
		return node.Options().Addr
	}
	return addrOf(c.client.Redis)
}

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
