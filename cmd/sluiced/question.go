package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
	"github.com/sluice-redis/sluice/policy/envoyfile"
)

// Bounds of a request.
const (
	maxDescriptors = 100
	maxEntries     = 50
	maxHits        = 1_000_000_000
)

// A malformed request is one that the service refuses. It is an INVALID_ARGUMENT.
type malformed struct{ text string }

func (e *malformed) Error() string { return e.text }

func malformedf(format string, args ...any) error { return &malformed{fmt.Sprintf(format, args...)} }

// how says how a limiter is asked about hits.
type how int

const (
	ask    how = iota // grant them, or charge nothing
	look              // nothing is charged
	report            // charge them whatever the windows hold
)

// mode says what a denial does.
type mode int

const (
	enforced mode = iota
	quota         // the call is denied only if all quotas are
	shadow        // nothing
)

// question is what one limiter is asked about one subject, for one descriptor or several with the same key.
type question struct {
	how
	mode
	limiter     loader.Limiter
	domain      string
	name        string // of the limit, for headers and metrics
	subject     string
	hits        int64
	limit       loader.Limit
	rule        *envoyfile.Rule // of their files
	descriptors []int

	answered bool
	decision loader.Decision
	err      error
}

// reporter is a limiter that can be told of hits.
type reporter interface {
	Report(ctx context.Context, subject string, n int64) (loader.Decision, error)
}

// call is one request: what is asked about it, and what comes of it.
type call struct {
	request   *ratelimitv3.RateLimitRequest
	questions []*question
	unlimited []bool // by descriptor
	refused   []bool // by descriptor: a policy refuses an empty key
	rules     []*envoyfile.Rule
	result    admit.Result
	denied    bool
	wait      time.Duration // of a denied call: the longest; Never if waiting does not help
}

// newCall finds what a request asks.
func (s *set) newCall(r *ratelimitv3.RateLimitRequest) (*call, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	n := len(r.Descriptors)
	c := &call{request: r, unlimited: make([]bool, n), refused: make([]bool, n), rules: make([]*envoyfile.Rule, n)}
	for i, d := range r.Descriptors {
		entries := make([]envoyfile.Entry, len(d.Entries))
		for j, e := range d.Entries {
			entries[j] = envoyfile.Entry{Key: e.Key, Value: e.Value}
		}
		if err := c.askTheirs(s.domains[r.Domain], i, d, entries); err != nil {
			return nil, err
		}
		if err := c.askOurs(s, i, d, entries); err != nil {
			return nil, err
		}
	}
	c.dropReplaced()
	return c, c.checkTogether()
}

// isUnmatched reports whether no limit is about the call.
func (c *call) isUnmatched() bool {
	return len(c.questions) == 0 && !slices.Contains(c.unlimited, true) && !slices.Contains(c.refused, true)
}

// checkTogether refuses limits that cannot be decided together, because one cannot give back what another denies.
func (c *call) checkTogether() error {
	together := slices.DeleteFunc(slices.Clone(c.questions), func(q *question) bool {
		return q.how != ask || q.mode != enforced
	})
	for _, q := range together {
		if _, gives := q.limiter.(loader.Returner); !gives && len(together) > 1 {
			return malformedf("limit %s has script gcra, which is decided by itself: want one descriptor that it is about", q.name)
		}
	}
	return nil
}

// check refuses a request that is malformed.
func check(r *ratelimitv3.RateLimitRequest) error {
	switch {
	case r.Domain == "":
		return malformedf("the domain is empty: want the domain of a file")
	case len(r.Descriptors) == 0:
		return malformedf("no descriptors: want at least one")
	case len(r.Descriptors) > maxDescriptors:
		return malformedf("%d descriptors: want at most %d", len(r.Descriptors), maxDescriptors)
	}
	for i, d := range r.Descriptors {
		switch {
		case len(d.GetEntries()) == 0:
			return malformedf("descriptor %d has no entries: want at least one", i)
		case len(d.Entries) > maxEntries:
			return malformedf("descriptor %d has %d entries: want at most %d", i, len(d.Entries), maxEntries)
		case d.IsNegativeHits:
			return malformedf("descriptor %d: is_negative_hits: what is taken out of a window without the decision that "+
				"put it there lets more through than the limit; how many run at once is for slots, which a program holds", i)
		case d.HitsAddend.GetValue() > maxHits:
			return malformedf("descriptor %d: hits_addend %d: want at most %d", i, d.HitsAddend.GetValue(), maxHits)
		}
		for _, e := range d.Entries {
			if e.GetKey() == "" {
				return malformedf("descriptor %d has an entry without a key", i)
			}
		}
	}
	return nil
}

// hitsOf returns the hits of a descriptor, and how they are asked about.
func (c *call) hitsOf(d *commonv3.RateLimitDescriptor) (int64, how) {
	switch {
	case d.HitsAddend == nil:
		return max(int64(c.request.HitsAddend), 1), ask
	case d.HitsAddend.Value == 0:
		return 0, look
	}
	return int64(d.HitsAddend.Value), report
}

// askTheirs asks about a descriptor by a file of envoyproxy/ratelimit.
func (c *call) askTheirs(in *domain, i int, d *commonv3.RateLimitDescriptor, entries []envoyfile.Entry) error {
	if in == nil {
		return nil
	}
	q := question{domain: in.file.Domain, descriptors: []int{i}}
	q.hits, q.how = c.hitsOf(d)
	key := []string(nil)
	if override := d.Limit; override != nil {
		unit, ok := unitOf(override.Unit)
		if !ok {
			return malformedf("descriptor %d: the limit has the unit %v: want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", i,
				override.Unit)
		}
		q.name, q.limiter = "override", in.ring(unit, override.RequestsPerUnit)
		q.limit = loader.Limit{Permits: min(int64(override.RequestsPerUnit), maxPermits), Window: unit.Window()}
		for _, e := range entries {
			key = append(key, e.Key, e.Value)
		}
	} else {
		rule := in.file.Find(entries)
		switch {
		case rule == nil:
			return nil
		case rule.Unlimited:
			c.unlimited[i], c.rules[i] = true, rule
			return nil
		case rule.Shadow:
			q.mode = shadow
		case rule.Quota:
			q.mode = quota
		}
		c.rules[i] = rule
		q.rule, q.limiter, q.name = rule, in.rules[rule], cmp.Or(rule.Name, rule.Label(entries))
		q.limit = loader.Limit{Permits: min(int64(rule.Requests), maxPermits), Window: rule.Unit.Window()}
		key = rule.Key(entries)
	}
	q.subject = httplimit.Subject(key...)
	c.add(q)
	return nil
}

var units = map[typev3.RateLimitUnit]envoyfile.Unit{
	typev3.RateLimitUnit_SECOND: envoyfile.Second, typev3.RateLimitUnit_MINUTE: envoyfile.Minute,
	typev3.RateLimitUnit_HOUR: envoyfile.Hour, typev3.RateLimitUnit_DAY: envoyfile.Day,
	typev3.RateLimitUnit_MONTH: envoyfile.Month, typev3.RateLimitUnit_YEAR: envoyfile.Year,
}

func unitOf(unit typev3.RateLimitUnit) (envoyfile.Unit, bool) {
	u, ok := units[unit]
	return u, ok
}

// askOurs asks about a descriptor by the policy files.
func (c *call) askOurs(s *set, i int, d *commonv3.RateLimitDescriptor, entries []envoyfile.Entry) error {
	if len(s.names) == 0 {
		return nil
	}
	about := policy.Descriptor{Domain: c.request.Domain, Entries: entries}
	kind := ask
	about.Hits, kind = c.hitsOf(d)
	for _, name := range s.names {
		found, err := s.policies[name].Find(policy.Attributes{Descriptor: &about})
		if err != nil {
			return fmt.Errorf("descriptor %d: %w", i, err)
		}
		for _, l := range found {
			m := l.Match
			if m.Refused {
				c.refused[i] = true
				continue
			}
			q := question{
				how: kind, limiter: l.Limiter, domain: about.Domain, name: m.Policy.Name, subject: m.Subject, hits: m.Cost,
				descriptors: []int{i},
			}
			if _, reports := l.Limiter.(reporter); kind == report && (m.Policy.Before || !reports) {
				q.how = ask
			}
			if m.Policy.Mode == policy.Shadow {
				q.mode = shadow
			}
			c.add(q)
		}
	}
	return nil
}

// add adds a question, to one about the same subject if there is one: then the smaller limit holds for the sum.
func (c *call) add(q question) {
	for _, other := range c.questions {
		if other.subject != q.subject || other.how != q.how || other.mode != q.mode || other.domain != q.domain ||
			admit.NameOf(other.limiter) != admit.NameOf(q.limiter) {
			continue
		}
		other.hits, other.descriptors = other.hits+q.hits, append(other.descriptors, q.descriptors...)
		if q.limit.Permits < other.limit.Permits {
			other.limiter, other.limit, other.name = q.limiter, q.limit, q.name
		}
		return
	}
	c.questions = append(c.questions, &q)
}

// dropReplaced drops the limits that others of the same request replace.
func (c *call) dropReplaced() {
	replaced := map[string]bool{}
	for _, rule := range c.rules {
		if rule != nil {
			for _, name := range rule.Replaces {
				replaced[name] = true
			}
		}
	}
	if len(replaced) == 0 {
		return
	}
	kept := c.questions[:0]
	for _, q := range c.questions {
		if q.rule == nil || q.rule.Name == "" || !replaced[q.rule.Name] {
			kept = append(kept, q)
		}
	}
	c.questions = kept
	for i, rule := range c.rules {
		if rule != nil && rule.Name != "" && replaced[rule.Name] {
			c.rules[i], c.unlimited[i] = nil, false
		}
	}
}

// decide asks all limiters. Those that are asked about enforced limits are charged together, all or none. A call that is
// denied is charged nothing but what was reported.
func (c *call) decide(ctx context.Context, limits *loader.Loader) error {
	var asks []*question
	var beside []*question // quotas, looks and reports
	for _, q := range c.questions {
		if q.how == ask && q.mode != quota {
			asks = append(asks, q)
		} else {
			beside = append(beside, q)
		}
	}
	var wg sync.WaitGroup
	for _, q := range beside {
		wg.Go(func() { q.ask(ctx) })
	}
	var a admit.Admission[bool] // of which calls that are denied after all do not count
	defer a.Release()
	c.admit(ctx, &a, limits, asks, len(beside) > 0)
	wg.Wait()
	c.result = a.Result
	return c.judge(ctx, &a, beside)
}

// admit asks the limiters that are asked together, and those in shadow.
func (c *call) admit(ctx context.Context, a *admit.Admission[bool], limits *loader.Loader, asks []*question, beside bool) {
	request := admit.Request[bool]{Limits: limits, Asks: make([]admit.Ask[bool], len(asks))}
	for i, q := range asks {
		request.Asks[i] = admit.Ask[bool]{
			Limiter: q.limiter, Subject: q.subject, N: q.hits, Name: q.name, Shadow: q.mode == shadow,
		}
		if beside {
			request.Asks[i].CountIf = func(granted bool) bool { return granted }
		}
	}
	a.Decide(ctx, request)
	for i := range a.Decisions {
		d := &a.Decisions[i]
		for _, q := range asks {
			if !q.answered && q.subject == d.Subject && q.name == d.Policy && (q.mode == shadow) == d.Shadow {
				q.decision, q.err = d.Decision, d.Err
				q.noteAnswer()
				break
			}
		}
	}
}

// ask asks one limiter by itself.
func (q *question) ask(ctx context.Context) {
	switch {
	case q.how == look:
		if q.decision, q.err = q.limiter.Peek(ctx, q.subject); q.err == nil {
			q.decision.Granted = q.decision.Remaining > 0
		}
	case q.how == report:
		q.decision, q.err = q.limiter.(reporter).Report(ctx, q.subject, q.hits)
	default:
		q.decision, q.err = q.limiter.AllowN(ctx, q.subject, q.hits)
	}
	q.noteAnswer()
}

// noteAnswer takes more hits than the limit for a denial that no wait ends.
func (q *question) noteAnswer() {
	if errors.Is(q.err, loader.ErrExceedsLimit) {
		q.decision.Wait, q.err = loader.Never, nil
	}
	q.answered = true
}

// judge decides about the call, and gives back what a denied one was granted.
func (c *call) judge(ctx context.Context, a *admit.Admission[bool], beside []*question) error {
	quotas, full := 0, 0
	err := error(nil)
	switch a.Outcome {
	case admit.Allowed:
	case admit.Denied:
		c.denied = true
	default:
		err = cmp.Or(a.Err, context.DeadlineExceeded)
	}
	for _, q := range beside {
		switch {
		case q.mode == shadow:
		case q.err != nil:
			err = errors.Join(err, q.err)
		case q.mode == quota:
			if quotas++; !q.decision.Granted {
				full++
			}
		case !q.decision.Granted:
			c.denied = true
		}
	}
	allFull := quotas > 0 && full == quotas
	c.denied = c.denied || allFull
	for _, refused := range c.refused {
		c.denied = c.denied || refused
	}
	for _, q := range c.questions {
		if q.denies() && (q.mode == enforced || allFull) {
			c.wait = max(c.wait, q.decision.Wait)
		}
	}
	if c.denied || err != nil {
		c.giveBack(context.WithoutCancel(ctx), a, beside)
	}
	if c.denied { // a denial is one, whatever else failed
		return nil
	}
	return err
}

// giveBack gives back what a call was granted that is denied by something else.
func (c *call) giveBack(ctx context.Context, a *admit.Admission[bool], beside []*question) {
	if a.Outcome == admit.Allowed {
		_ = a.Finish(ctx, false) // the observer is told of errors
	}
	for _, q := range beside {
		if limiter, ok := q.limiter.(loader.Returner); ok && q.how == ask && q.decision.Granted {
			_, _ = limiter.GiveBack(ctx, q.subject, q.decision, q.decision.Permits)
			q.decision.Granted, q.answered = false, false
		}
	}
}

// denies reports whether a limiter has denied.
func (q *question) denies() bool { return q.answered && q.err == nil && !q.decision.Granted }

// seconds returns a time in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	if d > math.MaxInt64-time.Second {
		return math.MaxInt64 / int64(time.Second)
	}
	return int64((d + time.Second - 1) / time.Second)
}
