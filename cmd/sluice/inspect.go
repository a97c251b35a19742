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

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	serverFlags
	noScan bool
	script string
	json   bool
}

// inspection holds the keys to look at and the other arguments.
type inspection struct {
	keys   []stored.Key
	words  words
	rights string // the cure if the user may not do what is needed
	named  bool   // limiter and subject were given, not a key: leave out absent keys
}

func parseInspect(args []string) (inspectFlags, inspection, error) {
	var f inspectFlags
	flags := f.register("inspect")
	flags.StringVar(&f.script, "script", "", "")
	flags.BoolVar(&f.noScan, "no-scan", false, "")
	flags.BoolVar(&f.json, "json", false, "")
	others, err := parseFlags(flags, args)
	if err != nil {
		return f, inspection{}, undashed(err, args, isInspectWord)
	}
	todo, err := newInspection(f.script, others)
	return f, todo, err
}

// newInspection parses the arguments: a key, or a limiter and a subject, and then name=value words.
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
		return inspection{}, usagef("%s is not a key of our scripts: want a subject after it, or --script%s", given(args[0]),
			listsSubjects(args[0]))
	case isWord(args[1], isInspectWord):
		return inspection{}, usagef("want a subject after %s%s", given(args[0]), listsSubjects(args[0]))
	}
	w, err := inspectWords(args[2:])
	if err != nil {
		return inspection{}, err
	}
	keys, err := keysBy(args[0], args[1], w, func(script sluice.Script) []sluice.Key { return script.Keys[:1] })
	return inspection{keys: keys, words: w, named: true}, err
}

// keyNamed returns the key with this text. Its script is the named one, or follows from the key.
func keyNamed(name, text string) (stored.Key, error) {
	if name == "" {
		if key, ok := stored.ParseKey(text); ok {
			return key, nil
		}
		return stored.Key{}, usagef("%s is not a key of our scripts: want prefix:limiter:{subject}:state, or --script",
			given(text))
	}
	script, err := findScript(name)
	if err != nil {
		return stored.Key{}, err
	}
	return stored.KeyOf(script, text), nil
}

// inspectWords parses name=value arguments: arguments of a script, or parts of keys.
func inspectWords(args []string) (words, error) {
	windows, args, err := cutWindows(args)
	if err != nil {
		return words{}, err
	}
	w, err := parseWords(args)
	if err != nil {
		return w, err
	}
	w.windows = windows
	if err := w.checkWindows(); err != nil {
		return w, err
	}
	if name := w.other(isInspectWord); name != "" {
		return w, usagef("no script has an argument %s", given(name))
	}
	return w, nil
}

// isInspectWord reports whether inspect takes name=.
func isInspectWord(name string) bool {
	return slices.Contains([]string{"prefix", "client", "lease_age"}, name) ||
		slices.ContainsFunc(sluice.All(), func(script sluice.Script) bool { return takes(script, name) })
}

// takes reports whether a script has an argument with this name.
func takes(script sluice.Script, name string) bool {
	return slices.ContainsFunc(script.Args, func(arg sluice.Field) bool {
		return named(arg, name) || arg.Repeated && strings.TrimSuffix(arg.Name, "_i") == name
	})
}

// keysBy returns the keys whose whole name follows from the arguments.
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

// sliceParts returns the end of the key of a slice_ring, as far as it was given: the slice, and then the lease age.
func sliceParts(w words) (string, error) {
	slice := w.or("slice", "")
	age, leased := w.take("lease_age")
	switch {
	case leased && slice == "":
		return "", usagef("lease_age wants slice= too: the key has both")
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
	todo.rights = rightsCure("inspect", todo.prefix(), f.target.cluster != "")
	return withRights(a.inspectAll(ctx, f, todo), todo.rights)
}

// prefix is the start of the keys, for an ACL.
func (i inspection) prefix() string {
	if prefix := i.keys[0].Prefix; isName(prefix) {
		return prefix
	}
	return "<prefix>"
}

func (a app) inspectAll(ctx context.Context, f inspectFlags, todo inspection) error {
	out, rdb, release, err := a.openHolder(ctx, f.serverFlags, todo.keys[0])
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
	if found.missed == nil || found.missed == errNotScanned { // else a key that was not found may use them
		if err := todo.unused(views); err != nil {
			return err
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

// verdict returns the final error: nil if everything was read and no script would refuse it.
func (i inspection) verdict(ctx context.Context, views []view, found search) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case i.named && found.missed != nil && (found.missed != errNotScanned || len(views) == 0):
		return fmt.Errorf("it is not known whether more is stored for %s: %w", i.keys[0].Subject, found.missed)
	case found.unread() > 0, slices.ContainsFunc(views, view.refused), slices.ContainsFunc(views, i.hides):
		return errReported
	}
	return nil
}

// hides reports whether something that was asked about a key is not known. TYPE, MEMORY and the TTL do not count,
// and the permits that are left count only if arguments for them were given.
func (i inspection) hides(v view) bool {
	script, _ := v.key.Script()
	for line := range v.Refused {
		switch line {
		case "rate", "history", "holders":
			return true
		case "left":
			if len(i.words.windows) > 0 {
				return true
			}
			for name := range i.words.values {
				if takes(script, name) {
					return true
				}
			}
		}
	}
	return v.State == stateUnknown
}

// views reads keys on their server.
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

// wordsFor returns the words for a key. A ring that was found by a scan stores the length of its slices.
func (i inspection) wordsFor(key stored.Key) words {
	if !i.named || !key.IsRing() || slices.ContainsFunc(i.keys,
		func(own stored.Key) bool { return own.Text == key.Text }) {
		return i.words
	}
	w := words{values: maps.Clone(i.words.values), used: i.words.used, windows: i.words.windows}
	delete(w.values, "slice")
	delete(w.values, "lease_age")
	return w
}

// look asks the script how many permits are left. The arguments come from the command line and from the state.
// If some are missing, it notes which.
func (v *view) look(ctx context.Context, node *redis.Client, w words) error {
	script, _ := v.key.Script()
	args := v.lookWords(script, w)
	if _, given := w.values["burst"]; takes(script, "burst") && !given {
		v.Wanted = append(v.Wanted, "burst") // it is not stored and may differ from the limit
	}
	todo, err := newAttempt(script, args)
	for missing := (*missingError)(nil); errors.As(err, &missing); todo, err = newAttempt(script, args) {
		v.Wanted = append(v.Wanted, missing.argument)
		args = append(args, missing.argument+"=1")
	}
	if err != nil || len(v.Wanted) > 0 {
		v.sayWhereLimitIs()
		return err
	}
	limits := loader.New(node, loader.ReadReplicas(), loader.PreloadedOnly())
	reply, err := limits.Call(ctx, &script, todo.keys, todo.args...)
	if _, bad := errors.AsType[*loader.ArgumentError](err); bad {
		return todo.failed(v.Node, err)
	}
	if err != nil {
		v.refuse("left", err)
		return nil
	}
	v.Left = map[string]int64{}
	for i, field := range repeatedTo(len(reply), script.Reply) {
		v.Left[field.Name] = reply[i]
	}
	v.reply, v.asked = reply, todo
	v.WindowsMissing = v.missesWindows()
	for i, arg := range script.Args {
		if arg.Name == "burst" {
			v.burst, err = strconv.ParseInt(fmt.Sprint(todo.args[i]), 10, 64)
		}
	}
	return err
}

// sayWhereLimitIs adds to the meaning that the limit is not stored.
func (v *view) sayWhereLimitIs() {
	if v.State == stateLive && v.Config == nil && !strings.Contains(v.Meaning, "window=") {
		v.Meaning += "; the limit is in the application: add limit="
	}
}

// lookWords returns the arguments for a look.
func (v *view) lookWords(script sluice.Script, w words) []string {
	values := map[string]string{"permits": "0", "ttl": "1s"} // a look does not depend on the ttl
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
