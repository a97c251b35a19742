package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// safe is text that may be written as it is: our own, or what came out of printable.
type safe string

// mostShown is how many characters are shown of one text.
const mostShown = 1000

// printable is a text as it may be written to a terminal, wherever it came from: what is not a visible character is
// escaped as in Go (\x1b, \u202e), and what is longer than mostShown is cut.
func printable(text string) safe {
	var out strings.Builder
	left := mostShown
	for i := 0; i < len(text); {
		if left <= 0 {
			fmt.Fprintf(&out, "... (%d bytes)", len(text))
			break
		}
		r, size := utf8.DecodeRuneInString(text[i:])
		if visible(r) && !(r == utf8.RuneError && size == 1) {
			out.WriteString(text[i : i+size])
			left--
		} else {
			quoted := strconv.QuoteToASCII(text[i : i+size])
			out.WriteString(quoted[1 : len(quoted)-1])
			left -= len(quoted) - 2
		}
		i += size
	}
	return safe(out.String())
}

// visible reports whether a terminal shows a character as itself. It does not for controls, for those that turn the
// direction of writing, and for those that nobody sees.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// shownArgs are the arguments of a format, all texts among them printable.
func shownArgs(args []any) []any {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = shownArg(arg)
	}
	return shown
}

func shownArg(arg any) any {
	switch arg := arg.(type) {
	case safe:
		return arg
	case string:
		return printable(arg)
	case error:
		return printable(errorText(arg))
	case fmt.Stringer:
		return printable(arg.String())
	}
	if value := reflect.ValueOf(arg); value.Kind() == reflect.String {
		return printable(value.String())
	}
	return arg
}

// given is an argument as a message shows it: in quotes, the beginning of a long one, and not at all where it may hold
// a password, as a URL does that stands in the wrong place.
func given(text string) string {
	lower := strings.ToLower(text)
	for _, sign := range []string{"@", ":/", "//", "redis:", "password", "auth"} {
		if strings.Contains(lower, sign) {
			return "(not shown: it may hold a password)"
		}
	}
	return shortQuote(text)
}

// shortQuote is the beginning of a text in quotes.
func shortQuote(text string) string {
	const most = 100
	if len(text) > most {
		return strconv.Quote(text[:most]) + "..."
	}
	return strconv.Quote(text)
}

// errorText is what is shown of an error. It leaves out what servers repeat: the arguments of a command that they do
// not know, and what a sentinel says of the password that go-redis has for it.
func errorText(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	const unreachable = "all sentinels specified in configuration are unreachable"
	if before, _, found := strings.Cut(text, unreachable); found {
		return before + unreachable
	}
	return text
}

// linesOf are the lines in which an error is shown: joined ones each by itself, then the hint behind it.
func linesOf(err error) []string {
	var hint *hintError
	if errors.As(err, &hint) {
		return append(linesOf(hint.error), hint.hint)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || errors.Join(joined.Unwrap()...).Error() != err.Error() {
		return []string{errorText(err)}
	}
	var lines []string
	for _, one := range joined.Unwrap() {
		lines = append(lines, linesOf(one)...)
	}
	return lines
}

// hintError is an error with a line behind it that explains it.
type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// json writes a value as JSON in which what is not visible is escaped, and texts are cut as elsewhere.
func (s screen) json(value any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := fmt.Fprint(s.w, printableJSON(text.String()))
	return err
}

// printableJSON is JSON with the same meaning, but for what is cut from its strings.
func printableJSON(text string) string {
	var out strings.Builder
	inside, length := false, 0 // of a string, and its characters
	for text != "" {
		size := 1
		switch {
		case !inside:
			inside, length = text[0] == '"', 0
		case text[0] == '"':
			inside = false
			if length > mostShown {
				fmt.Fprintf(&out, "... (%d characters)", length)
			}
		default:
			length++
			size = characterSize(text)
		}
		if !inside || length <= mostShown {
			writeVisible(&out, text[:size])
		}
		text = text[size:]
	}
	return out.String()
}

// characterSize is how many bytes the first character in a string of JSON takes.
func characterSize(text string) int {
	if text[0] != '\\' {
		_, size := utf8.DecodeRuneInString(text)
		return size
	}
	if text[1] == 'u' {
		return len(`\u0000`)
	}
	return len(`\n`)
}

// writeVisible writes JSON, with an escape in the place of a character that is not visible.
func writeVisible(out *strings.Builder, text string) {
	for _, r := range text {
		switch {
		case r == '\n' || visible(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(out, `\u%04x`, r)
		}
	}
}
