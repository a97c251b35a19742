package policy

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

// Match is what a policy asks for a call.
type Match struct {
	Policy  *Policy
	Key     []string       // the texts of `by`; all are "" if the empty key is shared
	Subject string         // httplimit.Subject(Key...); "" if it is Refused
	Plan    string         // "" without plans
	Rates   []loader.Limit // of the override, or of the plan
	Cost    int64          // permits: at least 1; 0 of a descriptor without hits, which only looks
	Refused bool           // the key is empty, and the file says refuse; of Policies also AttributeError.Client
	Missing string         // if Refused: a value that the application or the connection did not have, "" if there is none

	Override *Override // of the subject; nil: there is none, or it has ended

	limiter int // of the plan or the override: see set
}

// An AttributeError says that a policy could not be applied to a call because of the call's attributes. Nothing was
// asked.
type AttributeError struct {
	Policy string
	Word   string // of the file: "by", "when"
	Client bool   // the client's request caused it: by a header of 10 KiB, or by n=abc for int(request.query.n)
	Err    error
}

// Error names the policy and the word of the file.
func (e *AttributeError) Error() string {
	return fmt.Sprintf("policy: %s: %s: %v", e.Policy, e.Word, e.Err)
}

// Unwrap returns Err.
func (e *AttributeError) Unwrap() error { return e.Err }

// ErrEmptyKey is in the error of a call for which the application did not pass what a key is made of, where the file
// has no `empty` to say what to do then.
var ErrEmptyKey = errors.New("the key is empty")

// ErrUnknownPlan is in the error of a call whose plan the file does not have.
var ErrUnknownPlan = errors.New("unknown plan")

// Match returns the policies that match, in the file's order. Its error joins an *AttributeError for each policy that
// could not be applied; the other policies' matches are returned all the same. Cost: about a microsecond for each
// expression, nothing is sent.
func (f *File) Match(a Attributes) (matches []Match, err error) {
	var errs []error
	v := newValues(a)
	for _, p := range f.Policies {
		m, ok, err := p.match(v)
		if err != nil {
			errs = append(errs, err)
		} else if ok {
			matches = append(matches, m)
		}
	}
	return matches, errors.Join(errs...)
}

// match reports whether the policy matches, and for what it asks.
func (p *Policy) match(v *values) (m Match, ok bool, err error) {
	if v.Request == nil && p.asksRequest || v.Descriptor == nil && p.asksDescriptor {
		return m, false, nil
	}
	v.err = nil
	if p.when != nil {
		if ok, err = p.when.holds(v); err != nil || !ok {
			return m, false, p.wrap("when", err)
		}
	}
	m = Match{Policy: p, Rates: p.Rates, Cost: p.fixedCost}
	if ok, err = m.setKey(v); err != nil || !ok || m.Refused {
		return m, ok, p.wrap("by", err)
	}
	if p.plan != nil {
		if err := m.setPlan(v); err != nil {
			return m, false, p.wrap("plan", err)
		}
	}
	if len(p.Overrides) > 0 {
		m.override(v.At)
	}
	if len(m.Rates) == 0 {
		return m, false, nil
	}
	if p.cost != nil {
		m.Cost, err = p.cost.number(v)
		if err == nil && m.Cost < 0 {
			err = p.cost.blame(fmt.Errorf("the cost is %d: want 0 or more", m.Cost))
		}
		if err != nil {
			return m, false, p.wrap("cost", err)
		}
	}
	isLook := v.Descriptor != nil && v.Descriptor.Hits == 0
	switch {
	case isLook:
		m.Cost = 0
	case v.Descriptor != nil && p.Cost == "":
		m.Cost = v.Descriptor.Hits
	}
	return m, m.Cost > 0 || isLook, nil
}

// uses reports whether any expression asks for a variable: see expression.uses.
func (p *Policy) uses(name string) bool {
	uses := func(e *expression) bool { return e.uses(name) }
	return slices.ContainsFunc(p.by, uses) || uses(p.when) || uses(p.plan) || uses(p.cost) || uses(p.count)
}

func (p *Policy) wrap(word string, err error) error {
	if err == nil {
		return nil
	}
	_, byClient := errors.AsType[*clientError](err)
	return &AttributeError{Policy: p.Name, Word: word, Client: byClient, Err: err}
}

// setKey sets the key of a call. It is not ok if the policy does not match without one.
func (m *Match) setKey(v *values) (ok bool, err error) {
	v.missing = ""
	key, empty := make([]string, len(m.Policy.by)), true
	for i, e := range m.Policy.by {
		if key[i], err = e.text(v); err != nil {
			return false, err
		}
		empty = empty && key[i] == ""
	}
	switch {
	case !empty && v.missing == "":
		m.Key = key
	case m.Policy.Empty == SkipEmpty:
		return false, nil
	case m.Policy.Empty == ShareEmpty:
		m.Key = make([]string, len(m.Policy.by))
	case v.missing == "request.ip" && v.Request.peerErr != nil:
		return false, v.Request.peerErr
	case m.Policy.Empty == RefuseEmpty:
		m.Refused, m.Missing = true, v.missing
		return true, nil
	case v.missing != "":
		return false, fmt.Errorf("%w: %s is not set", ErrEmptyKey, v.missing)
	default:
		return false, ErrEmptyKey
	}
	m.Subject = admit.Subject(m.Key...)
	return true, nil
}

// setPlan sets the plan of a call and its rates.
func (m *Match) setPlan(v *values) error {
	name, err := m.Policy.plan.text(v)
	if err != nil {
		return err
	}
	for _, wanted := range []string{name, DefaultPlan} {
		for i, plan := range m.Policy.Plans {
			if plan.Name == wanted {
				m.Plan, m.Rates, m.limiter = plan.Name, plan.Rates, i
				return nil
			}
		}
	}
	return fmt.Errorf("%w %q", ErrUnknownPlan, name)
}

// Counts reports whether a call that was granted is charged, now that its response is known: the file's `count`, by
// a.Status. Without it every call is. If it is false, give the permits back. Policies does that by itself: Counts is
// for tools that decide by hand, with Match.Limiter. Its error is an *AttributeError. Cost: a microsecond, nothing is
// sent.
func (p *Policy) Counts(a Attributes) (bool, error) {
	if p.count == nil || a.Request == nil && p.count.uses("request.") {
		return true, nil
	}
	counts, err := p.count.holds(newValues(a))
	if err != nil {
		err = p.wrap("count", err)
	}
	return counts, err
}
