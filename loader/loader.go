package loader

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/loader/internal/together"
	"github.com/sluice-redis/sluice/loader/internal/wire"
)

// Loader makes limiters and runs scripts on one Redis. New makes it. It is safe for concurrent use.
type Loader struct {
	client     *together.Client
	prefix     string
	clientID   string
	observer   Observer     // nil: no Observe
	log        *rarelog.Log // nil: no Logger
	err        error        // what is wrong with the options: the error of every call
	returns    background
	slotQueues slotQueues

	timeout         time.Duration // of one call
	fallbackTimeout time.Duration // of one call of a limiter with a fallback
}

// The timeouts of a call without the option Timeout.
const (
	defaultTimeout         = time.Second
	defaultFallbackTimeout = 100 * time.Millisecond // of limiters with a fallback
)

// New returns a Loader on rdb: a *redis.Client, a *redis.ClusterClient, a *redis.Ring, or a wrapper of one of them. It
// sends nothing: scripts are loaded when they are first needed. It does not close rdb. If rdb is nil, every call
// returns an *ArgumentError.
//
// Give a wrapper such as struct{ redis.UniversalClient } the method Unwrap() redis.UniversalClient. The loader then
// finds the nodes behind it, also through several wrappers. It loads scripts directly on the nodes of a Ring and of a
// ClusterClient; everything else goes through the wrapper. Without Unwrap decisions still work, but Preload
// returns an error, a Breaker is one for all nodes, and a missing script may take one more round trip, with its source.
func New(rdb redis.UniversalClient, opts ...Option) *Loader {
	o := options{Loader: &Loader{prefix: "sluice", clientID: newID()}, unshared: new(bool), given: map[string]bool{},
		wire: &wire.Options{Redis: rdb, Breaker: &wire.BreakerOptions{Failures: 5, Pause: 250 * time.Millisecond}}}
	if wire.IsNil(rdb) {
		const want = "a redis.Client, ClusterClient, Ring or what wraps one"
		o.setErr(&ArgumentError{Argument: "client", Value: "nil", Want: want})
		o.wire.Redis = nil
	}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	l := o.Loader
	l.fallbackTimeout = cmp.Or(l.timeout, defaultFallbackTimeout)
	l.timeout = cmp.Or(l.timeout, defaultTimeout)
	o.wire.Timeouts, o.wire.Log = []time.Duration{l.timeout, l.fallbackTimeout}, l.log
	l.client = together.New(*o.wire, !*o.unshared)
	return l
}

// Preload loads all scripts on every node, or with Functions the libraries of functions, unless a node has their very
// bytes. Use it with PreloadedOnly, or to save the first callers a round trip. If a node fails it goes on with the
// others; the error joins a *NodeError for each that failed. A client that hides its nodes is an error, and nothing is
// loaded: see New. Cost: one round trip for each script on each node; for a library two, and 3 ms of the server.
func (l *Loader) Preload(ctx context.Context) error {
	if l.err != nil {
		return l.err
	}
	loadings, err := l.client.Preload(wire.NotNil(ctx))
	if err != nil {
		return err
	}
	errs := make([]error, len(loadings))
	for i, loading := range loadings {
		if loading.Err != nil {
			errs[i] = &NodeError{Addr: loading.Addr, Err: loading.Err}
		}
	}
	return errors.Join(errs...)
}

// OpenBreakers returns the servers that are not asked, because they answer nobody, and for how long each has been
// silent: see Breaker. It sends nothing, so a server is in it until a call is answered, or until no call has been for
// it for a minute longer than a pause: a node that has left a Cluster or Ring.
func (l *Loader) OpenBreakers() map[string]time.Duration {
	if l.err != nil {
		return nil
	}
	return l.client.OpenBreakers()
}

// newID returns 22 characters, of 128 random bits.
func newID() string {
	var bits [16]byte
	var id [22]byte
	_, _ = rand.Read(bits[:]) // never fails
	base64.RawURLEncoding.Encode(id[:], bits[:])
	return string(id[:])
}

// Option is an option of New, given once, but for Observe. Nil does nothing.
type Option func(options)

// options is a Loader that New makes: no Option applies to one in use.
type options struct {
	*Loader
	wire     *wire.Options
	unshared *bool           // WithoutSharing
	given    map[string]bool // the options that a second one would replace
}

// once sets an error if the option was given before: only one of them could hold.
func (o options) once(option string) {
	if o.given[option] {
		o.setErr(&ArgumentError{Argument: option, Value: "twice", Want: "each option once"})
	}
	o.given[option] = true
}

// setErr keeps the first error of the options.
func (l *Loader) setErr(err error) {
	if l.err == nil {
		l.err = err
	}
}
