package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/loader"
)

// maxKeys is how many keys of a subject inspect shows.
const maxKeys = 40

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	subjectFlags
	json   bool
	limits []loader.Limit // as the application has them; without a window of slots
	burst  int64
	from   string // where the limits come from, if not from the command line
	script string // of the policy file; "" without one
}

// addLimit takes 3/1m, or 20 for slots.
func (f *inspectFlags) addLimit(text string) (err error) {
	var limit loader.Limit
	if limit.Permits, err = strconv.ParseInt(text, 10, 64); err != nil {
		limit, err = parseRate(text)
	}
	f.limits = append(f.limits, limit)
	return err
}

func (a app) inspect(ctx context.Context, args []string) error {
	var f inspectFlags
	flags := f.register("inspect")
	flags.Func("limit", "", f.addLimit)
	flags.Int64Var(&f.burst, "burst", 0, "")
	flags.BoolVar(&f.json, "json", false, "")
	others, err := parseFlags(flags, args)
	if err != nil {
		return err
	}
	if len(others) == 1 {
		switch key, ok := stored.ParseKey(others[0]); {
		case ok && f.file == "":
			return a.inspectKey(ctx, f, key)
		case ok:
			return usagef("--policy wants a limiter and a subject, not a key")
		}
	}
	of, err := a.named(f.subjectFlags, others)
	if err != nil {
		return err
	}
	return a.inspectSubject(ctx, f, of)
}

// inspectKey shows one key.
func (a app) inspectKey(ctx context.Context, f inspectFlags, key stored.Key) error {
	f.prefix = key.Prefix
	rdb, release, err := a.openHolder(ctx, f.serverFlags, key.Text)
	if err != nil {
		return err
	}
	defer release()
	return f.show(ctx, a, rdb, []stored.Key{key}, nil)
}

// inspectSubject finds and shows all keys of a subject.
func (a app) inspectSubject(ctx context.Context, f inspectFlags, of limited) error {
	rdb, begin, release, err := a.openSubject(ctx, f.serverFlags, f.prefix, of.limiter, of.name)
	if err != nil {
		return err
	}
	defer release()
	found := a.search(ctx, rdb, begin)
	var keys []stored.Key
	notes, err := f.take(of)
	if err != nil {
		return err
	}
	var unread error
	ids := 0
	for _, text := range found.keys {
		switch key, known := stored.ParseKey(text); {
		case known:
			keys = append(keys, key)
		case key.IsID():
			ids++
		default:
			notes = append(notes, "this key is not known: "+text)
			unread = errReported
		}
	}
	for _, limit := range f.limits {
		counts := func(key stored.Key) bool {
			slice, size, ok := key.Window()
			return ok && stored.Ring{Slice: slice, Size: size}.Counts(limit.Window.Microseconds())
		}
		rings := slices.ContainsFunc(keys, stored.Key.IsRing)
		if limit.Window > 0 && rings && !slices.ContainsFunc(keys, counts) {
			notes = append(notes, "no slice_ring of "+windowText(limit.Window)+" is stored: that window is empty")
		}
	}
	if ids > 0 {
		notes = append(notes, counted(ids, "ID of a budget is stored", "IDs of a budget are stored"))
	}
	if more := len(keys) - maxKeys; more > 0 {
		notes = append(notes, counted(more, "more key was", "more keys were")+" found and not looked at: name one to see it")
		keys, unread = keys[:maxKeys], errReported
	}
	if len(found.keys) == 0 && found.missed == nil {
		if unread = errNothing; !f.json {
			return a.nothingStored(ctx, f.subjectFlags, of, found, notes)
		}
	}
	err = cmp.Or(f.show(ctx, a, rdb, keys, notes), unread)
	missed := withRights(found.incomplete(), f.rights())
	if missed != nil && (errors.Is(err, errReported) || errors.Is(err, errNothing)) {
		return missed
	}
	return errors.Join(missed, err)
}

// take takes the limits of a policy file. It returns what is to be said of them.
func (f *inspectFlags) take(of limited) (notes []string, err error) {
	if of.policy == nil {
		return nil, nil
	}
	f.script = of.policy.Script
	rates, notes := of.says()
	switch {
	case rates == nil && f.limits == nil:
		notes = append(notes, "the limit is that of the plan, "+strings.Join(ratesOf(of.policy), "; ")+": add it by --limit")
	case rates == nil || rates[0].Permits == 0:
	case f.limits != nil:
		return nil, usagef("the file has the limit %s: leave --limit out", rateList(rates))
	default:
		f.limits, f.from = rates, f.file
		f.burst = cmp.Or(f.burst, rates[0].Permits)
	}
	return notes, nil
}

// rights is the cure if the user may not do what is needed.
func (f inspectFlags) rights() string { return rightsCure("inspect", f.prefix, f.target.Cluster != "") }

// show reads keys that are on one server and prints what they hold. Its error says what is not known, or damaged.
func (f inspectFlags) show(ctx context.Context, a app, rdb *redis.Client, keys []stored.Key, notes []string) error {
	views, err := f.views(ctx, rdb, keys)
	if err != nil {
		return withRights(err, f.rights())
	}
	used := func(v view) bool { return v.used || v.wanted == "" }
	if len(f.limits) > 0 && len(views) > 0 && views[0].State != stateAbsent && !slices.ContainsFunc(views, used) {
		return usagef("%s does not use these limits: want %s", views[0].Script, views[0].wanted)
	}
	out := newScreen(a.stdout)
	if f.json {
		if err := out.json(views); err != nil {
			return err
		}
	} else {
		for i, v := range views {
			if i > 0 {
				out.printf("\n")
			}
			out.view(v)
		}
		for _, note := range notes {
			out.printf("note: %s\n", note)
		}
	}
	var nothing error
	if len(views) > 0 {
		nothing = errNothing
	}
	for _, v := range views {
		if v.lacks != nil {
			return withRights(fmt.Errorf("%s: %w", v.Key, v.lacks), f.rights())
		}
		if v.State != stateAbsent {
			nothing = nil
		}
	}
	unknown := func(v view) bool { return v.State == stateDamaged || v.State == stateForeign || v.Doubts != nil }
	if slices.ContainsFunc(views, unknown) {
		return errReported
	}
	return nothing
}
