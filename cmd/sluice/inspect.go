package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/cmd/sluice/internal/stored"
	"github.com/sluice-redis/sluice/loader"
)

const inspectUsage = `usage: sluice inspect [flags] <key> [name=value ...]
       sluice inspect [flags] <limiter> <subject> [name=value ...]

Shows what Redis holds for one subject as a person wants it: which script's it
is, the permits as a picture over time, how many are live, when they are free
again, TTL, memory; and in words what is damaged or not ours. It writes nothing.
A key costs the server some hundred short commands at most, whatever its size.
What the user may not ask besides (TYPE, TTL, MEMORY, OBJECT) is left out with
the reason; the -look user of sluice acl can do the rest.

Not all of a limit is stored. With the arguments that the callers use, by the
names in the script's header, the script itself is asked for what is left: for
the logs limit=3; for gcra window=1s burst=5; for slice_ring slices= and limit=.
Where they are not given, the window of a log is taken from its TTL, the limit
of a gcra from its newest grant.
Its burst is not stored: what is left is not known without burst=.

By limiter and subject, it looks at every key of the subject, with prefix=sluice
unless that is given. Names of keys hold what only the callers know, as the
slice and the lease_age of a slice_ring: so it goes through the keys of the
server by SCAN, 200 at a time, with rests (5 to 10 s for a million keys; Ctrl-C
shows what was found). In a cluster that is the master of the subject's slot.
It says that nothing is stored only after all of that went well. The user needs
SCAN and EXISTS besides, which the users of sluice acl may not.

` + targetUsage + `  --script NAME     the key is one of this script, whatever its name looks like
  --no-scan         only keys that the arguments name: slice= (and lease_age=)
                    for a slice_ring, client= for one's permits
  --json            the same as JSON; times in microseconds
  --color WHEN      auto (the default), always or never

  sluice inspect 'sluice:send-code:{ada@example.com}:ll1' limit=3
  sluice inspect send-code ada@example.com

The exit status is 0 if all was looked at and no script would refuse what is
there; 1 if one would, or if something is not known: a server did not answer or
refused, a key cannot be read, a slot is moving, --no-scan found nothing. The
message names the server and what it said.
`

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	target targetFlags
	noScan bool
	script string
	json   bool
	color  string
}

// inspection is what is to be looked at.
type inspection struct {
	keys  []stored.Key
	words words
	named bool // by limiter and subject: keys that are not there are left out
}

func parseInspect(args []string) (inspectFlags, inspection, error) {
	var f inspectFlags
	flags := newFlags("inspect")
	f.target.register(flags)
	flags.StringVar(&f.script, "script", "", "")
	flags.BoolVar(&f.noScan, "no-scan", false, "")
	flags.BoolVar(&f.json, "json", false, "")
	flags.StringVar(&f.color, "color", "auto", "")
	others, err := parseFlags(flags, args)
	if err != nil {
		return f, inspection{}, err
	}
	todo, err := newInspection(f.script, others)
	return f, todo, err
}

// newInspection reads the arguments: a key, or a limiter and a subject; then words.
func newInspection(script string, args []string) (inspection, error) {
	switch {
	case len(args) == 0:
		return inspection{}, usagef("want a key, or a limiter and a subject")
	case script != "" || strings.Contains(args[0], "{"):
		key, err := keyNamed(script, args[0])
		if err != nil {
			return inspection{}, err
		}
		w, err := inspectWords(args[1:])
		return inspection{keys: []stored.Key{key}, words: w}, err
	case len(args) == 1:
		return inspection{}, usagef("%s is no key of our scripts: want a subject behind it, or --script", given(args[0]))
	}
	w, err := inspectWords(args[2:])
	if err != nil {
		return inspection{}, err
	}
	keys, err := keysOf(args[0], args[1], w)
	return inspection{keys: keys, words: w, named: true}, err
}

// keyNamed is a key, of a script that is named or that its own name tells.
func keyNamed(name, text string) (stored.Key, error) {
	if name == "" {
		if key, ok := stored.ParseKey(text); ok {
			return key, nil
		}
		return stored.Key{}, usagef("%s is no key of our scripts: want prefix:limiter:{subject}:state, or --script",
			given(text))
	}
	script, err := findScript(name)
	if err != nil {
		return stored.Key{}, err
	}
	return stored.KeyOf(script, text), nil
}

// inspectWords are name=value arguments that some script has, or that stand in keys.
func inspectWords(args []string) (words, error) {
	w, err := parseWords(args)
	if err != nil {
		return w, err
	}
	for _, name := range slices.Sorted(maps.Keys(w.values)) {
		known := slices.Contains([]string{"prefix", "client", "lease_age"}, name) ||
			slices.ContainsFunc(sluice.All(), func(script sluice.Script) bool { return takes(script, name) })
		if !known {
			return w, usagef("no script has %s", given(name))
		}
	}
	return w, nil
}

// takes reports whether a script has an argument of that name.
func takes(script sluice.Script, name string) bool {
	return slices.ContainsFunc(script.Args, func(arg sluice.Field) bool {
		return named(arg, name) || arg.Repeated && strings.TrimSuffix(arg.Name, "_i") == name
	})
}

// keysOf are the keys under which scripts keep what they know of a subject.
func keysOf(limiter, subject string, w words) ([]stored.Key, error) {
	return keysBy(limiter, subject, w, func(script sluice.Script) []sluice.Key { return script.Keys[:1] })
}

// keysBy are those keys of the scripts of which the arguments say the whole name.
func keysBy(limiter, subject string, w words, of func(sluice.Script) []sluice.Key) ([]stored.Key, error) {
	places := map[string]string{
		"prefix": w.or("prefix", "sluice"), "limiter": limiter, "subject": subject, "client": w.or("client", ""),
	}
	var err error
	if places["slice"], err = sliceParts(w); err != nil {
		return nil, err
	}
	var keys []stored.Key
	for _, script := range sluice.All() {
		for _, field := range of(script) {
			text, err := fillPattern(field.Pattern, places)
			if err != nil {
				return nil, usagef("%v", err)
			}
			if key, ok := stored.ParseKey(text); ok && stored.Decides(script) && !strings.HasSuffix(text, ":") {
				keys = append(keys, key)
			}
		}
	}
	return keys, nil
}

// sliceParts is what stands in the key of a slice_ring behind its code, as far as it is given: the slice, and
// behind it the age of leases.
func sliceParts(w words) (string, error) {
	slice := w.or("slice", "")
	age, leased := w.take("lease_age")
	switch {
	case leased && slice == "":
		return "", usagef("lease_age wants slice=, too: the key has both")
	case slice == "":
		return "", nil
	}
	slice, err := microseconds("slice", slice)
	if err != nil || !leased {
		return slice, err
	}
	age, err = microseconds("lease_age", age)
	return slice + ":" + age, err
}

func (a app) inspect(ctx context.Context, args []string) error {
	f, todo, err := parseInspect(args)
	if err != nil {
		return err
	}
	out, err := a.newScreen(a.stdout, f.color)
	if err != nil {
		return err
	}
	t, err := a.target(f.target)
	if err != nil {
		return err
	}
	rdb, release, err := t.holder(ctx, todo.keys[0].Text)
	if err != nil {
		return err
	}
	defer release()
	views, err := todo.views(ctx, rdb, todo.keys, out.plotColumns())
	if err != nil {
		return err
	}
	found := search{missed: errNotScanned}
	if todo.named && !f.noScan {
		found = a.search(ctx, rdb, todo)
		var more []view
		if more, err = todo.views(ctx, rdb, found.others(views), out.plotColumns()); err == nil {
			views = append(views, more...)
		} else if found.missed == nil {
			found.missed = err
		}
	}
	if f.json {
		if err := out.json(views); err != nil {
			return err
		}
	} else {
		out.views(views, todo, found)
	}
	return todo.verdict(ctx, views, found)
}

// verdict is the error that an inspection ends with: nil if all was looked at and no script would refuse any of it.
func (i inspection) verdict(ctx context.Context, views []view, found search) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case i.named && found.missed != nil && (found.missed != errNotScanned || len(views) == 0):
		return fmt.Errorf("not known whether more is stored for %s: %w", i.keys[0].Subject, found.missed)
	case found.unread() > 0, slices.ContainsFunc(views, view.refused), slices.ContainsFunc(views, i.hides):
		return errReported
	}
	return nil
}

// hides reports whether something is not known of a key that was asked about. What the server could tell besides (TYPE,
// MEMORY, the TTL) is not counted, and what is left only where arguments for it were given.
func (i inspection) hides(v view) bool {
	script, _ := v.key.Script()
	for line := range v.Refused {
		switch line {
		case "rate", "history":
			return true
		case "left":
			for name := range i.words.values {
				if takes(script, name) {
					return true
				}
			}
		}
	}
	return v.State == stateUnknown
}

// views looks at keys that a server has.
func (i inspection) views(ctx context.Context, node *redis.Client, keys []stored.Key, columns int) ([]view, error) {
	views := []view{}
	for _, key := range keys {
		v, err := newView(ctx, node, key, i.wordsFor(key), columns)
		if err != nil {
			return nil, err
		}
		if v.State == stateAbsent && v.Config == nil && i.named {
			continue
		}
		views = append(views, v)
	}
	return views, nil
}

// wordsFor are the words for a key. A ring that was found by a scan says itself how long its slices are.
func (i inspection) wordsFor(key stored.Key) words {
	if !i.named || !key.IsRing() || slices.ContainsFunc(i.keys,
		func(own stored.Key) bool { return own.Text == key.Text }) {
		return i.words
	}
	w := words{values: maps.Clone(i.words.values), used: i.words.used}
	delete(w.values, "slice")
	delete(w.values, "lease_age")
	return w
}

// look asks the script for what is left, by the arguments that are given and those that the state tells. Where
// some are missing it notes which.
func (v *view) look(ctx context.Context, node *redis.Client, w words) error {
	script, _ := v.key.Script()
	args := v.lookWords(script, w)
	if _, given := w.values["burst"]; takes(script, "burst") && !given {
		v.Wanted = append(v.Wanted, "burst") // it is not stored, and need not be the limit
	}
	todo, err := newAttempt(script, args)
	for missing := (*missingError)(nil); errors.As(err, &missing); todo, err = newAttempt(script, args) {
		v.Wanted = append(v.Wanted, missing.argument)
		args = append(args, missing.argument+"=1")
	}
	if err != nil || len(v.Wanted) > 0 {
		return err
	}
	reply, err := loader.New(node, loader.ReadReplicas(), loader.PreloadedOnly()).Call(ctx, &script, todo.keys, todo.args...)
	var bad *loader.ArgumentError
	switch {
	case errors.As(err, &bad):
		return todo.explained(err)
	case err != nil:
		v.refuse("left", err)
		return nil
	}
	v.Left = map[string]int64{}
	for i, field := range replyFields(script, len(reply)) {
		v.Left[field.Name] = reply[i]
	}
	v.reply, v.asked = reply, todo
	for i, arg := range script.Args {
		if arg.Name == "burst" {
			v.burst, err = strconv.ParseInt(fmt.Sprint(todo.args[i]), 10, 64)
		}
	}
	return err
}

// lookWords are the arguments for a look.
func (v *view) lookWords(script sluice.Script, w words) []string {
	values := map[string]string{"permits": "0"}
	known := map[string]int64{"window": v.Window}
	if v.Limit > 0 {
		known["limit"] = v.Limit
	}
	if v.Ring != nil {
		known["slice"] = v.Ring.Slice
	}
	if v.Config != nil {
		known["rate"], known["interval"] = v.Config.Rate, v.Config.Interval
	}
	for name, n := range known {
		if n > 0 {
			values[name] = strconv.FormatInt(n, 10)
		}
	}
	maps.Copy(values, w.values)
	maps.DeleteFunc(values, func(name, _ string) bool { return !takes(script, name) })
	values["key"] = v.key.Config().Text
	if v.Client != "" {
		values["client"] = v.Client
	}
	var args []string
	for name, value := range values {
		args = append(args, name+"="+value)
	}
	return args
}
