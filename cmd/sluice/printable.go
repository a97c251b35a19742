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

// safe is text that may be printed unchanged: our own, or a result of printable.
type safe string

// maxShown is the maximum number of characters printed of one text.
const maxShown = 1000

// printable makes a text from any source safe for a terminal: characters that are not visible are escaped as in Go
// (\x1b, \u202e), and texts longer than maxShown are cut.
func printable(text string) safe {
	var out strings.Builder
	left := maxShown
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

// visible reports whether a terminal shows a character as itself. Control characters, characters that change the
// writing direction and invisible characters are not visible.
func visible(r rune) bool {
	return unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// shownArg returns an argument of a format, made printable if it is a text.
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

// given formats an argument of the user for a message: in quotes, cut, and hidden if it may hold a password.
func given(text string) string {
	lower := strings.ToLower(text)
	for _, sign := range []string{"@", ":/", "//", "redis:", "password", "auth"} {
		if strings.Contains(lower, sign) {
			return "(not shown: it may hold a password)"
		}
	}
	const limit = 100
	if len(text) > limit {
		return strconv.Quote(text[:limit]) + "..."
	}
	return strconv.Quote(text)
}

// errorText returns the printable part of an error. It leaves out what may hold a password: the arguments that a server
// repeats for an unknown command, and a sentinel's reply about its password.
func errorText(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	const unreachable = "all sentinels specified in configuration are unreachable"
	if before, _, found := strings.Cut(text, unreachable); found {
		return before + unreachable
	}
	return text
}

// linesOf returns the lines of an error: one for each joined error, each followed by its hint.
func linesOf(err error) []string {
	if hint, ok := errors.AsType[*hintError](err); ok {
		return append(linesOf(hint.error), hint.hint)
	}
	if rights, ok := err.(*rightsError); ok {
		return linesOf(rights.error)
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

// hintError is an error with a line that explains it.
type hintError struct {
	error
	hint string
}

func (e *hintError) Unwrap() error { return e.error }

// json prints a value as JSON. Invisible characters are escaped, as everywhere; long texts are not cut.
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

// printableJSON escapes what is not visible. It stands in strings only, so the meaning stays the same.
func printableJSON(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || visible(r):
			out.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&out, `\u%04x`, r)
		}
	}
	return out.String()
}
