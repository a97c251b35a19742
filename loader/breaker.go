package loader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"
)

// ErrBreakerOpen is in the error of a call that was not sent, because the server has not answered those before:
// see Breaker. Nothing was charged for it.
var ErrBreakerOpen = errors.New("breaker is open")

// Breaker keeps calls from a server that does not answer. After so many failures in a row, 1 or more, calls fail
// at once with ErrBreakerOpen, or are answered by the limiter's policy. Once the pause, above 0, is over one call
// tries: if the server answers it, all may, else the next pause begins.
//
// A failure is a connection that is lost or cannot be made, a reply that does not come before the deadline or
// Timeout, and a server that says it can answer nobody (LOADING, BUSY, CLUSTERDOWN, MASTERDOWN, MAXCLIENTS). Every
// other reply is a success: a full or read-only server still answers looks and denials. A cancelled call is
// neither. Each attempt of each decision counts, those of a Batch and a shared round trip too.
//
// Every node of a cluster and a Ring has its own breaker, so one that is down closes nobody's way to the others. The
// limiters of this Loader share them. Looks that ReadReplicas sends to replicas pass. Cost: one allocation and about
// 300 ns a call, with two short locks of the node's. A ClusterClient that does not know its nodes yet is asked for them
// first; until one of its seeds answers, the calls are bounded by their timeout alone.
func Breaker(failures int, pause time.Duration) Option {
	return func(l *Loader) {
		if failures < 1 || pause <= 0 {
			l.fail(&ArgumentError{
				Argument: "Breaker", Value: fmt.Sprintf("%d, %v", failures, pause), Want: "1 failure or more, and a pause above 0",
			})
			return
		}
		b := &breakers{limits: l, nodes: map[string]*breaker{}}
		b.settings = gobreaker.Settings{
			Timeout:       pause,
			ReadyToTrip:   func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= failures },
			IsSuccessful:  isAnswer,
			OnStateChange: b.changed,
			IsExcluded:    func(err error) bool { return errors.Is(err, context.Canceled) || err == errNoOutcome },
		}
		l.breakers = b
	}
}

// breaker is that of one node. Its type parameter means nothing in two steps.
type breaker = gobreaker.TwoStepCircuitBreaker[struct{}]

// breakers are those of the nodes of one client.
type breakers struct {
	limits   *Loader
	settings gobreaker.Settings

	mu    sync.RWMutex
	nodes map[string]*breaker // by address

	unlogged atomic.Bool // there are changes
	changeMu sync.Mutex
	changes  []change // that are not logged yet
}

// change is that of a node's breaker to another state.
type change struct {
	node string
	to   gobreaker.State
}

// errNoOutcome is what became of an attempt that a panic has ended.
var errNoOutcome = errors.New("no outcome")

// admit asks the breaker of the call's node, and returns to whom to report what became of the attempt.
func (c *call) admit(ctx context.Context) (report func(error), err error) {
	b := c.limits.breakers
	if b == nil || c.readOnly() {
		return unreported, nil
	}
	node, err := c.limits.nodeOf(ctx, c.key())
	if err != nil {
		return nil, err
	}
	report, err = b.of(node).Allow()
	b.log()
	if err != nil {
		return nil, ErrBreakerOpen
	}
	return report, nil
}

func unreported(error) {}

// admitted asks for each entry of a batch, and returns those that may be sent.
func (l *Loader) admitted(ctx context.Context, entries []*entry) []*entry {
	if l.breakers == nil {
		return entries
	}
	for _, e := range entries {
		report, err := e.call.admit(ctx)
		if err != nil {
			e.settle(e.call.unknown(err))
		}
		e.report, e.outcome = report, errNoOutcome
	}
	return unsettled(entries)
}

// of is the breaker of a node, nil being the only one.
func (b *breakers) of(node *redis.Client) *breaker {
	addr := ""
	if node != nil {
		addr = node.Options().Addr
	}
	b.mu.RLock()
	found := b.nodes[addr]
	b.mu.RUnlock()
	if found != nil {
		return found
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.nodes[addr] == nil {
		settings := b.settings
		settings.Name = cmp.Or(addr, addrOf(b.limits.rdb))
		b.nodes[addr] = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	}
	return b.nodes[addr]
}

// changed notes that a node's breaker has opened, half opened or closed. It is called under the breaker's lock, where
// no handler of the caller's may run.
func (b *breakers) changed(node string, _, to gobreaker.State) {
	b.changeMu.Lock()
	defer b.changeMu.Unlock()
	b.changes = append(b.changes, change{node, to})
	b.unlogged.Store(true)
}

// log logs what has changed.
func (b *breakers) log() {
	if b == nil || !b.unlogged.Load() {
		return
	}
	b.changeMu.Lock()
	changes := b.changes
	b.changes = nil
	b.unlogged.Store(false)
	b.changeMu.Unlock()
	for _, c := range changes {
		level := slog.LevelInfo
		if c.to == gobreaker.StateOpen {
			level = slog.LevelWarn
		}
		b.limits.journal.log(context.Background(), level, "breaker "+c.to.String(), c.node, slog.String("node", c.node))
	}
}

// isAnswer reports whether the outcome of an attempt shows a server that can answer.
func isAnswer(err error) bool {
	return err == nil || isReply(err) && !answersNobody(codeOf(err))
}

// answersNobody reports whether the code of an error reply is that of a server that is up and of no use to anyone.
func answersNobody(code string) bool {
	switch code {
	case "LOADING", "BUSY", "CLUSTERDOWN", "MASTERDOWN", "MAXCLIENTS":
		return true
	}
	return false
}
