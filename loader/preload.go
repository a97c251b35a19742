package loader

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// Preload loads all scripts on every node, or with Functions the libraries of functions, unless a node has their very
// bytes. Use it with PreloadedOnly, or to save the first callers a round trip. If a node fails it goes on with the
// others; the error joins a *NodeError for each that failed. A client that hides its nodes is an error, and nothing is
// loaded: see New. Cost: one round trip for each script on each node; for a library two, and 3 ms of the server.
func (l *Loader) Preload(ctx context.Context) error {
	nodes, err := l.listNodes(ctx)
	if err != nil {
		return err
	}
	all := make([]func() error, len(nodes))
	for i, node := range nodes {
		all[i] = func() error {
			if err := node.preload(ctx); err != nil {
				return &NodeError{Addr: node.addr, Err: err}
			}
			return nil
		}
	}
	return errors.Join(l.tasks.awaitAll(ctx, all)...)
}

// preload loads what Preload does.
func (n node) preload(ctx context.Context) error {
	if n.limits.functions {
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
		err := n.limits.await(ctx, n.limits.deadlines.timeout, func(ctx context.Context) error {
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

// loadTarget is a script and where to load it.
type loadTarget struct {
	script *sluice.Script
	node   *redis.Client // nil: the only one
	all    bool          // on every master
}

// load loads a script on the node of a key, or on every master. Concurrent callers share one call.
func (l *Loader) load(ctx context.Context, script *sluice.Script, key string, all bool) error {
	to := loadTarget{script: script}
	_, cluster := l.nodes.(clusterClient)
	if to.all = all && cluster; !to.all {
		node, err := l.nodeOf(ctx, key)
		if err != nil {
			return err
		}
		to.node = node
	}
	return l.loads.doOnce(ctx, &l.tasks, to, func() error {
		return l.await(context.WithoutCancel(ctx), l.deadlines.timeout, func(ctx context.Context) error {
			return l.loadOn(ctx, to)
		})
	})
}

func (l *Loader) loadOn(ctx context.Context, to loadTarget) error {
	switch {
	case to.all:
		return l.eachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return load(ctx, node, to.script)
		})
	case to.node != nil:
		return load(ctx, to.node, to.script)
	}
	return load(ctx, l.rdb, to.script)
}

// eachMaster calls do for every master. ForEachMaster does so in its own goroutines: a panic there is raised here.
func (l *Loader) eachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	var mu sync.Mutex
	var first *raised
	err := l.nodes.(clusterClient).ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		returned := false
		defer func() {
			if r := caught(returned, recover()); r != nil {
				mu.Lock()
				defer mu.Unlock()
				first = r
			}
		}()
		err := do(ctx, node)
		returned = true
		return err
	})
	first.reraise()
	return err
}

// loads makes each call once for all callers who need it at the same time.
type loads struct {
	mu    sync.Mutex
	calls map[loadTarget]*sharedCall
}

// sharedCall is a call that callers share.
type sharedCall struct {
	done   chan struct{} // closed when the fields below are set
	err    error
	raised *raised
}

// doOnce calls do, unless a call with the same key is running. It returns the call's error, or the context's as soon as
// the context ends; the call goes on then.
func (s *loads) doOnce(ctx context.Context, ts *tasks, key loadTarget, do func() error) error {
	c := s.getOrStart(ts, key, do)
	select {
	case <-c.done:
		c.raised.reraise()
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// getOrStart returns the running call with this key, or starts one.
func (s *loads) getOrStart(ts *tasks, key loadTarget, do func() error) *sharedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[key]; c != nil {
		return c
	}
	c := &sharedCall{done: make(chan struct{})}
	s.calls[key] = c
	ts.start(func() error {
		returned := false
		defer func() {
			c.raised = caught(returned, recover())
			s.mu.Lock()
			delete(s.calls, key)
			s.mu.Unlock()
			close(c.done)
		}()
		c.err = do()
		returned = true
		return nil
	})
	return c
}
