package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/clientaddr"
	"github.com/sluice-redis/sluice/internal/watch"
	"github.com/sluice-redis/sluice/loader"
)

// File is a policy file that was read. Parse and ParseFile make it. It does not change, and is safe for concurrent use.
type File struct {
	// Policies is the limits of the file, in their order.
	Policies []*Policy

	// Attributes is the names in the file's attributes.
	Attributes []string

	// Proxies is the addresses and networks whose X-Forwarded-For is believed.
	Proxies []string

	// Hops is how many proxies there are, where their addresses are not known; 0 otherwise.
	Hops int

	name          string
	ofApplication map[string]bool
	clients       clientaddr.Finder
	clientsErr    error
}

// Name is the name by which the file was read.
func (f *File) Name() string { return f.name }

// Asks returns what the expressions ask of a request, sorted, as Set names it: request.path, request.header.x-user; a
// map alone, request.header, if a key of it is computed. A proxy that asks about a request has to pass all of it.
func (f *File) Asks() (names []string) {
	for _, p := range f.Policies {
		for _, e := range append(slices.Clone(p.by), p.when, p.plan, p.cost, p.count) {
			if e == nil {
				continue
			}
			for _, name := range append(slices.Clone(e.names), e.entries...) {
				isMap := slices.ContainsFunc(requestVariables, func(v variable) bool { return v.name == name && v.kind == textMap })
				if strings.HasPrefix(name, "request.") && (!isMap || slices.Contains(e.entries, name)) {
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Policy is one of the limits of a file. A rate by calendar is a policy of its own: of a limit `api`, 5000/month is the
// policy "api-month". It asks the same of a call as the limit's windows, and they are decided all or none.
type Policy struct {
	Name   string
	Line   int // of the name in the file, from 1
	Column int
	Script string         // "list_log", "zset_log", "gcra" or "slice_ring": the file's, or the one that was chosen
	Chosen bool           // the file names no script
	Period string         // "day", "week", "month" or "year" of a quota, whose Script is "quota"; "" of windows
	Zone   *time.Location // of the calendar
	Rates  []loader.Limit // none if there are plans; of a Period one, with the length of most such periods
	Plans  []Plan         // in the file's order
	Ban    loader.Limit   // refusals in a window for which a subject is banned; zero: it never is
	Delay  time.Duration  // for which a request is held until it is granted
	Mode   Mode
	Fail   Fail
	Empty  Empty
	When   string   // the expressions as the file has them; "" if it has none
	By     []string // one or more
	Plan   string
	Cost   string
	Count  string
	Before bool                // `cost: before`: the hits of a descriptor are known before the response
	Ahead  loader.AheadOptions // zero: Redis decides about each call

	// Overrides is other rates for single subjects, also those that have ended.
	Overrides []Override

	rates          []rate // of windows and periods, as the file has them
	when           *expression
	by             []*expression
	plan           *expression
	cost           *expression // nil: fixedCost
	fixedCost      int64
	count          *expression
	overridden     map[string]int // the overrides by their subjects
	asksRequest    bool           // any expression but count does
	asksDescriptor bool
}

// AsksRequest reports whether the policy is about requests of HTTP or gRPC: any of its expressions but count has a
// request's attribute. If not, it may match a Descriptor. Use it to tell the two apart in a file.
func (p *Policy) AsksRequest() bool { return p.asksRequest }

// Plan is the rates of subjects for whom the expression `plan` gives its name. Plans whose rates have the same windows
// count in the same keys; a window that is new to a subject begins empty.
type Plan struct {
	Name  string
	Rates []loader.Limit // none: the policy does not limit this plan, whose rates in the file are all of another kind

	rates []rate
}

// Mode is what a denial does.
type Mode string

const (
	Enforce Mode = "enforce" // a denial denies
	Shadow  Mode = "shadow"  // a denial is only reported
)

// Fail is what happens while Redis does not decide. The zero Fail is closed.
type Fail struct {
	Open  bool    // grant
	Local float64 // limit in this process to this share of the rate, if above 0
}

// String is the words of the file.
func (f Fail) String() string {
	switch {
	case f.Open:
		return "open"
	case f.Local > 0:
		return fmt.Sprintf("local %.4g", f.Local)
	}
	return "closed"
}

// Empty is what happens if the key of a policy is empty.
type Empty string

const (
	RefuseEmpty Empty = "refuse" // deny
	SkipEmpty   Empty = "skip"   // the policy does not match
	ShareEmpty  Empty = "shared" // all empty keys share one limit
)

// DefaultPlan is the plan of those whose plan has no other.
const DefaultPlan = "default"

// ParseFile is Parse of what a regular file holds.
func ParseFile(path string) (*File, error) {
	src, err := watch.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	return Parse(path, src)
}
