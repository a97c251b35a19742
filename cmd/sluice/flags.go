package main

import (
	"errors"
	"flag"
	"io"
	"strconv"
	"strings"
	"time"
)

// newFlags is a set of flags that leaves it to the caller to report errors.
func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseFlags reads flags wherever they stand among the other arguments, and returns those others.
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

func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return errHelp
	}
	text := err.Error()
	if name, found := strings.CutPrefix(text, "flag provided but not defined: -"); found {
		return usagef("there is no flag --%s", flagName(name))
	}
	if name, found := strings.CutPrefix(text, "flag needs an argument: -"); found {
		return usagef("--%s wants a value", name)
	}
	// What was given stands before the last " for ", in quotes.
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
	return usagef("%s is no flag", given(value))
}

// flagName is a name that no flag has, as a message shows it.
func flagName(name string) string {
	if shown := given(name); shown != strconv.Quote(name) {
		return shown
	}
	return name
}

// lengthFlag adds a flag that is a length of time.
func lengthFlag(flags *flag.FlagSet, to *time.Duration, name string, otherwise time.Duration) {
	*to = otherwise
	flags.Func(name, "", func(text string) error {
		d, err := time.ParseDuration(text)
		if err != nil {
			return errors.New("want a number and its unit, as 12s or 20ms")
		}
		*to = d
		return nil
	})
}
