package wire

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/rarelog"
)

// BreakerOptions are when calls are not sent any more, and how often one is sent nevertheless.
type BreakerOptions struct {
	Failures int           // calls without an answer
	Pause    time.Duration // until a call is sent: from the failure that opened it, then from when the one before was sent
}

// OpenError says that a call was not sent, because its node has answered nobody for a while.
type OpenError struct {
	Node   string
	Silent time.Duration // so long
	Last   error         // the last failure
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("%v: %s has not answered for %v; the last failure: %v", ErrBreakerOpen, e.Node,
		e.Silent.Round(time.Millisecond), e.Last)
}

// Is reports whether target is ErrBreakerOpen.
func (e *OpenError) Is(target error) bool { return target == ErrBreakerOpen }

// breaker knows for how long a node has been silent. A call is not sent if that is longer than the call may take, and
// enough calls have failed in that time. Call.Admit asks it, Call.TellBreaker tells it.
type breaker struct {
	BreakerOptions
	node string
	log  *rarelog.Log

	mu          sync.Mutex
	asked       time.Time // when the last call was for the node
	inFlight    int       // calls
	silentSince time.Time // if calls are in flight or have failed
	failures    int       // calls without an answer in this time
	last        error     // the last failure
	pauseFrom   time.Time // when it was, or when its call was sent although the breaker was open
	probing     time.Time // when such a call was sent that has not ended
	refused     bool      // a call was refused in this time
	tried       bool      // tryAnew was called in this time
}

// isUnused reports whether no call has been for the node for a minute longer than a pause.
func (b *breaker) isUnused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight == 0 && time.Since(b.asked) > b.Pause+time.Minute
}

// refuse refuses a call, and unlocks the breaker. The first refusal is logged.
func (b *breaker) refuse(now time.Time) *OpenError {
	err := &OpenError{Node: b.node, Silent: now.Sub(b.silentSince), Last: b.last}
	first := !b.refused
	b.refused = true
	b.mu.Unlock()
	if first { // without the lock, because a handler runs
		b.log.Log(context.Background(), slog.LevelWarn, "breaker open", b.node, slog.String("node", b.node),
			slog.Duration("silent", err.Silent), slog.Any("error", err.Last))
	}
	return err
}

// hearLate notes that the node has answered a call after its caller had left. That closes no breaker, because a server
// that answers nobody in time is of no use; but the next call is sent at once. So a process that had no time to read
// its replies finds out as soon as it has, and so does the first caller after a pause of the server. nil does nothing.
func (b *breaker) hearLate() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pauseFrom = time.Time{}
}

// tryAnew finds out whether a node that answers nobody is well and only its connections are not: a firewall may have
// forgotten them. It closes those that are idle, each of which would cost one call its time, and sends a PING. If that
// is answered in time, the next call is sent at once.
func (b *breaker) tryAnew(node *redis.Client, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	closeIdle(ctx, node)
	bounded := node.WithTimeout(timeout)
	bounded.Options().ContextTimeoutEnabled = true
	err := bounded.Ping(ctx).Err()
	if err == nil || showsLife(err) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.pauseFrom, b.probing = time.Time{}, time.Time{}
	}
}

// closeIdle closes the idle connections of a client. go-redis has no method for that, but it closes a connection on
// which a command runs out of time.
func closeIdle(ctx context.Context, rdb *redis.Client) {
	hasty := rdb.WithTimeout(time.Nanosecond)
	hasty.Options().MaxRetries = 0
	stats := rdb.PoolStats()
	for range stats.IdleConns {
		_ = hasty.Ping(ctx).Err()
	}
	if stats.PipelineStats == nil {
		return
	}
	for range stats.PipelineStats.IdleConns {
		_, _ = hasty.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Ping(ctx).Err() })
	}
}

// Round is the calls of one round trip. A breaker lets all of them through or none, and counts them as one: they may
// fail because of one connection.
type Round struct{ admitted []*breaker }

// breakers holds the breaker of each node of a client.
type breakers struct {
	BreakerOptions
	log  *rarelog.Log
	only *breaker // of a client with one node

	mu    sync.RWMutex
	nodes map[string]*breaker // by address
}

func newBreakers(o BreakerOptions, rdb redis.UniversalClient, log *rarelog.Log) *breakers {
	b := &breakers{BreakerOptions: o, log: log, nodes: map[string]*breaker{}}
	b.only = b.newBreaker(addrOf(rdb))
	return b
}

func (b *breakers) newBreaker(node string) *breaker {
	return &breaker{BreakerOptions: b.BreakerOptions, node: node, log: b.log, asked: time.Now()}
}

// breakerOf returns the breaker of a node; nil stands for what a client hides.
func (b *breakers) breakerOf(node *redis.Client) *breaker {
	if node == nil {
		return b.only
	}
	addr := node.Options().Addr
	b.mu.RLock()
	found := b.nodes[addr]
	b.mu.RUnlock()
	if found != nil {
		return found
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget()
	b.nodes[addr] = cmp.Or(b.nodes[addr], b.newBreaker(addr))
	return b.nodes[addr]
}

// forget removes the breakers that are unused, because nodes come and go.
func (b *breakers) forget() {
	maps.DeleteFunc(b.nodes, func(_ string, node *breaker) bool { return node.isUnused() })
}
