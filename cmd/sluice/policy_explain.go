package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/replay"
	"github.com/sluice-redis/sluice/policy"
)

// policyExplain says which limits apply to a call, and decides it on an empty store.
func (a app) policyExplain(ctx context.Context, args []string) error {
	in, err := a.openPolicy("explain", args)
	if err != nil {
		return err
	}
	attributes, err := attributesOf(in.file, in.others)
	if err != nil {
		return err
	}
	server, err := replay.NewServer()
	if err != nil {
		return err
	}
	defer server.Close()
	if slices.ContainsFunc(in.file.Policies, func(p *policy.Policy) bool { return p.Period != "" }) {
		server.SetTime(time.Now()) // when the periods end
	}
	in.setClient(attributes.Request)
	matches, failed := in.file.Match(attributes)
	for _, p := range in.file.Policies {
		if err := in.out.explain(server, p, attributes, matches, failed); err != nil {
			return err
		}
		in.out.printf("\n")
	}
	return in.decide(ctx, server, attributes)
}

// decide prints the decision on an empty store. Why there is none was printed before.
func (in policyInput) decide(ctx context.Context, server *replay.Server, attributes policy.Attributes) error {
	policies, err := policy.Load(server.Limits(), in.path, policy.ReloadEvery(0),
		policy.Logger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	d, err := policies.Decide(ctx, attributes)
	if _, ok := errors.AsType[*policy.AttributeError](err); ok {
		in.out.printf("There is no decision: the call is refused.\n")
		return errReported
	}
	if err == nil {
		in.out.decided(d)
	}
	return err
}

// setClient finds the client behind the file's proxies.
func (in policyInput) setClient(r *policy.Request) {
	if r == nil {
		return
	}
	before := r.IP
	if in.file.SetClient(r); r.IP != before {
		in.out.printf("request.ip is found to be %q\n\n", r.IP)
	}
}

// attributesOf reads name=value arguments.
func attributesOf(file *policy.File, pairs []string) (a policy.Attributes, err error) {
	for _, pair := range pairs {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return a, usagef("unexpected argument %s: want name=value", given(pair))
		}
		if err := file.Set(&a, name, value); err != nil {
			return a, usagef("%s", strings.TrimPrefix(err.Error(), "policy: "))
		}
	}
	return a, nil
}

// explain says whether a policy matches, and what it asks.
func (s screen) explain(server *replay.Server, p *policy.Policy, a policy.Attributes, matches []policy.Match,
	failed error) error {
	for _, m := range matches {
		if m.Policy == p {
			return s.matching(server, m, a)
		}
	}
	if why := failureOf(failed, p.Name); why != nil {
		s.printf("%s %s\n", s.paint(bold, p.Name), s.paint(red, "cannot be applied"))
		s.fact("error", why.Error())
		return nil
	}
	s.printf("%s does not match\n", s.paint(bold, p.Name))
	s.fact("when", p.When)
	if p.Empty == policy.SkipEmpty {
		s.fact("by", strings.Join(p.By, ", ")+"; skipped if it is empty")
	}
	if a.Request == nil {
		s.fact("note", "no request is given: see request.method=, request.path=")
	}
	return nil
}

// failureOf returns why a policy could not be applied, nil if it could.
func failureOf(err error, name string) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			if found := failureOf(one, name); found != nil {
				return found
			}
		}
		return nil
	}
	if attribute, ok := errors.AsType[*policy.AttributeError](err); ok && attribute.Policy == name {
		return fmt.Errorf("%s: %w", attribute.Word, attribute.Err)
	}
	return nil
}

// matching says what a matching policy asks.
func (s screen) matching(server *replay.Server, m policy.Match, a policy.Attributes) error {
	s.printf("%s matches\n", s.paint(bold, m.Policy.Name))
	s.fact("when", m.Policy.When)
	if m.Policy.Mode == policy.Shadow {
		s.fact("mode", "shadow: a denial is only reported")
	}
	if m.Refused {
		s.fact("key", "empty, which the file refuses")
		return nil
	}
	keys, err := keysUnder(server, m)
	if err != nil {
		return err
	}
	s.facts("key", keys)
	rates := m.Policy.Show(m.Rates)
	switch {
	case m.Override != nil:
		rates = overrideText(m.Policy, *m.Override) + ", an override"
	case m.Plan != "":
		rates += ", of plan " + m.Plan
	}
	s.fact("limit", rates)
	s.fact("script", m.Policy.Script)
	if m.Cost != 1 {
		s.fact("cost", fmt.Sprintf("%d permits", m.Cost))
	}
	s.counting(m, a)
	return nil
}

// counting says whether the response is charged.
func (s screen) counting(m policy.Match, a policy.Attributes) {
	if m.Policy.Count == "" {
		return
	}
	if a.Status == 0 {
		s.fact("count", m.Policy.Count+"; add response.status= to see whether it is charged")
		return
	}
	counts, err := m.Policy.Counts(a)
	switch {
	case err != nil:
		s.fact("count", err.Error())
	case counts:
		s.fact("count", fmt.Sprintf("a response %d is charged", a.Status))
	default:
		s.fact("count", fmt.Sprintf("a response %d is not charged: the permits are given back", a.Status))
	}
}

// decided prints the decision on an empty store.
func (s screen) decided(d policy.Decision) {
	switch {
	case d.Refused:
		s.printf("On an empty store it is %s by %s: the key is empty.\n", s.paint(red, "refused"), d.Policy)
	case len(d.Policies) == 0:
		s.printf("No limit applies: it is %s.\n", s.paint(green, "granted"))
	case d.Granted:
		s.printf("On an empty store it is %s.\n", s.paint(green, "granted"))
	default:
		s.printf("On an empty store it is %s by %s.\n", s.paint(red, "denied"), d.Policy)
	}
	for _, one := range d.Policies {
		s.fact(one.Policy, decisionText(one))
	}
}

// decisionText is the decision of one policy.
func decisionText(d policy.PolicyDecision) string {
	text := fmt.Sprintf(" granted, %d remaining, all are free again in %s", d.Remaining,
		length(d.ResetAfter.Microseconds()))
	switch {
	case d.Err != nil:
		text = " no decision: " + d.Err.Error()
	case !d.Granted && d.Wait > 366*24*time.Hour:
		text = " denied, however long it waits"
	case !d.Granted:
		text = " denied, for " + length(d.Wait.Microseconds())
	}
	if d.Shadow {
		text += " (shadow)"
	}
	return text
}
