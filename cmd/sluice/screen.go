package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// screen is an output and what it can show.
type screen struct {
	w       io.Writer
	color   bool
	unicode bool
	live    bool // a terminal on which lines can be redrawn
	rows    int  // 0 if it is not a terminal
	columns int
}

// newScreen finds out what w can show, from w and the environment; color is "auto", "always" or "never".
func (a app) newScreen(w io.Writer, color string) (screen, error) {
	s := screen{w: w, unicode: a.wantsUnicode()}
	dumb := a.getenv("TERM") == "dumb"
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		s.live = !dumb
		s.columns, s.rows, _ = term.GetSize(int(file.Fd()))
	}
	switch color {
	case "auto":
		s.color = s.live && a.getenv("NO_COLOR") == ""
	case "always":
		s.color = true
	case "never":
	default:
		return screen{}, usagef("--color is %s: want auto, always or never", given(color))
	}
	return s, nil
}

// wantsUnicode reports whether the locale is UTF-8.
func (a app) wantsUnicode() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToUpper(a.getenv(name)); locale != "" {
			return strings.Contains(locale, "UTF-8") || strings.Contains(locale, "UTF8")
		}
	}
	return false
}

// style is the look of a text: the numbers of an SGR escape sequence.
type style string

const (
	plain  style = ""
	bold   style = "1"
	faint  style = "2"
	green  style = "32"
	yellow style = "33"
	red    style = "1;31"
	alarm  style = "1;37;41"
)

// paint returns text made printable, and styled if the screen has colour.
func (s screen) paint(as style, text string) safe { return s.painted(as, printable(text)) }

// painted is paint for text that is already printable.
func (s screen) painted(as style, text safe) safe {
	if !s.color || as == plain || text == "" {
		return text
	}
	return "\x1b[" + safe(as) + "m" + text + "\x1b[0m"
}

// printf prints. Every text among the arguments is made printable, unless it is safe.
func (s screen) printf(format string, args ...any) {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = shownArg(arg)
	}
	fmt.Fprintf(s.w, format, shown...)
}
