package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/loader"
)

// words holds the name=value arguments and which of them were used.
type words struct {
	values  map[string]string
	used    map[string]bool
	windows []window // inspect only: limit=100/1m
}

func parseWords(args []string) (words, error) {
	w := words{values: map[string]string{}, used: map[string]bool{}}
	for _, arg := range args {
		name, value, found := strings.Cut(arg, "=")
		if !found || name == "" {
			return w, usagef("unexpected argument %s: want name=value", given(arg))
		}
		if _, twice := w.values[name]; twice {
			return w, usagef("%s is given twice", given(name))
		}
		w.values[name] = value
	}
	return w, nil
}

// take returns the value of a name and marks it as used.
func (w words) take(name string) (string, bool) {
	value, found := w.values[name]
	w.used[name] = found
	return value, found
}

// or is take with a default value.
func (w words) or(name, fallback string) string {
	if value, found := w.take(name); found {
		return value
	}
	return fallback
}

// other returns the first name, in the order of the alphabet, for which known is false, or "".
func (w words) other(known func(name string) bool) string {
	for _, name := range slices.Sorted(maps.Keys(w.values)) {
		if !known(name) {
			return name
		}
	}
	return ""
}

// newAttempt fills in a script's keys and arguments from name=value arguments.
func newAttempt(script sluice.Script, args []string) (attempt, error) {
	w, err := parseWords(args)
	if err != nil {
		return attempt{}, err
	}
	return fillAttempt(script, w)
}

func fillAttempt(script sluice.Script, w words) (t attempt, err error) {
	t.script = script
	if t.args, err = fillArgs(script, w); err != nil {
		return t, err
	}
	if t.keys, err = fillKeys(script, w, t.args); err != nil {
		return t, err
	}
	if name := w.other(func(name string) bool { return w.used[name] }); name != "" {
		return t, usagef("%s has no %s: want %s, or key, prefix, limiter, subject, client", fullName(script), given(name),
			strings.Join(append(argNames(script), keyNames(script)...), ", "))
	}
	return t, nil
}

// fillArgs returns the script's arguments in order. Only durations are parsed here. Everything else goes to the
// script unchanged, because its error says what it wants.
func fillArgs(script sluice.Script, w words) ([]any, error) {
	var args []any
	var repeated []sluice.Field
	for _, field := range script.Args {
		if field.Repeated {
			repeated = append(repeated, field)
			continue
		}
		arg, err := fillArg(script, field, w, field.Name)
		if err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	for i := 1; len(repeated) > 0 && i <= script.Group.Max; i++ {
		has := func(field sluice.Field) bool { _, found := w.values[repetition(field, i)]; return found }
		if i > script.Group.Min && !slices.ContainsFunc(repeated, has) {
			break
		}
		for _, field := range repeated {
			arg, err := fillArg(script, field, w, repetition(field, i))
			if err != nil {
				return nil, err
			}
			args = append(args, arg)
		}
	}
	return args, nil
}

// repetition returns the name of the i-th occurrence of a repeated field: slices_1.
func repetition(field sluice.Field, i int) string {
	return strings.TrimSuffix(field.Name, "_i") + "_" + strconv.Itoa(i)
}

// fillArg returns one argument, or its default.
func fillArg(script sluice.Script, field sluice.Field, w words, name string) (any, error) {
	value, found := w.take(name)
	if !found && field.Repeated && strings.HasSuffix(name, "_1") {
		value, found = w.take(strings.TrimSuffix(name, "_1"))
	}
	switch {
	case found && field.Type == "us":
		return microseconds(name, value)
	case found && field.Type == "time":
		return unixMicros(name, value)
	case found:
		return value, nil
	case field.Name == "permits":
		return "1", nil
	case field.Name == "burst":
		return w.values["limit"], nil
	case slices.Contains([]string{"max_wait", "scope", "renew", "unknown"}, field.Name):
		return "0", nil
	case field.Type == "str":
		return "", nil
	}
	text := fmt.Sprintf("%s wants %s: %s (%s)", fullName(script), name, field.Text, bounds(field))
	return nil, &missingError{argument: name, usageError: usageError{text}}
}

// missingError reports a required argument that is missing.
type missingError struct {
	usageError
	argument string
}

func (e *missingError) Unwrap() error { return &e.usageError }

// bounds returns the range of a field as text; durations have units.
func bounds(field sluice.Field) string {
	lower, upper := strconv.FormatInt(field.Min, 10), strconv.FormatInt(field.Max, 10)
	if field.Type == "us" {
		lower, upper = length(field.Min), length(field.Max)
	}
	if field.Max < 0 {
		return lower + " or more"
	}
	return lower + " to " + upper
}

// microseconds converts a duration to microseconds. It takes a number of microseconds, or a number with a unit
// (d is days). Other numbers are passed on, because the script checks them.
func microseconds(name, text string) (string, error) {
	if strings.Trim(text, "0123456789") == "" {
		return text, nil
	}
	d, err := parseLength(text)
	if err != nil {
		return "", usagef("%s is %s: want microseconds, or a unit as in 250ms, 1m30s, 7d", name, given(text))
	}
	if d%time.Microsecond != 0 {
		return "", usagef("%s is %s: want whole microseconds", name, given(text))
	}
	return strconv.FormatInt(d.Microseconds(), 10), nil
}

// timeLayout is the format in which times are shown. They may be given in it too.
const timeLayout = "2006-01-02 15:04:05.000000 UTC"

// unixMicros converts a time to microseconds since 1970. It takes microseconds, timeLayout or RFC 3339.
func unixMicros(name, text string) (string, error) {
	if strings.Trim(text, "0123456789") == "" {
		return text, nil
	}
	for _, layout := range []string{timeLayout, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return strconv.FormatInt(at.UnixMicro(), 10), nil
		}
	}
	return "", usagef("%s is %s: want microseconds since 1970, or a time such as 2030-01-31T12:00:00.123456Z", name,
		given(text))
}

func parseLength(text string) (time.Duration, error) {
	head, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	days, err := strconv.ParseInt(head, 10, 16)
	if err != nil {
		return 0, err
	}
	d := time.Duration(days) * 24 * time.Hour
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	return d + more, err
}

// fillKeys returns the script's keys: as given, or built from the header's patterns.
func fillKeys(script sluice.Script, w words, args []any) ([]string, error) {
	places := map[string]string{
		"prefix": w.or("prefix", "sluice"), "limiter": w.or("limiter", "try"),
		"subject": w.or("subject", "demo"), "client": w.or("client", "cli"),
	}
	if endsInID(script) {
		places["id"] = w.or("id", "")
	}
	for i, field := range script.Args {
		if !field.Repeated {
			places[field.Name] = fmt.Sprint(args[i])
		}
	}
	var keys []string
	for _, key := range script.Keys {
		text, err := fillPattern(key.Pattern, places)
		if err != nil {
			return nil, usagef("%v", err)
		}
		keys = append(keys, text)
	}
	for i := 2; script.KeyGroup != nil; i++ { // further subjects: subject_2=bob
		subject, found := w.take("subject_" + strconv.Itoa(i))
		if !found {
			break
		}
		places["subject"] = subject
		text, err := fillPattern(script.Keys[0].Pattern, places)
		if err != nil {
			return nil, usagef("%v", err)
		}
		keys = append(keys, text)
	}
	if first, whole := w.take("key"); whole {
		own := keys[0]
		for i := range keys {
			keys[i] = first + strings.TrimPrefix(keys[i], own)
		}
	}
	for i, key := range script.Keys {
		if key.Name != "id" { // id= is the end of that key
			keys[i] = w.or(key.Name, keys[i])
		}
	}
	return keys, nil
}

// endsInID reports whether the last of a script's keys ends in the id of a request.
func endsInID(script sluice.Script) bool {
	return strings.HasSuffix(script.Keys[len(script.Keys)-1].Pattern, ":<id>")
}

// fillPattern fills in a key pattern such as "<prefix>:<limiter>:{<subject>}:sr1:<slice>".
func fillPattern(pattern string, places map[string]string) (string, error) {
	_, tail, _ := strings.Cut(pattern, "}:")
	parts := strings.Split(tail, ":")
	for i, part := range parts {
		if name, found := strings.CutPrefix(part, "<"); found {
			parts[i] = places[strings.TrimSuffix(name, ">")]
		}
	}
	return keyOf(places["prefix"], places["limiter"], places["subject"], parts[0], parts[1:]...)
}

// keyOf is loader.Key, whose error shows what was passed: a URL that stands in the wrong place may hold a password.
func keyOf(prefix, limiter, subject, state string, parts ...string) (string, error) {
	key, err := loader.Key(prefix, limiter, subject, state, parts...)
	bad, ok := errors.AsType[*loader.ArgumentError](err)
	if !ok {
		return key, err
	}
	value, err := strconv.Unquote(bad.Value)
	if err != nil {
		value = bad.Value
	}
	return "", fmt.Errorf("%s is %s: want %s", bad.Argument, given(value), bad.Want)
}
