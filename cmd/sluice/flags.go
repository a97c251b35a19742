package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/loader"
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

// flagError is an error of package flag in our words. It shows no text that may be a password.
func flagError(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		return errHelp
	}
	text := err.Error()
	for begins, format := range map[string]string{
		"flag provided but not defined: -": "there is no flag --%s", "flag needs an argument: -": "--%s wants a value",
	} {
		if name, found := strings.CutPrefix(text, begins); found {
			if given(name) != strconv.Quote(name) {
				name = given(name)
			}
			return usagef(format, name)
		}
	}
	// invalid value "text" for flag -name: what is wrong. The name follows the last " for ".
	value, rest, _ := cutLast(strings.TrimPrefix(text, "invalid value "), " for ")
	if shown, err := strconv.Unquote(value); err == nil {
		value = given(shown)
	} else {
		value = given(value)
	}
	rest = strings.Replace(strings.TrimPrefix(rest, "flag -"), "parse error", "want a whole number", 1)
	return usagef("invalid value %s for --%s", value, rest)
}

func cutLast(text, separator string) (before, after string, found bool) {
	if at := strings.LastIndex(text, separator); at >= 0 {
		return text[:at], text[at+len(separator):], true
	}
	return text, "", false
}

// wantSubject refuses other arguments than a limiter, a subject, and more if the command wants so.
func wantSubject(others []string, more ...string) error {
	switch {
	case len(others) == 1 && given(others[0]) == strconv.Quote(others[0]):
		return usagef("want a limiter and a subject: `sluice top --limiter %s` lists its subjects", others[0])
	case len(others) < 2:
		return usagef("want a limiter and a subject")
	case len(others) < 2+len(more):
		return usagef("want %s", more[len(others)-2])
	case len(others) > 2+len(more):
		return usagef("unexpected argument %s", given(others[2+len(more)]))
	}
	return nil
}

var errRate = errors.New("want permits and a window, as in 100/1m")

// parseRate reads permits and a window, such as 100/1m or 500/7d.
func parseRate(text string) (rate loader.Limit, err error) {
	permits, window, found := strings.Cut(text, "/")
	if rate.Permits, err = strconv.ParseInt(permits, 10, 64); err != nil || !found || rate.Permits < 0 {
		return rate, errRate
	}
	if days, found := strings.CutSuffix(window, "d"); found {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return rate, errRate
		}
		window = fmt.Sprint(24*n, "h")
	}
	rate.Window, err = time.ParseDuration(window)
	if err != nil || rate.Window < time.Millisecond || rate.Window%time.Microsecond != 0 {
		return rate, errRate
	}
	return rate, nil
}

// rateText is the inverse of parseRate.
func rateText(rate loader.Limit) string {
	return fmt.Sprint(rate.Permits, "/", windowText(rate.Window))
}

// windowText is a duration without zeros at its end: 1m, not 1m0s.
func windowText(d time.Duration) string {
	text := d.String()
	for _, zeros := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zeros) {
			text = text[:len(text)-len("0s")]
		}
	}
	return text
}

// length formats microseconds as a duration, rounded to what people read.
func length(us int64) string {
	if us > math.MaxInt64/1000 {
		return "more than 292 years"
	}
	d := time.Duration(us) * time.Microsecond
	switch {
	case d.Abs() >= time.Minute:
		d = d.Round(time.Second)
	case d.Abs() >= time.Second:
		d = d.Round(10 * time.Millisecond)
	}
	return windowText(d)
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
	return "", usagef("%s is %s: want %s", bad.Argument, given(value), bad.Want)
}
