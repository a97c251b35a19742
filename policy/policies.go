package policy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/internal/rarelog"
	"github.com/sluice-redis/sluice/internal/watch"
	"github.com/sluice-redis/sluice/loader"
)

// Policies applies the limits of a file. Load makes it. It is safe for concurrent use.
type Policies struct {
	limits    *loader.Loader
	path      string
	every     time.Duration
	logger    *slog.Logger
	observers []func(context.Context, Decision, error)

	log     *rarelog.Log // why policies cannot be applied
	watcher *watch.Watcher

	current  atomic.Pointer[set]
	stop     chan struct{}
	stopOnce sync.Once
	stopped  sync.WaitGroup
}

// Option is an option of Load. Nil does nothing.
type Option func(*Policies)

// Observe sets a function that is told of every decision: of Decide, of the middleware and of the interceptors. Use it
// for logs, and for metrics by policy. It delays the caller. It may be given several times: all of the functions are
// told, in their order.
func Observe(observe func(ctx context.Context, d Decision, err error)) Option {
	return func(p *Policies) {
		if observe != nil {
			p.observers = append(p.observers, observe)
		}
	}
}

func (p *Policies) observed(ctx context.Context, d Decision, err error) {
	for _, observe := range p.observers {
		observe(ctx, d, err)
	}
}

// Logger sets where it is logged that the file was read again, that what it says now is wrong, and, once a minute for
// each word of a policy, why it cannot be applied to calls: the application does not pass an attribute, say. The
// default is slog.Default().
func Logger(logger *slog.Logger) Option {
	return func(p *Policies) { p.logger = logger }
}

// ReloadEvery sets how often the file is looked at: every second by default, never if it is 0. See Load.
func ReloadEvery(d time.Duration) Option {
	return func(p *Policies) { p.every = d }
}

// Load reads a policy file, a regular file of at most 1 MiB, and makes its limiters. Its error is Mistakes if the file
// is wrong.
//
//	policies, err := policy.Load(limits, "limits.yaml")
//	http.Handle("/", policies.Middleware(nil).Handler(handler))
//
// From then on the file is looked at every second, however it is replaced: written, renamed, or behind a link as in a
// volume of Kubernetes. A change is applied when two looks in a row have found the same text, so that a half written
// file is not. If the new file is wrong, the old limits stay, and the mistakes are logged. What subjects were granted
// stays counted where the name of a limit and its script stay. Close
// ends it.
//
// Cost: nothing is sent; a read of the file every second.
func Load(limits *loader.Loader, path string, opts ...Option) (*Policies, error) {
	p, err := makePolicies(limits, opts)
	if err != nil {
		return nil, err
	}
	p.path = path
	if err := p.Reload(); err != nil {
		return nil, err
	}
	if p.every > 0 {
		p.stopped.Go(func() { p.watcher.Run(p.stop, p.every, p.logReload) })
	}
	return p, nil
}

// New applies a file that was read already, and does not look at it again: Replace changes the limits.
func New(limits *loader.Loader, file *File, opts ...Option) (*Policies, error) {
	p, err := makePolicies(limits, opts)
	if err != nil {
		return nil, err
	}
	if file != nil {
		p.path = file.name
	}
	if err := p.Replace(file); err != nil {
		return nil, err
	}
	return p, nil
}

func makePolicies(limits *loader.Loader, opts []Option) (*Policies, error) {
	p := &Policies{limits: limits, every: time.Second, stop: make(chan struct{})}
	for _, opt := range opts {
		if opt != nil {
			opt(p)
		}
	}
	if limits == nil {
		return nil, errors.New("policy: the Loader is nil")
	}
	if p.logger == nil {
		p.logger = slog.Default()
	}
	p.log, p.watcher = rarelog.New(p.logger), watch.New(p.read, p.apply)
	return p, nil
}

// Replace applies another file. Limits that stay the same keep what they know in this process. If one of the file's
// limiters is wrong, the old limits stay.
func (p *Policies) Replace(file *File) error {
	if file == nil {
		return errors.New("policy: the File is nil")
	}
	next, err := p.newSet(file)
	if err == nil {
		old := p.current.Swap(next)
		p.log.Reset() // what is wrong with the new file is logged at once
		p.stopped.Go(func() {
			if err := old.closeAheads(next); err != nil {
				p.logger.Error("permits granted ahead of Redis are not counted", "file", p.path, "error", err)
			}
		})
	}
	return err
}

// File returns the file as it is applied now.
func (p *Policies) File() *File { return p.current.Load().file }

// Loader returns the Loader of the limiters.
func (p *Policies) Loader() *loader.Loader { return p.limits }

// Close ends the reading of the file. The limits stay as they are, but none is ahead of Redis any more: what was
// granted ahead is reported, within 5 s. Its error says what is not. Cost: one round trip for up to 4096 subjects.
func (p *Policies) Close() error {
	if p.stop != nil { // nil: nobody made p
		p.stopOnce.Do(func() { close(p.stop) })
	}
	p.stopped.Wait()
	return p.current.Load().closeAheads(nil)
}

// Reload reads the file now, whether or not it has changed, as at a signal. If the file is wrong, the old limits stay.
func (p *Policies) Reload() error { return p.watcher.Apply() }

func (p *Policies) read() watch.Content {
	src, err := watch.ReadFile(p.path)
	if err != nil {
		return watch.Content{Err: fmt.Errorf("policy: %w", err)}
	}
	return watch.Content{Files: map[string][]byte{p.path: src}}
}

func (p *Policies) apply(files map[string][]byte) error {
	file, err := Parse(p.path, files[p.path])
	if err != nil {
		return err
	}
	return p.Replace(file)
}

// logReload logs what became of a change of the file.
func (p *Policies) logReload(err error) {
	if err != nil {
		p.logger.Error("policy file is wrong: the limits stay as they were", "file", p.path, "error", err)
		return
	}
	p.logger.Info("policy file applied", "file", p.path, "limits", len(p.File().Policies))
}

// set is a file with its limiters.
type set struct {
	file     *File
	limiters [][]loader.Limiter // of each policy: for each plan, or one, then for each override
	makers   []func([]loader.Limit) loader.Limiter
	bans     []loader.Limiter // of refusals by each policy; nil without
	query    bool             // an expression asks for the query
	cookie   bool
}

// newSet makes the limiters of a file. Those that stay the same are the old ones, with what they know in this process.
func (p *Policies) newSet(file *File) (*set, error) {
	s := &set{file: file, limiters: make([][]loader.Limiter, len(file.Policies)),
		makers: make([]func([]loader.Limit) loader.Limiter, len(file.Policies)),
		bans:   make([]loader.Limiter, len(file.Policies))}
	old := p.current.Load()
	errs := []error{file.clientsErr}
	for i, policy := range file.Policies {
		s.query = s.query || policy.uses("request.query")
		s.cookie = s.cookie || policy.uses("request.cookie")
		s.limiters[i], s.makers[i] = old.limitersOf(policy)
		if s.limiters[i] == nil {
			s.limiters[i], s.makers[i] = policy.newLimiters(p.limits)
		}
		s.bans[i] = policy.BanLimiter(p.limits)
		for _, o := range policy.Overrides { // Redis decides these, also if the others are ahead of it
			s.limiters[i] = append(s.limiters[i], s.makers[i](o.Rates))
		}
		for _, limiter := range append(slices.Clone(s.limiters[i]), s.bans[i]) {
			if limiter == nil {
				continue
			}
			if err := limiter.Check(); err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", p.path, policy.Line, err))
			}
		}
	}
	return s, errors.Join(errs...)
}

// limitersOf returns the limiters of an equal policy, without those of its overrides, and their maker; nil if there is
// none.
func (s *set) limitersOf(policy *Policy) ([]loader.Limiter, func([]loader.Limit) loader.Limiter) {
	if s == nil {
		return nil, nil
	}
	i := slices.IndexFunc(s.file.Policies, func(old *Policy) bool {
		return old.Name == policy.Name && old.Script == policy.Script && old.Fail == policy.Fail &&
			old.Ahead == policy.Ahead &&
			old.Zone.String() == policy.Zone.String() && slices.Equal(old.Rates, policy.Rates) && reflect.DeepEqual(old.Plans, policy.Plans)
	})
	if i < 0 {
		return nil, nil
	}
	return slices.Clone(s.limiters[i][:max(len(policy.Plans), 1)]), s.makers[i]
}

// newLimiters makes the limiters of a policy, one for each plan, and returns the maker of those that are not ahead. Of
// no rates the limiter is nil.
func (p *Policy) newLimiters(limits *loader.Loader) (
	limiters []loader.Limiter, with func([]loader.Limit) loader.Limiter,
) {
	declare := p.limiters(limits)
	declared := func(rates []loader.Limit) loader.Limiter {
		if len(rates) == 0 { // a plan or an override without rates of this kind
			return nil
		}
		return declare(rates)
	}
	for _, plan := range p.plans() {
		limiters = append(limiters, p.goAhead(declared(plan.Rates)))
	}
	for _, limiter := range limiters {
		if ahead, ok := limiter.(*loader.Ahead); ok { // its SliceRing lowers the rates, if it is strict
			direct := ahead.Direct()
			return limiters, func(rates []loader.Limit) loader.Limiter { return direct.With(rates...) }
		}
	}
	return limiters, declared
}

// goAhead returns the limiter that is ahead of Redis, where the file says so. A plan that allows nothing needs none.
func (p *Policy) goAhead(limiter loader.Limiter) loader.Limiter {
	if ring, ok := limiter.(loader.SliceRing); ok && p.Ahead.Processes > 0 {
		if ahead, err := ring.Ahead(p.Ahead); err == nil {
			return ahead
		}
	}
	return limiter
}

// aheadTime is how long limiters that are ahead of Redis have to report the rest.
const aheadTime = 5 * time.Second

// closeAheads has the limiters that the next set does not use report what Redis does not know.
func (s *set) closeAheads(next *set) (err error) {
	if s == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), aheadTime)
	defer cancel()
	for _, limiter := range slices.Concat(s.limiters...) {
		ahead, ok := limiter.(*loader.Ahead)
		if ok && !(next != nil && slices.Contains(slices.Concat(next.limiters...), limiter)) {
			err = errors.Join(err, ahead.Close(ctx))
		}
	}
	return err
}
