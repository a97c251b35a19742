package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/loader"
)

// maxKeys is how many keys of a subject inspect shows.
const maxKeys = 40

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	subjectFlags
	json    bool
	limits  []loader.Limit // as the application has them; without a window of slots
	burst   int64
	assumed string // limits of a policy file, as they stand there
	from    string // where the limits come from, if not from the command line
	script  string // of the policy file; "" without one
}

// addLimit takes 3/1m, 20 for slots, or 10000/month or 10000 for a quota, whose period is stored.
func (f *inspectFlags) addLimit(text string) (err error) {
	var limit loader.Limit
	for _, period := range []string{"/day", "/week", "/month", "/year"} {
		text = strings.TrimSuffix(text, period)
	}
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
	if len(others) == 1 && f.file == "" {
		if len(f.limits) > 0 {
			return usagef("--limit wants a limiter and a subject")
		}
		others = []string{anyLimiter, others[0]}
	}
	targets, err := a.named(f.subjectFlags, others)
	if err != nil {
		return err
	}
	return a.inspectSubject(ctx, f, targets)
}

// inspectKey shows one key.
func (a app) inspectKey(ctx context.Context, f inspectFlags, key stored.Key) error {
	f.prefix = key.Prefix
	rdb, release, err := a.openHolder(ctx, f.serverFlags, key.Text)
	if err != nil {
		return err
	}
	defer release()
	r := report{inspectFlags: f, out: newScreen(a.stdout), rdb: rdb, views: []view{}}
	return cmp.Or(r.add(ctx, key), r.end(nil))
}

// inspectSubject shows all keys of a subject: at once those whose names are known, then those that a search finds.
func (a app) inspectSubject(ctx context.Context, f inspectFlags, targets []limited) error {
	rdb, begins, release, err := a.openSubject(ctx, f.serverFlags, f.prefix, targets...)
	if err != nil {
		return err
	}
	defer release()
	r := report{inspectFlags: f, out: newScreen(a.stdout), rdb: rdb, views: []view{}}
	flags := make([]inspectFlags, len(targets))
	var first, notes []string
	for i, target := range targets {
		flags[i] = f
		noted, err := flags[i].take(target)
		if err != nil {
			return err
		}
		notes = append(notes, without(noted, notes)...)
	}
	for i, begin := range begins {
		r.inspectFlags = flags[i]
		keys, err := known(ctx, rdb, begin, windowsOf(r.limits))
		if err != nil {
			return withRights(err, f.rights())
		}
		if err := r.add(ctx, namesOf(keys, parsed)...); err != nil {
			return err
		}
		first = append(first, keys...)
	}
	found := a.search(ctx, rdb, begins)
	if len(found.keys) == 0 && found.missed == nil && len(first) == 0 {
		if !f.json {
			return a.nothingStored(ctx, f.subjectFlags, targets, found, notes)
		}
		return cmp.Or(r.end(nil), errNothing)
	}
	rest := without(found.keys, first)
	var unread error
	for i, target := range targets {
		r.inspectFlags = flags[i]
		more, err := r.sort(keysOf(rest, begins[i]), &notes)
		unread = cmp.Or(unread, err)
		if err := r.add(ctx, more...); err != nil {
			return err
		}
		switch stored := len(keysOf(first, begins[i])) + len(keysOf(rest, begins[i])); {
		case stored > 0:
			notes = append(r.emptyWindows(target.limiter), notes...)
		case found.missed == nil:
			notes = append([]string{"nothing is stored of " + target.limiter}, notes...)
		}
	}
	r.inspectFlags = f
	err = cmp.Or(r.end(notes), unread)
	missed := withRights(found.incomplete(), f.rights())
	if missed != nil && (errors.Is(err, errReported) || errors.Is(err, errNothing)) {
		return missed
	}
	return errors.Join(missed, err)
}

// parsed is a key of a known script.
func parsed(text string) stored.Key {
	key, _ := stored.ParseKey(text)
	return key
}

func windowsOf(limits []loader.Limit) []time.Duration {
	return namesOf(limits, func(limit loader.Limit) time.Duration { return limit.Window })
}

// sort returns the keys that are to be read, and adds notes of the others. Its error says that something is not known.
func (r *report) sort(found []string, notes *[]string) (keys []stored.Key, unread error) {
	ids := 0
	for _, text := range found {
		switch key, known := stored.ParseKey(text); {
		case known:
			keys = append(keys, key)
		case key.IsID():
			ids++
		default:
			*notes = append(*notes, "this key is not known: "+text)
			unread = errReported
		}
	}
	if ids > 0 {
		*notes = append(*notes, counted(ids, "ID of a budget is stored", "IDs of a budget are stored"))
	}
	if more := len(keys) - max(maxKeys-len(r.views), 0); more > 0 {
		*notes = append(*notes,
			counted(more, "more key was", "more keys were")+" found and not looked at: name one to see it")
		keys, unread = keys[:len(keys)-more], errReported
	}
	return keys, unread
}

// emptyWindows returns notes of the limits whose windows are not among the rings of their limiter.
func (r *report) emptyWindows(limiter string) (notes []string) {
	var rings []stored.Ring
	for _, v := range r.views {
		if slice, size, ok := parsed(v.Key).Window(); ok && v.Limiter == limiter {
			rings = append(rings, stored.Ring{Slice: slice, Size: size})
		}
	}
	for _, limit := range r.limits {
		counts := func(ring stored.Ring) bool { return ring.Counts(limit.Window.Microseconds()) }
		if limit.Window > 0 && len(rings) > 0 && !slices.ContainsFunc(rings, counts) {
			notes = append(notes, "no slice_ring of "+windowText(limit.Window)+" is stored: that window is empty")
		}
	}
	return notes
}

// take takes the limits of a policy file. It returns what is to be said of them.
func (f *inspectFlags) take(target limited) (notes []string, err error) {
	if target.policy == nil {
		return nil, nil
	}
	p := target.policy
	f.script = p.Script
	rates, notes := target.says()
	isOther := func(l loader.Limit) bool { return (l.Window > 0) != (p.Period == "") } // of a plan's windows and periods
	switch {
	case target.limiter != p.Name: // the ban
		f.script, f.limits = "list_log", nil
	case rates == nil:
		f.limits = slices.DeleteFunc(slices.Clone(f.limits), isOther)
	}
	switch {
	case rates == nil && len(f.limits) == 0:
		notes = append(notes,
			"the limit is that of the plan, "+strings.Join(ratesOf(p), "; ")+": add it by --limit")
	case rates == nil || rates[0].Permits == 0:
	case f.limits != nil:
		return nil, usagef("the file has the limit %s: leave --limit out", p.Show(rates))
	default:
		f.limits, f.from, f.assumed = slices.Clone(rates), f.file, p.Show(rates)
		if p.Period != "" && target.limiter == p.Name {
			f.limits[0].Window = 0 // the period is stored
		}
		f.burst = cmp.Or(f.burst, rates[0].Permits)
	}
	return notes, nil
}

// rights is the cure if the user may not do what is needed.
func (f inspectFlags) rights() string { return rightsCure("inspect", f.prefix, f.target.Cluster != "") }

// report is what inspect prints about keys that are on one server.
type report struct {
	inspectFlags
	out   screen
	rdb   *redis.Client
	views []view
}

// add reads keys and prints at once what they hold, unless that is to be JSON.
func (r *report) add(ctx context.Context, keys ...stored.Key) error {
	if len(keys) == 0 {
		return nil
	}
	views, err := r.read(ctx, r.rdb, keys)
	if err != nil {
		return withRights(err, r.rights())
	}
	for i, v := range views {
		switch {
		case r.json:
			continue
		case i > 0 || len(r.views) > 0:
			r.out.printf("\n")
		}
		r.out.view(v)
	}
	r.views = append(r.views, views...)
	return nil
}

// end prints the rest. Its error says what is not known, or damaged.
func (r *report) end(notes []string) error {
	used := func(v view) bool { return v.used || v.wanted == "" }
	if n := len(r.views); len(r.limits) > 0 && n > 0 && r.views[0].State != stateAbsent && !slices.ContainsFunc(r.views, used) {
		return usagef("%s does not use these limits: want %s", r.views[0].Script, r.views[0].wanted)
	}
	if r.json {
		if err := r.out.json(r.views); err != nil {
			return err
		}
	} else {
		for _, note := range notes {
			r.out.printf("note: %s\n", note)
		}
	}
	var nothing error
	if len(r.views) > 0 {
		nothing = errNothing
	}
	for _, v := range r.views {
		if v.lacks != nil {
			return withRights(fmt.Errorf("%s: %w", v.Key, v.lacks), r.rights())
		}
		if v.State != stateAbsent {
			nothing = nil
		}
	}
	unknown := func(v view) bool { return v.State == stateDamaged || v.State == stateForeign || v.Doubts != nil }
	if slices.ContainsFunc(r.views, unknown) {
		return errReported
	}
	return nothing
}
