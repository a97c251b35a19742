package main

import (
	"errors"
	"flag"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// newFlags returns a flag set that prints nothing: the caller reports errors.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseFlags parses flags at any position and returns the other arguments.
func parseFlags(flags *flag.FlagSet, args []string) ([]string, error) {
	var others []string
	for {
		if err := flags.Parse(args); err != nil {
			return nil, flagError(err)
		}
		rest := flags.Args()
		if len(rest) == 0 {
			return others, nil
		}
		others = append(others, rest[0])
		args = rest[1:]
	}
}

// parseOnlyFlags parses flags and refuses all other arguments.
func parseOnlyFlags(flags *flag.FlagSet, args []string) error {
	others, err := parseFlags(flags, args)
	if err == nil && len(others) > 0 {
		err = usagef("unexpected argument %s", given(others[0]))
	}
	return err
}

func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return errHelp
	}
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		if shown := given(name); shown != strconv.Quote(name) {
			name = shown
		}
		return usagef("there is no flag --%s", name)
	}
	if name, found := strings.CutPrefix(text, "flag needs an argument: -"); found {
		return usagef("--%s wants a value", name)
	}
	// The quoted value ends at the last " for ".
	value, rest := text, ""
	if at := strings.LastIndex(text, " for "); at >= 0 {
		value, rest = text[:at], text[at:]
	}
	if at := strings.Index(value, `"`); at >= 0 && rest != "" {
		if unquoted, err := strconv.Unquote(value[at:]); err == nil {
			rest = strings.Replace(strings.Replace(rest, "flag -", "-", 1), " -", " --", 1)
			return usagef("%s%s%s", value[:at], given(unquoted), strings.Replace(rest, "parse error", "want a whole number", 1))
		}
	}
	return usagef("%s is not a flag", given(value))
}

// undashed adds to the error of an unknown flag that it is written without dashes, if it is an argument name=value.
func undashed(err error, args []string, isArgument func(name string) bool) error {
	for i, arg := range args {
		name, value, hasValue := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "-") || !isArgument(name) || err.Error() != "there is no flag --"+name {
			continue
		}
		if !hasValue && i+1 < len(args) {
			value = args[i+1]
		}
		if value == "" || strings.HasPrefix(value, "-") || given(value) != strconv.Quote(value) {
			value = "..."
		}
		return usagef("%v: write %s=%s, without dashes", err, name, value)
	}
	return err
}

// parseSubject parses the flags of a command that takes a limiter, a subject and name=value arguments of these names.
func parseSubject(flags *flag.FlagSet, args []string, names ...string) (limiter, subject string, w words, err error) {
	isArgument := func(name string) bool { return slices.Contains(names, name) }
	others, err := parseFlags(flags, args)
	switch {
	case err != nil:
		return "", "", w, undashed(err, args, isArgument)
	case len(others) == 0:
		return "", "", w, usagef("want a limiter and a subject")
	case len(others) == 1, isWord(others[1], isArgument):
		return "", "", w, usagef("want a limiter and a subject%s", listsSubjects(others[0]))
	}
	w, err = parseWords(others[2:])
	if name := w.other(isArgument); err == nil && name != "" {
		err = usagef("%s has no argument %s: want %s", flags.Name(), given(name), strings.Join(names, ", "))
	}
	return others[0], others[1], w, err
}

// isWord reports whether an argument is a name=value argument of the command, not a subject.
func isWord(arg string, isArgument func(name string) bool) bool {
	name, _, found := strings.Cut(arg, "=")
	return found && isArgument(name)
}

// listsSubjects is the end of a message that a subject is missing.
func listsSubjects(limiter string) string {
	if given(limiter) != strconv.Quote(limiter) {
		return ""
	}
	return ": `sluice top --limiter " + limiter + "` lists its subjects"
}

// lengthFlag adds a flag whose value is a duration.
func lengthFlag(flags *flag.FlagSet, to *time.Duration, name string, fallback time.Duration) {
	*to = fallback
	flags.Func(name, "", func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("want a number with a unit, such as 12s or 20ms")
		}
		*to = d
		return nil
	})
}
