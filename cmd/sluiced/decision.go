package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/sluice-redis/sluice/admission"
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

// decision is one request: what its limits are asked, and what comes of it.
type decision struct {
	admit.Request
	asked     *ratelimitv3.RateLimitRequest
	limits    []limit // of the Charges, at the same index
	unlimited []bool  // by descriptor
	refused   []bool  // by descriptor: a policy refuses an empty key
	rules     []*envoyfile.Rule
	replaces  bool // a rule replaces others
}

// limit is what a charge is about: one descriptor, or several with the same key.
type limit struct {
	domain      string          // of an Envoy file, or the name of the policy file
	rule        *envoyfile.Rule // of an Envoy file
	name        string          // of the rule, without a value of the request
	rate        loader.Limit    // of an Envoy file
	descriptors []int
}

// newDecision finds what a request is charged.
func (s *set) newDecision(r *ratelimitv3.RateLimitRequest) (*decision, error) {
	if err := check(r); err != nil {
		return nil, err
	}
	n := len(r.Descriptors)
	d := &decision{asked: r, unlimited: make([]bool, n), refused: make([]bool, n), rules: make([]*envoyfile.Rule, n)}
	for i, descriptor := range r.Descriptors {
		entries := make([]envoyfile.Entry, len(descriptor.Entries))
		for j, e := range descriptor.Entries {
			entries[j] = envoyfile.Entry{Key: e.Key, Value: e.Value}
		}
		if in := s.domains[r.Domain]; in != nil {
			if err := d.chargeByEnvoy(in, i, entries); err != nil {
				return nil, err
			}
		}
		if len(s.names) > 0 {
			if err := d.chargeByPolicies(s, i, entries); err != nil {
				return nil, err
			}
		}
	}
	if d.replaces {
		d.dropReplaced()
	}
	return d, d.checkTogether()
}

// A malformed request is one that the service refuses. It is an INVALID_ARGUMENT.
type malformed struct{ text string }

func (e *malformed) Error() string { return e.text }

func malformedf(format string, args ...any) error { return &malformed{fmt.Sprintf(format, args...)} }

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
	if r.HitsAddend > maxHits {
		return malformedf("hits_addend %d: want at most %d", r.HitsAddend, maxHits)
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

// isUnmatched reports whether no limit is about the request.
func (d *decision) isUnmatched() bool {
	return len(d.Charges) == 0 && !slices.Contains(d.unlimited, true) && !slices.Contains(d.refused, true)
}

// checkTogether refuses limits that cannot be decided together, because one cannot give back what another denies, and
// hits that are too many only in sum.
func (d *decision) checkTogether() error {
	together, alone := 0, ""
	for i, c := range d.Charges {
		if c.Kind == admit.Report && c.N > maxHits {
			return malformedf("descriptors %d: %d hits in all: want at most %d", d.limits[i].descriptors, c.N, maxHits)
		}
		if c.Kind != admit.Take || c.Quota || c.Shadow {
			continue
		}
		together++
		if _, gives := c.Limiter.(loader.Returner); !gives {
			alone = c.Name
		}
	}
	if together > 1 && alone != "" {
		return malformedf("limit %s has script gcra, which is decided by itself: want one descriptor that it is about", alone)
	}
	return nil
}

// hitsOf returns the hits of a descriptor, and how a limiter is asked about them.
func (d *decision) hitsOf(descriptor *commonv3.RateLimitDescriptor) (int64, admit.Kind) {
	switch {
	case descriptor.HitsAddend == nil:
		return max(int64(d.asked.HitsAddend), 1), admit.Take
	case descriptor.HitsAddend.Value == 0:
		return 0, admit.Look
	}
	return int64(descriptor.HitsAddend.Value), admit.Report
}

// chargeByEnvoy charges a descriptor by a file of envoyproxy/ratelimit.
func (d *decision) chargeByEnvoy(in *domain, i int, entries []envoyfile.Entry) error {
	descriptor := d.asked.Descriptors[i]
	c, l := admit.Charge{}, limit{domain: in.file.Domain, descriptors: []int{i}}
	c.N, c.Kind = d.hitsOf(descriptor)
	if override := descriptor.Limit; override != nil {
		unit, ok := unitOf(override.Unit)
		if !ok {
			return malformedf("descriptor %d: the limit has the unit %v: want SECOND, MINUTE, HOUR, DAY, MONTH or YEAR", i,
				override.Unit)
		}
		key := make([]string, 0, 2*len(entries))
		for _, e := range entries {
			key = append(key, e.Key, e.Value)
		}
		found := in.ring(unit, override.RequestsPerUnit)
		c.Name, c.Limiter, c.Subject, l.rate = "override", found.limiter, admit.Subject(key...), found.rate
		d.add(c, l)
		return nil
	}
	rule := in.file.Find(entries)
	if rule == nil {
		return nil
	}
	d.rules[i], d.replaces = rule, d.replaces || len(rule.Replaces) > 0
	if rule.Unlimited {
		d.unlimited[i] = true
		return nil
	}
	c.Shadow, c.Quota = rule.Shadow, rule.Quota && !rule.Shadow
	c.Name = rule.Name
	if c.Name == "" {
		c.Name = rule.Label(entries)
	}
	found := in.rules[rule]
	c.Limiter, c.Subject, l.rule, l.rate = found.limiter, admit.Subject(rule.Key(entries)...), rule, found.rate
	l.name = found.name
	d.add(c, l)
	return nil
}

func unitOf(unit typev3.RateLimitUnit) (envoyfile.Unit, bool) {
	switch unit {
	case typev3.RateLimitUnit_SECOND:
		return envoyfile.Second, true
	case typev3.RateLimitUnit_MINUTE:
		return envoyfile.Minute, true
	case typev3.RateLimitUnit_HOUR:
		return envoyfile.Hour, true
	case typev3.RateLimitUnit_DAY:
		return envoyfile.Day, true
	case typev3.RateLimitUnit_MONTH:
		return envoyfile.Month, true
	case typev3.RateLimitUnit_YEAR:
		return envoyfile.Year, true
	}
	return 0, false
}

// chargeByPolicies charges a descriptor by the policy files.
func (d *decision) chargeByPolicies(s *set, i int, entries []envoyfile.Entry) error {
	about := policy.Descriptor{Domain: d.asked.Domain, Entries: entries}
	kind := admit.Take
	about.Hits, kind = d.hitsOf(d.asked.Descriptors[i])
	for _, name := range s.names {
		found, err := s.policies[name].Find(policy.Attributes{Descriptor: &about})
		if err != nil {
			return malformedf("descriptor %d: %v", i, err)
		}
		for _, l := range found {
			m := l.Match
			if m.Refused {
				d.refused[i], d.Refused = true, true
				continue
			}
			c := admit.Charge{Limiter: l.Limiter, Subject: m.Subject, N: m.Cost, Name: m.Policy.Name, Kind: kind, Ban: l.Ban,
				Shadow: m.Policy.Mode == policy.Shadow}
			if _, reports := l.Limiter.(admit.Reporter); kind == admit.Report && (m.Policy.Before || !reports) {
				c.Kind = admit.Take
			}
			d.add(c, limit{domain: name, descriptors: []int{i}})
		}
	}
	return nil
}

// add adds a charge, to one about the same subject if there is one: then the smaller limit holds for the sum.
func (d *decision) add(c admit.Charge, l limit) {
	for i := range d.Charges {
		sum, about := &d.Charges[i], &d.limits[i]
		if sum.Subject != c.Subject || sum.Kind != c.Kind || sum.Quota != c.Quota || sum.Shadow != c.Shadow ||
			admit.NameOf(sum.Limiter) != admit.NameOf(c.Limiter) {
			continue
		}
		sum.N, about.descriptors = admit.Sum(sum.N, c.N), append(about.descriptors, l.descriptors...)
		if l.rate.Permits < about.rate.Permits {
			sum.Limiter, sum.Name, about.rate, about.name = c.Limiter, c.Name, l.rate, l.name
		}
		return
	}
	d.Charges, d.limits = append(d.Charges, c), append(d.limits, l)
}

// dropReplaced drops the limits that others of the same request replace.
func (d *decision) dropReplaced() {
	isReplaced := func(rule *envoyfile.Rule) bool {
		return rule != nil && rule.Name != "" && slices.ContainsFunc(d.rules, func(by *envoyfile.Rule) bool {
			return by != nil && slices.Contains(by.Replaces, rule.Name)
		})
	}
	charges, limits := d.Charges[:0], d.limits[:0]
	for i, l := range d.limits {
		if !isReplaced(l.rule) {
			charges, limits = append(charges, d.Charges[i]), append(limits, l)
		}
	}
	rules := slices.Clone(d.rules)
	for i, rule := range d.rules {
		if isReplaced(rule) {
			rules[i], d.unlimited[i] = nil, false
		}
	}
	d.Charges, d.limits, d.rules = charges, limits, rules
}

// decide asks all limiters. Its error is why there is no decision.
func (d *decision) decide(ctx context.Context, limits *loader.Loader) error {
	d.Limits = limits
	d.Decide(ctx)
	if d.Outcome == admission.Allowed || d.Outcome == admission.Denied {
		return nil
	}
	return cmp.Or(d.Err, context.DeadlineExceeded)
}
