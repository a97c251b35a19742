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

// ErrBreakerOpen is in the error of a call that was not sent, because the server did not answer the calls before it:
// see Breaker. Nothing was charged.
var ErrBreakerOpen = errors.New("breaker is open")

// Breaker stops sending calls to a server that does not answer. Use it with a policy, so that an outage costs callers
// no time. After this many failures in a row (1 or more) calls fail at once with ErrBreakerOpen, or the limiter's
// policy answers them. After the pause (above 0) one call is sent: if the server answers it, all are sent again; if
// not, the next pause begins.
//
// A failure is a connection that is lost or cannot be made, a reply that does not come before the deadline or Timeout,
// or a reply that the server gives to every caller (LOADING, BUSY, CLUSTERDOWN, MASTERDOWN, MAXCLIENTS). Every other
// reply is a success. A cancelled call is neither. Each attempt of each decision counts.
//
// Every node of a cluster and of a Ring has its own breaker, which all limiters of a Loader share. While a
// ClusterClient does not know its nodes yet, only the timeout bounds the calls. Cost: one allocation, about 300 ns and
// two short locks a call.
func Breaker(failures int, pause time.Duration) Option {
	return func(l options) {
		if failures < 1 || pause <= 0 {
			l.setErr(&ArgumentError{
				Argument: "Breaker", Value: fmt.Sprintf("%d, %v", failures, pause), Want: "1 failure or more, and a pause above 0",
			})
			return
		}
		b := &breakers{limits: l.Loader, nodes: map[string]*breaker{}, changes: make(chan change, maxUnlogged)}
		b.settings = gobreaker.Settings{
			Timeout:     pause,
			ReadyToTrip: func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= failures },
			IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) || err == errNoOutcome },
		}
		l.breakers = b
	}
}

// breaker is the breaker of one node. A two-step breaker does not use its type parameter.
type breaker struct {
	*gobreaker.TwoStepCircuitBreaker[struct{}]
	failure atomic.Pointer[error] // the last one; set before the breaker opens
}

// newBreaker makes a closed breaker. Its changes are logged later: OnStateChange is called under its lock, where no
// handler of the caller may run.
func (b *breakers) newBreaker(addr string) *breaker {
	made, settings := &breaker{}, b.settings
	settings.Name = cmp.Or(addr, addrOf(b.limits.rdb))
	settings.IsSuccessful = func(err error) bool {
		if isAnswer(err) {
			return true
		}
		made.failure.Store(&err)
		return false
	}
	settings.OnStateChange = func(_ string, _, to gobreaker.State) {
		select {
		case b.changes <- change{made, to}:
		default:
		}
	}
	made.TwoStepCircuitBreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](settings)
	return made
}

// breakers holds the breaker of each node of a client.
type breakers struct {
	limits   *Loader
	settings gobreaker.Settings
	changes  chan change // that are not logged yet

	mu    sync.RWMutex
	nodes map[string]*breaker // by address
}

// maxUnlogged is how many changes can wait until they are logged, right after the call that made them.
const maxUnlogged = 256

// change is a new state of a node's breaker.
type change struct {
	*breaker
	to gobreaker.State
}

// errNoOutcome is the outcome of an attempt that panicked.
var errNoOutcome = errors.New("no outcome")

// admit asks the breaker of the call's node, and returns the function that takes the attempt's outcome.
func (c *call) admit(ctx context.Context) (report func(error), err error) {
	b := c.limits.breakers
	if b == nil {
		return unreported, nil
	}
	node, err := c.limits.nodeOf(ctx, c.key())
	if err != nil {
		return nil, err
	}
	of := b.of(node)
	report, err = of.Allow() // its change is logged with the outcome: a handler that panics must not lose the report
	if err != nil {
		return nil, fmt.Errorf("%w: the last failure: %v", ErrBreakerOpen, *of.failure.Load())
	}
	return report, nil
}

func unreported(error) {}

// of returns the breaker of a node; nil stands for the only node of a client.
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
		b.nodes[addr] = b.newBreaker(addr)
	}
	return b.nodes[addr]
}

// logChanges logs the changes of state.
func (b *breakers) logChanges() {
	for b != nil {
		select {
		case c := <-b.changes:
			level, attrs := slog.LevelInfo, []slog.Attr{slog.String("node", c.Name())}
			if c.to == gobreaker.StateOpen {
				level, attrs = slog.LevelWarn, append(attrs, slog.Any("error", *c.failure.Load()))
			}
			b.limits.eventLog.log(context.Background(), level, "breaker "+c.to.String(), c.Name(), attrs...)
		default:
			return
		}
	}
}
