package main

import (
	"context"
	"encoding/json"
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
again, TTL, memory; and in words what is damaged or not ours. It writes nothing,
and costs the server some hundred short commands at most, whatever the size of
the key. What the user may not ask (TYPE, TTL, MEMORY, OBJECT) is left out with
the reason; the -look user of sluice acl can do the rest.

Not all of a limit is stored. With the arguments that the callers use, by the
names in the script's header, the script itself is asked for what is left: for
the logs limit=3; for gcra window=1s, and burst= where it is not the limit; for
slice_ring slices= and limit=. Where they are not given, the window of a log is
taken from its TTL, the limit of a gcra from its newest grant.

By limiter and subject, it looks for every script's key with prefix=sluice
unless that is given; for one of slice_ring slice= is needed, and lease_age=
where its permits are leased; for a client's permits in token_bucket client=.

` + targetUsage + `  --script NAME     the key is one of this script, whatever its name looks like
  --json            the same as JSON; times in microseconds
  --color WHEN      auto (the default), always or never

  sluice inspect 'sluice:send-code:{ada@example.com}:ll1' limit=3
  sluice inspect send-code ada@example.com

The exit status is 1 if a script would refuse what is there.
`

// inspectFlags are the flags of inspect.
type inspectFlags struct {
	target targetFlags
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
		return inspection{}, usagef("%q is no key of our scripts: want a subject behind it, or --script", args[0])
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
		return stored.Key{}, usagef("%q is no key of our scripts: want prefix:limiter:{subject}:state, or --script", text)
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
			return w, usagef("no script has %q", name)
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
	places := map[string]string{"prefix": w.or("prefix", "sluice"), "limiter": limiter, "subject": subject}
	var err error
	if places["slice"], err = sliceParts(w); err != nil {
		return nil, err
	}
	var keys []stored.Key
	for _, script := range sluice.All() {
		text, err := fillPattern(script.Keys[0].Pattern, places)
		if err != nil {
			return nil, usagef("%v", err)
		}
		if key, ok := stored.ParseKey(text); ok && stored.Decides(script) && !strings.HasSuffix(text, ":") {
			keys = append(keys, key)
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
	rdb := t.client()
	defer rdb.Close()
	views, err := todo.views(ctx, rdb, out.plotColumns())
	if err != nil {
		return err
	}
	if f.json {
		encoder := json.NewEncoder(out.w)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(views); err != nil {
			return err
		}
	} else {
		out.views(views, todo)
	}
	if slices.ContainsFunc(views, view.refused) {
		return errReported
	}
	return nil
}

// views looks at the keys.
func (i inspection) views(ctx context.Context, rdb redis.UniversalClient, columns int) ([]view, error) {
	views := []view{}
	for _, key := range i.keys {
		node, err := nodeOf(ctx, rdb, key.Text)
		if err != nil {
			return nil, err
		}
		v, err := newView(ctx, node, key, i.words, columns)
		if err != nil {
			return nil, err
		}
		if v.State == stateAbsent && i.named {
			continue
		}
		views = append(views, v)
	}
	return views, nil
}

// overlooked says how to find a slice_ring that may be there although none was found, "" if none can be.
func (i inspection) overlooked(views []view) string {
	_, sliced := i.words.values["slice"]
	_, leased := i.words.values["lease_age"]
	found := slices.ContainsFunc(views, func(v view) bool { return v.key.IsRing() })
	switch {
	case !i.named, leased, found:
		return ""
	case !sliced:
		return "a slice_ring has its slice in the key: slice=<length> looks for it, too"
	}
	return "a slice_ring with leases has their age in the key: lease_age=<length>"
}

// nodeOf is a client of the server that has a key.
func nodeOf(ctx context.Context, rdb redis.UniversalClient, key string) (*redis.Client, error) {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.MasterForKey(ctx, key)
	case *redis.Client:
		return rdb, nil
	}
	return nil, fmt.Errorf("no server has %s", key)
}

// look asks the script for what is left, by the arguments that are given and those that the state tells. Where
// some are missing it notes which.
func (v *view) look(ctx context.Context, node *redis.Client, w words) error {
	script, _ := v.key.Script()
	args := v.lookWords(script, w)
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
