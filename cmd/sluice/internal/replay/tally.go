package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/sluice-redis/sluice/policy"
)

// Counts is how many requests a policy, or all of them together, granted and denied.
type Counts struct {
	Requests  int64 `json:"requests"`
	Granted   int64 `json:"granted"` // and charged
	Free      int64 `json:"free"`    // granted and not charged, by `count`
	Denied    int64 `json:"denied"`
	Refused   int64 `json:"refused"`   // an empty key
	Withdrawn int64 `json:"withdrawn"` // another policy denied
	Failed    int64 `json:"failed"`    // no decision
}

func (c *Counts) add(verdict Verdict) {
	c.Requests++
	switch verdict {
	case Granted:
		c.Granted++
	case Free:
		c.Free++
	case Denied:
		c.Denied++
	case Refused:
		c.Refused++
	case Withdrawn:
		c.Withdrawn++
	case Failed:
		c.Failed++
	}
}

func (c *Counts) join(other Counts) {
	c.Requests += other.Requests
	c.Granted += other.Granted
	c.Free += other.Free
	c.Denied += other.Denied
	c.Refused += other.Refused
	c.Withdrawn += other.Withdrawn
	c.Failed += other.Failed
}

// Share returns the share of requests that the policy denied or refused, 0 to 1.
func (c Counts) Share() float64 {
	if c.Requests == 0 {
		return 0
	}
	return float64(c.Denied+c.Refused) / float64(c.Requests)
}

// scenario is the counts of one factor.
type scenario struct {
	denied   int64 // requests that an enforced policy denied
	policies map[*policy.Policy]*Counts
}

func (s *scenario) add(r request, verdicts []Verdict) {
	denied := false
	for i, m := range r.matches {
		counts := s.policies[m.Policy]
		if counts == nil {
			counts = &Counts{}
			s.policies[m.Policy] = counts
		}
		counts.add(verdicts[i])
		denied = denied || m.Mode == policy.Enforce && (verdicts[i] == Denied || verdicts[i] == Refused)
	}
	if denied {
		s.denied++
	}
}

// keyOf is a subject of a policy.
type keyOf struct {
	policy  *policy.Policy
	subject string
}

// keyCounts is what is kept of a key. It takes the memory of the replay, beside the state of the scripts.
type keyCounts struct {
	requests, denied int64
	timeline         timeline
}

// addKeys counts a request for its keys.
func addKeys(keys map[keyOf]*keyCounts, r request, verdicts []Verdict) {
	for i, m := range r.matches {
		key := keyOf{m.Policy, m.Subject}
		counts := keys[key]
		if counts == nil {
			counts = &keyCounts{}
			key.subject = strings.Clone(key.subject) // it may be a part of a whole line
			keys[key] = counts
		}
		denied := verdicts[i] == Denied || verdicts[i] == Refused
		counts.requests++
		if denied {
			counts.denied++
		}
		counts.timeline.add(r.at, denied)
	}
}

// ranked is a key among others.
type ranked struct {
	keyOf
	*keyCounts
}

// first returns the first keys of an order, ten at most. Keys that it takes for equal are in the order of their names.
func first(keys []ranked, order func(a, b ranked) int) []ranked {
	const shown = 10
	var best []ranked
	for _, k := range keys {
		at, _ := slices.BinarySearchFunc(best, k, func(a, b ranked) int {
			return cmp.Or(order(a, b), cmp.Compare(a.policy.Line, b.policy.Line), cmp.Compare(a.subject, b.subject))
		})
		if at < shown {
			best = slices.Insert(best, at, k)
			best = best[:min(len(best), shown)]
		}
	}
	return best
}

func busiest(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.requests, a.requests), cmp.Compare(b.denied, a.denied))
}

func mostDenied(a, b ranked) int {
	return cmp.Or(cmp.Compare(b.denied, a.denied), cmp.Compare(b.requests, a.requests))
}
