package wire

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

// LoadTarget is a script and where to load it.
type LoadTarget struct {
	Script *sluice.Script
	Node   *redis.Client // nil: the only one
	All    bool          // on every master
}

// sharedCalls makes each call once for all callers who need it at the same time.
type sharedCalls struct {
	tasks *tasks
	mu    sync.Mutex
	calls map[LoadTarget]*sharedCall
}

// sharedCall is a call that callers share.
type sharedCall struct {
	done   chan struct{} // closed when the fields below are set
	err    error
	raised *Raised
}

// doOnce calls do, unless a call with the same key is running. It returns the call's error, or the context's as soon as
// the context ends; the call goes on then.
func (s *sharedCalls) doOnce(ctx context.Context, key LoadTarget, do func() error) error {
	c := s.getOrStart(key, do)
	select {
	case <-c.done:
		c.raised.Reraise()
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// getOrStart returns the running call with this key, or starts one.
func (s *sharedCalls) getOrStart(key LoadTarget, do func() error) *sharedCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.calls[key]; c != nil {
		return c
	}
	c := &sharedCall{done: make(chan struct{})}
	s.calls[key] = c
	s.tasks.Start(func() {
		returned := false
		defer func() {
			c.raised = Caught(returned, recover())
			s.mu.Lock()
			delete(s.calls, key)
			s.mu.Unlock()
			close(c.done)
		}()
		c.err = do()
		returned = true
	})
	return c
}
