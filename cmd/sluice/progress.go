package main

// statusLine is a line on standard error that is redrawn. Without a terminal it stays empty.
type statusLine struct{ screen }

func (a app) newStatusLine() statusLine {
	s, _ := a.newScreen(a.stderr, "never") // the only error is an unknown colour
	return statusLine{s}
}

func (l statusLine) redraw(format string, args ...any) {
	if l.live {
		l.printf("\r\x1b[K"+format, args...)
	}
}

// end removes the line.
func (l statusLine) end() { l.redraw("") }
