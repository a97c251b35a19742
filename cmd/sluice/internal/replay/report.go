package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/sluice-redis/sluice/policy"
)

// Report is what the policies would have done.
type Report struct {
	Lines      int64        `json:"lines"`
	Unread     int64        `json:"unread"`
	Bad        []BadLine    `json:"bad_lines"` // the first ones
	Late       int64        `json:"late"`      // decided later than at their times: see MaxDisorder
	Requests   int64        `json:"requests"`  // lines that could be read
	Matched    int64        `json:"matched"`   // by any policy
	Unknown    int64        `json:"unknown"`   // not matched, and the log does not say enough to tell
	Denied     int64        `json:"denied"`    // by an enforced policy
	From       time.Time    `json:"from,omitzero"`
	To         time.Time    `json:"to,omitzero"`
	Policies   []Policy     `json:"policies"` // in the file's order
	NotApplied []NotApplied `json:"not_applied"`
	Busiest    []Key        `json:"busiest"`     // ten at most
	MostDenied []Key        `json:"most_denied"` // ten at most

	unknown int64 // policies that could not be applied to a request
}

// Policy is what one policy did.
type Policy struct {
	Name       string      `json:"policy"`
	Mode       policy.Mode `json:"mode"`
	Script     string      `json:"script"`
	Keys       int64       `json:"keys"`
	KeysDenied int64       `json:"keys_denied"` // at least once
	Counts
}

// Key is one key of a policy.
type Key struct {
	Policy   string `json:"policy"`
	Subject  string `json:"key"`
	Requests int64  `json:"requests"`
	Denied   int64  `json:"denied"`
}

// BadLine is a line that could not be read.
type BadLine struct {
	Line int64  `json:"line"`
	Why  string `json:"why"`
}

// NotApplied is a policy that could not be applied to requests, because the log does not say what it asks for.
type NotApplied struct {
	Policy   string `json:"policy"`
	Requests int64  `json:"requests"`
	Line     int64  `json:"line"` // the first one
	Why      string `json:"why"`  // of the first one
}

// maxExamples is how many of the lines that cannot be read are kept.
const maxExamples = 5

func (r *Report) addBad(err error) {
	r.Unread++
	if len(r.Bad) < maxExamples {
		r.Bad = append(r.Bad, BadLine{r.Lines, err.Error()})
	}
}

func (r *Report) addEntry(at time.Time) {
	at = at.UTC().Truncate(time.Microsecond)
	if r.Requests++; r.Requests == 1 || at.Before(r.From) {
		r.From = at
	}
	if at.After(r.To) {
		r.To = at
	}
}

// Counts is how many requests a policy granted and denied.
type Counts struct {
	Requests  int64 `json:"requests"`
	Granted   int64 `json:"granted"` // and charged
	Free      int64 `json:"free"`    // granted and not charged, by `count`
	Denied    int64 `json:"denied"`
	Refused   int64 `json:"refused"`   // an empty key
	Withdrawn int64 `json:"withdrawn"` // another policy denied
	Failed    int64 `json:"failed"`    // no decision

	Overridden int64 `json:"overridden"` // by the rates of an override, whatever came of it
}

// of returns the count of a verdict.
func (c *Counts) of(verdict Verdict) *int64 {
	return []*int64{&c.Granted, &c.Free, &c.Denied, &c.Refused, &c.Withdrawn, &c.Failed}[verdict]
}

func (c *Counts) add(verdict Verdict) {
	c.Requests++
	*c.of(verdict)++
}

func (c *Counts) join(other *Counts) {
	c.Requests += other.Requests
	c.Overridden += other.Overridden
	for verdict := Granted; verdict <= Failed; verdict++ {
		*c.of(verdict) += *other.of(verdict)
	}
}

// keyOf is a subject of a policy.
type keyOf struct {
	policy  *policy.Policy
	subject string
}

// keyCounts is what is kept of a key. It takes the memory of the replay, beside the state of the scripts.
type keyCounts struct{ requests, denied int64 }

// collect adds what the shards have counted.
func (r *Report) collect(c Config, shards []*shard) {
	place := map[string]int{}
	for i, p := range c.File.Policies {
		place[p.Name] = i
		r.Policies = append(r.Policies, Policy{Name: p.Name, Mode: p.Mode, Script: p.Script})
		for _, s := range shards {
			r.Policies[i].join(s.counts[p])
		}
	}
	var keys []Key
	for _, s := range shards {
		r.Denied += s.denied
		for key, counts := range s.keys {
			p := &r.Policies[place[key.policy.Name]]
			p.Keys++
			if counts.denied > 0 {
				p.KeysDenied++
			}
			keys = append(keys, Key{key.policy.Name, key.subject, counts.requests, counts.denied})
		}
	}
	slices.SortFunc(r.NotApplied, func(a, b NotApplied) int { return cmp.Compare(place[a.Policy], place[b.Policy]) })
	first := func(order func(a, b Key) int) []Key {
		slices.SortFunc(keys, func(a, b Key) int {
			return cmp.Or(order(a, b), cmp.Compare(place[a.Policy], place[b.Policy]), cmp.Compare(a.Subject, b.Subject))
		})
		return slices.Clone(keys[:min(len(keys), 10)])
	}
	r.Busiest = first(func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(b.Denied, a.Denied))
	})
	r.MostDenied = first(func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Requests, a.Requests))
	})
	r.MostDenied = slices.DeleteFunc(r.MostDenied, func(k Key) bool { return k.Denied == 0 })
}
