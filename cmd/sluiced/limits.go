package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/internal/clientaddr"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// limits is what the files say, as it is applied now.
type limits struct {
	loader     *loader.Loader       // of calls by gRPC and JSON
	authLoader *loader.Loader       // of forward auth, whose callers wait longer
	fail       loader.LimiterOption // of Envoy files; nil: closed
	opts       []policy.Option
	headers    headers
	metrics    *metrics
	log        *slog.Logger

	mu      sync.Mutex // of apply
	current atomic.Pointer[set]
	closing sync.WaitGroup // of sets before
}

// set is one version of the files, with their limiters.
type set struct {
	domains  map[string]*domain
	policies policies // for descriptors
	requests policies // for forward auth
	auth     map[string]authFile
	names    []string      // of policies, in their order
	delay    time.Duration // the longest for which a policy holds a request
}

// policies are applied policy files, by the names of the files.
type policies map[string]*policy.Policies

// domain is a file of envoyproxy/ratelimit with a ring for each unit, of which rules have copies with another limit.
type domain struct {
	file  *envoyfile.File
	rings map[envoyfile.Unit]loader.SliceRing
	rules map[*envoyfile.Rule]ring
}

// ring is the limiter of so many requests in a unit.
type ring struct {
	limiter loader.Limiter
	rate    loader.Limit
	name    string // of the rule
}

// apply makes the limiters of files. Policies of a name that was there keep theirs where they are equal.
func (l *limits) apply(read files) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &set{domains: map[string]*domain{}, auth: map[string]authFile{}}
	next.names = slices.Sorted(maps.Keys(read.policies))
	for _, file := range read.envoy {
		next.domains[file.Domain] = l.newDomain(file)
	}
	var err, errOfAuth error
	next.policies, err = newPolicies(l.loader, read.policies, func(string) []policy.Option { return l.opts })
	next.requests, errOfAuth = newPolicies(l.authLoader, read.policies, func(name string) []policy.Option {
		return append(slices.Clone(l.opts), policy.Observe(l.metrics.decidedAuth(name)))
	})
	if err := cmp.Or(err, errOfAuth); err != nil {
		return err
	}
	if old := l.current.Load(); old != nil { // what could fail has not
		next.policies.keep(old.policies, read.policies)
		next.requests.keep(old.requests, read.policies)
	}
	for name, policies := range next.requests {
		for _, p := range policies.File().Policies {
			next.delay = max(next.delay, p.Delay)
		}
		proxies := &clientaddr.Finder{}
		_ = proxies.TrustXForwardedFor(policies.File().Proxies...) // without one: none is trusted
		for prefix, status := range denialStatus {
			next.auth[prefix+"/"+name] = authFile{l.newAuth(status, policies), proxies}
		}
	}
	l.metrics.apply(read)
	if old := l.current.Swap(next); old != nil {
		l.closing.Go(func() { l.closeSet(old, next) })
	}
	return nil
}

// closeSet ends the policies of a set that the next one does not have.
func (l *limits) closeSet(old, next *set) {
	if err := errors.Join(old.policies.close(next.policies), old.requests.close(next.requests)); err != nil {
		l.log.Error("permits granted ahead of Redis are not counted", "error", err)
	}
}

// close ends all policies, those of sets before too, and waits for what is given back.
func (l *limits) close(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.current.Load(); last != nil {
		l.closeSet(last, &set{})
	}
	l.closing.Wait()
	_ = l.loader.Flush(ctx)
	_ = l.authLoader.Flush(ctx)
}

// close ends the policies that next does not have, and so reports what they granted ahead of Redis.
func (p policies) close(next policies) error {
	var errs []error
	for name, policies := range p {
		if next[name] != policies {
			errs = append(errs, policies.Close())
		}
	}
	return errors.Join(errs...)
}

func newPolicies(
	on *loader.Loader, files map[string]*policy.File, opts func(name string) []policy.Option,
) (made policies, err error) {
	made = policies{}
	var errs []error
	for name, file := range files {
		made[name], err = policy.New(on, file, opts(name)...)
		errs = append(errs, err)
	}
	return made, errors.Join(errs...)
}

// keep takes the policies that were there, with their new files: they know what this process has counted.
func (p policies) keep(old policies, files map[string]*policy.File) {
	for name := range p {
		if before := old[name]; before != nil && before.Replace(files[name]) == nil {
			p[name] = before
		}
	}
}

// survives reports whether any limit is decided without Redis.
func (l *limits) survives() bool {
	for _, policies := range l.current.Load().policies {
		for _, p := range policies.File().Policies {
			if p.Fail.Open || p.Fail.Local > 0 {
				return true
			}
		}
	}
	return l.fail != nil
}

func (l *limits) newDomain(file *envoyfile.File) *domain {
	d := &domain{file: file, rings: map[envoyfile.Unit]loader.SliceRing{}, rules: map[*envoyfile.Rule]ring{}}
	for unit := envoyfile.Second; unit <= envoyfile.Year; unit++ {
		opts := []loader.LimiterOption{loader.Slice(sliceOfUnit(unit.Window()))}
		if l.fail != nil {
			opts = append(opts, l.fail)
		}
		name := fmt.Sprintf("envoy/%s/%s", nameOf(file.Domain), unit)
		d.rings[unit] = l.loader.SliceRing(name, []loader.Limit{{Permits: 1, Window: unit.Window()}}, opts...)
	}
	for _, rule := range file.Rules {
		if !rule.Unlimited {
			made := d.ring(rule.Unit, rule.Requests)
			made.name = nameOfRule(rule)
			d.rules[rule] = made
		}
	}
	return d
}

func (d *domain) ring(unit envoyfile.Unit, requests uint32) ring {
	rate := loader.Limit{Permits: min(int64(requests), maxPermits), Window: unit.Window()}
	return ring{limiter: d.rings[unit].With(rate), rate: rate}
}

// sliceOfUnit returns the length of the slices of a unit: a 250th, so that permits count for up to 0.4 % longer than
// the window, but at most a day, of which a year has 365.
func sliceOfUnit(window time.Duration) time.Duration { return min(window/250, 24*time.Hour) }

var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// nameOf is a domain in the name of a limiter: a hash of what a name may not have.
func nameOf(domain string) string {
	if plainName.MatchString(domain) {
		return domain
	}
	sum := sha256.Sum256([]byte(domain))
	return "~" + hex.EncodeToString(sum[:16])
}
