package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/httplimit"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

// subjectFlags are the flags of commands about one subject, which a policy file may name.
type subjectFlags struct {
	serverFlags
	prefix, file string
}

func (f *subjectFlags) register(command string) *flag.FlagSet {
	flags := f.serverFlags.register(command)
	flags.StringVar(&f.prefix, "prefix", "sluice", "")
	flags.StringVar(&f.file, "policy", "", "")
	return flags
}

// limited is a subject as it is stored, and the limit of the policy file; nil without a file.
type limited struct {
	limiter, name string
	policy        *policy.Policy
}

// named returns the subject that arguments name. With a policy file it is made of them as the application makes it, and
// there is one for each limiter of the limit: for its windows, for each period of its calendar, and for its ban.
func (a app) named(f subjectFlags, args []string) (targets []limited, err error) {
	if f.file == "" || len(args) < 2 {
		if err := wantSubject(args); err != nil {
			return nil, err
		}
		return []limited{{limiter: args[0], name: args[1]}}, nil
	}
	file, err := a.readPolicies(f.file)
	if err != nil {
		newScreen(a.stderr).printf("without --policy, name the subject as it is stored: sluice top lists them\n")
		return nil, err
	}
	for _, p := range file.Policies {
		if p.Name != args[0] && p.Limit() != args[0] && (p.Ban.Permits == 0 || p.BanName() != args[0]) {
			continue
		}
		name, err := p.Subject(args[1:]...)
		if err != nil {
			_, want, _ := strings.Cut(err.Error(), ": want ")
			return nil, usagef("the subject is %s: want %s", given(strings.Join(args[1:], " ")), want)
		}
		targets = append(targets, limited{p.Name, name, p})
	}
	if targets == nil {
		names := namesOf(file.Policies, func(p *policy.Policy) string { return p.Name })
		return nil, usagef("the file has no limit %s: want one of %s", given(args[0]), strings.Join(names, ", "))
	}
	if p := targets[0].policy; p.Ban.Permits > 0 {
		targets = append(targets, limited{p.BanName(), targets[0].name, p})
	}
	return targets, nil
}

// says returns the limits that the policy file has for the subject, nil if its plan decides, and what is to be said of
// them.
func (target limited) says() (rates []loader.Limit, notes []string) {
	p := target.policy
	if p == nil {
		return nil, nil
	}
	if target.limiter != p.Name {
		note := p.BanName() + " counts refusals by " + p.Limit() + ": while it is full, every call is refused"
		return []loader.Limit{p.Ban}, []string{note}
	}
	rates = p.Rates
	for _, o := range p.Overrides {
		switch {
		case !o.Of(target.name):
		case o.Active(time.Now()):
			rates, notes = o.Rates, append(notes, "the file has an override: "+overrideText(p, o)+"; then "+
				strings.Join(ratesOf(p), "; "))
		default:
			notes = append(notes, "an override in the file has ended: "+overrideText(p, o))
		}
	}
	if rates != nil && rates[0].Permits == 0 {
		notes = append(notes, "every call is refused: the limit is "+p.Show(rates)+"; a reset does not help")
	}
	if p.Ahead.Strict {
		notes = append(notes, "the limit is ahead of Redis and strict: Redis enforces less than the file says")
	}
	if p.Mode == policy.Shadow {
		notes = append(notes, "the limit is in shadow: a denial is only reported")
	}
	return p.Enforced(rates), notes
}

// errNothing ends a command that has found nothing, and has said so.
var errNothing = errors.New("nothing is stored")

// maxSimilar is how many keys, or limiters, are shown in place of what is not stored.
const maxSimilar = 10

// nothingStored says that a complete search has found nothing, what the policy file says, and what is stored in its
// place. It returns errNothing.
func (a app) nothingStored(ctx context.Context, f subjectFlags, targets []limited, found search, notes []string) error {
	s, target := newScreen(a.stdout), targets[0]
	s.printf("nothing is stored under %s on %s\n", found.pattern, found.node)
	refusesAll := func(target limited) bool {
		rates, _ := target.says()
		return rates != nil && rates[0].Permits == 0
	}
	switch stored := hashed(target.name); {
	case stored != target.name:
		s.printf("httplimit and policy files store a value of more than 128 bytes by its hash: look for %s\n", stored)
	case !slices.ContainsFunc(targets, refusesAll):
		s.printf("nothing is refused there, if the names are right: they are exact\n")
	}
	for _, note := range notes {
		s.printf("note: %s\n", note)
	}
	around, err := a.storedAround(ctx, f, target)
	around.print(s, target, f.prefix, err == nil)
	if f.file == "" {
		s.printf("--policy FILE makes the subject as a policy file does: of an address its /64, say\n")
	}
	if err != nil {
		s.printf("what else is stored is not known: %v\n", err)
	}
	return errNothing
}

// hashed is a subject whose values are longer than httplimit stores them, as it is stored; others are as they are.
func hashed(name string) string {
	if len(name) <= 128 {
		return name
	}
	return httplimit.Subject(strings.Split(name, "|")...)
}

// around is what is stored beside a subject that is not.
type around struct {
	keys    map[string]int  // of each limiter
	similar map[string]bool // subjects that may be meant
}

// storedAround looks at every key.
func (a app) storedAround(ctx context.Context, f subjectFlags, target limited) (around, error) {
	found := around{keys: map[string]int{}, similar: map[string]bool{}}
	t, err := a.target(f.target)
	if err != nil {
		return found, err
	}
	nodes, _, err := t.nodes(ctx)
	for _, n := range nodes {
		if n.role == "replica" && t.Kind != "redis" {
			continue
		}
		rdb := t.Connect(n.addr)
		all := scan{pattern: f.prefix + ":*", page: searchPage, share: searchShare, status: newScreen(a.stderr)}
		_, scanErr := all.run(ctx, rdb, func(page []string) error {
			for _, key := range page {
				found.add(key, target)
			}
			return nil
		})
		err = errors.Join(err, scanErr)
		_ = rdb.Close()
	}
	return found, err
}

func (r *around) add(text string, target limited) {
	key, known := stored.ParseKey(text)
	if !known {
		return
	}
	r.keys[key.Limiter]++
	alike := key.Limiter == target.limiter && isSimilar(target.name, key.Subject) || key.Subject == hashed(target.name)
	if alike && len(r.similar) <= maxSimilar {
		script, _ := key.Script()
		r.similar[fmt.Sprintf("%s %s (%s)", key.Limiter, key.Subject, fullName(script))] = true
	}
}

// print says what may be meant. all says that every key was looked at.
func (r *around) print(s screen, target limited, prefix string, all bool) {
	list := func(what string, names []string) {
		s.printf("%s:\n", what)
		for _, name := range names[:min(len(names), maxSimilar)] {
			s.printf("  %s\n", name)
		}
		if len(names) > maxSimilar {
			s.printf("  and more\n")
		}
	}
	switch {
	case len(r.similar) > 0:
		list("stored are", slices.Sorted(maps.Keys(r.similar)))
	case r.keys[target.limiter] > 0:
		s.printf("of limiter %s %s stored, for no similar subject: see sluice top --limiter %s\n", target.limiter,
			counted(r.keys[target.limiter], "key is", "keys are"), target.limiter)
	case len(r.keys) > 0:
		names := slices.Sorted(maps.Keys(r.keys))
		rank := map[bool]int{true: -1}
		slices.SortStableFunc(names, func(a, b string) int {
			return rank[isSimilar(target.limiter, a)] - rank[isSimilar(target.limiter, b)]
		})
		list("nothing is stored of limiter "+target.limiter+". Limiters are", names)
	case all:
		s.printf("nothing is stored that begins with %s: are --prefix and the database right?\n", prefix)
	}
}

// isSimilar reports whether a stored subject may be the one that was meant: a network with its address, one that has
// the other in it, or one that differs in a letter.
func isSimilar(meant, stored string) bool {
	if address, err := netip.ParseAddr(meant); err == nil {
		for part := range strings.SplitSeq(stored, "|") {
			if network, err := netip.ParsePrefix(part); err == nil && network.Contains(address) {
				return true
			}
		}
	}
	long, short := strings.ToLower(meant), strings.ToLower(stored)
	if len(long) < len(short) {
		long, short = short, long
	}
	head, tail := 0, 0
	for head < len(short) && long[head] == short[head] {
		head++
	}
	for tail < len(short) && long[len(long)-1-tail] == short[len(short)-1-tail] {
		tail++
	}
	return len(short) > 2 && (strings.Contains(long, short) || head+tail >= max(len(long)-2, 3))
}
