package replay

import (
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
	Denied     int64        `json:"denied"`    // by an enforced policy
	From       time.Time    `json:"from,omitzero"`
	To         time.Time    `json:"to,omitzero"`
	Policies   []Policy     `json:"policies"` // in the file's order
	NotApplied []NotApplied `json:"not_applied"`
	WhatIf     []Scenario   `json:"what_if,omitempty"` // half the permits, those of the file, twice as many

	ColumnLength time.Duration `json:"-"`
	ColumnMicros int64         `json:"column"` // length of a column, in microseconds
	ColumnsFrom  time.Time     `json:"columns_from,omitzero"`
	Busiest      []Key         `json:"busiest"`     // ten at most
	MostDenied   []Key         `json:"most_denied"` // ten at most

	from, to int64
}

func newReport() *Report {
	return &Report{Bad: []BadLine{}, NotApplied: []NotApplied{}, Busiest: []Key{}, MostDenied: []Key{}}
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
	Policy   string   `json:"policy"`
	Subject  string   `json:"key"`
	Requests int64    `json:"requests"`
	Denied   int64    `json:"denied"`
	Columns  []Column `json:"columns,omitempty"`
}

// Scenario is what the policies would have done with the permits times a factor.
type Scenario struct {
	Factor   float64 `json:"factor"`
	Denied   int64   `json:"denied"`   // requests that an enforced policy denied
	Policies []int64 `json:"policies"` // denied by each, in the file's order
}

// collect adds what the shards have counted.
func (r *Report) collect(c Config, shards []*shard) {
	var keys []ranked
	var denied []ranked
	total, withDenials := map[*policy.Policy]int64{}, map[*policy.Policy]int64{}
	for _, s := range shards {
		for key, counts := range s.keys {
			keys = append(keys, ranked{key, counts})
			total[key.policy]++
			if counts.denied > 0 {
				withDenials[key.policy]++
				denied = append(denied, ranked{key, counts})
			}
		}
	}
	scenarios := joined(c, shards)
	r.Denied = scenarios[0].denied
	for _, p := range c.File.Policies {
		r.Policies = append(r.Policies, Policy{Name: p.Name, Mode: p.Mode, Script: p.Script,
			Keys: total[p], KeysDenied: withDenials[p], Counts: *scenarios[0].policies[p]})
	}
	r.sortNotApplied(c.File)
	if c.WhatIf {
		for _, i := range []int{1, 0, 2} {
			r.WhatIf = append(r.WhatIf, scenarios[i].report(c.factors()[i], c.File))
		}
	}
	r.rank(keys, denied)
}

// joined returns the scenarios of all shards together.
func joined(c Config, shards []*shard) []scenario {
	all := make([]scenario, len(c.factors()))
	for i := range all {
		all[i].policies = map[*policy.Policy]*Counts{}
		for _, p := range c.File.Policies {
			all[i].policies[p] = &Counts{}
		}
		for _, s := range shards {
			all[i].denied += s.scenarios[i].denied
			for p, counts := range s.scenarios[i].policies {
				all[i].policies[p].join(*counts)
			}
		}
	}
	return all
}

func (s scenario) report(factor float64, file *policy.File) Scenario {
	all := Scenario{Factor: factor, Denied: s.denied}
	for _, p := range file.Policies {
		all.Policies = append(all.Policies, s.policies[p].Denied+s.policies[p].Refused)
	}
	return all
}

// rank adds the keys that are shown, with their timelines.
func (r *Report) rank(keys, denied []ranked) {
	if r.Requests == 0 {
		return
	}
	r.From, r.To = time.UnixMicro(r.from).UTC(), time.UnixMicro(r.to).UTC()
	step := stepOf(r.from, r.to)
	r.ColumnMicros = steps[step]
	r.ColumnLength = time.Duration(r.ColumnMicros) * time.Microsecond
	r.ColumnsFrom = time.UnixMicro(r.from / r.ColumnMicros * r.ColumnMicros).UTC()
	for _, k := range first(keys, busiest) {
		r.Busiest = append(r.Busiest, k.report(k.timeline.columns(step, r.from, r.to)))
	}
	for _, k := range first(denied, mostDenied) {
		r.MostDenied = append(r.MostDenied, k.report(nil))
	}
}

func (k ranked) report(columns []Column) Key {
	return Key{Policy: k.policy.Name, Subject: k.subject, Requests: k.requests, Denied: k.denied, Columns: columns}
}
