package main

import (
	"fmt"
	"io"
	"os"
)

// screen is an output and whether it is a terminal, which shows colours and redraws lines.
type screen struct {
	w    io.Writer
	live bool
}

func newScreen(w io.Writer) screen {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("NO_COLOR") != "" {
		return screen{w, false}
	}
	info, err := file.Stat()
	return screen{w, err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// style is the look of a text: the numbers of an SGR escape sequence.
type style string

const (
	plain  style = ""
	bold   style = "1"
	green  style = "32"
	yellow style = "33"
	red    style = "1;31"
)

// paint returns text made printable, and styled on a terminal.
func (s screen) paint(as style, text string) safe {
	shown := printable(text)
	if !s.live || as == plain || text == "" {
		return shown
	}
	return "\x1b[" + safe(as) + "m" + shown + "\x1b[0m"
}

// printf prints. Every text among the arguments is made printable, unless it is safe.
func (s screen) printf(format string, args ...any) {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = shownArg(arg)
	}
	fmt.Fprintf(s.w, format, shown...)
}

// redraw prints a line in place of the last one, on a terminal only. An empty text removes it.
func (s screen) redraw(format string, args ...any) {
	if s.live {
		s.printf("\r\x1b[K"+format, args...)
	}
}

// counted returns a number with its noun: "1 key", "2 keys".
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
