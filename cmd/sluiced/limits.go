package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// limits is what the files say, as it is applied now.
type limits struct {
	loader     *loader.Loader       // of calls by gRPC and JSON
	authLoader *loader.Loader       // of forward auth, whose callers wait longer
	fail       loader.LimiterOption // of their files; nil: closed
	opts       []policy.Option
	headers    httplimit.HeaderSet
	metrics    *metrics

	mu      sync.Mutex // of apply
	current atomic.Pointer[set]
}

// set is one version of the files, with their limiters.
type set struct {
	domains  map[string]*domain
	policies policies // for descriptors
	requests policies // for forward auth
	auth     map[string]http.Handler
	names    []string // of policies, in their order
}

// policies are those of policy files, by the names of the files.
type policies map[string]*policy.Policies

// domain is a file of envoyproxy/ratelimit with a ring for each unit, of which rules are copies with another limit.
type domain struct {
	file  *envoyfile.File
	rings map[envoyfile.Unit]loader.SliceRing
	rules map[*envoyfile.Rule]loader.SliceRing
}

// apply makes the limiters of files. Policies of a name that was there keep theirs where they are equal.
func (l *limits) apply(read files) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := &set{domains: map[string]*domain{}, auth: map[string]http.Handler{}}
	next.names = slices.Sorted(maps.Keys(read.ours))
	for _, file := range read.theirs {
		next.domains[file.Domain] = l.newDomain(file)
	}
	var err, errOfAuth error
	next.policies, err = newPolicies(l.loader, read.ours, func(string) []policy.Option { return l.opts })
	next.requests, errOfAuth = newPolicies(l.authLoader, read.ours, func(name string) []policy.Option {
		return append(slices.Clone(l.opts), policy.Observe(l.metrics.decidedAuth("auth/"+name)))
	})
	if err := cmp.Or(err, errOfAuth); err != nil {
		return err
	}
	if old := l.current.Load(); old != nil { // what could fail has not
		next.policies.keep(old.policies, read.ours)
		next.requests.keep(old.requests, read.ours)
	}
	for name, policies := range next.requests {
		for prefix, status := range denialStatus {
			next.auth[prefix+"/"+name] = l.newAuth(status, policies)
		}
	}
	if old := l.current.Swap(next); old != nil {
		go func() { _ = errors.Join(old.policies.close(next.policies), old.requests.close(next.requests)) }()
	}
	return nil
}

// close ends the policies that are not kept, and so reports what they granted ahead of Redis.
func (p policies) close(kept policies) error {
	var errs []error
	for name, policies := range p {
		if kept[name] != policies {
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
		if kept := old[name]; kept != nil && kept.Replace(files[name]) == nil {
			p[name] = kept
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
	d := &domain{file: file, rings: map[envoyfile.Unit]loader.SliceRing{}, rules: map[*envoyfile.Rule]loader.SliceRing{}}
	for unit := envoyfile.Second; unit <= envoyfile.Year; unit++ {
		opts := []loader.LimiterOption{loader.Slice(sliceOf(unit.Window()))}
		if l.fail != nil {
			opts = append(opts, l.fail)
		}
		name := fmt.Sprintf("envoy/%s/%s", nameOf(file.Domain), unit)
		d.rings[unit] = l.loader.SliceRing(name, []loader.Limit{{Permits: 1, Window: unit.Window()}}, opts...)
	}
	for _, rule := range file.Rules {
		if !rule.Unlimited {
			d.rules[rule] = d.ring(rule.Unit, rule.Requests)
		}
	}
	return d
}

// ring returns the limiter of so many requests in a unit.
func (d *domain) ring(unit envoyfile.Unit, requests uint32) loader.SliceRing {
	return d.rings[unit].With(loader.Limit{Permits: min(int64(requests), maxPermits), Window: unit.Window()})
}

// sliceOf returns the length of the slices of a window: a 250th, so that permits count for up to 0.4 % longer than the
// window, but at most a day, of which a year has 365.
func sliceOf(window time.Duration) time.Duration { return min(window/250, 24*time.Hour) }

var plainName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// nameOf is a domain in the name of a limiter: a hash of what a name may not have.
func nameOf(domain string) string {
	if plainName.MatchString(domain) {
		return domain
	}
	sum := sha256.Sum256([]byte(domain))
	return "~" + hex.EncodeToString(sum[:16])
}
