package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

// progress shows an experiment while it runs: the growing timelines if the screen is a terminal with enough room, else
// a line every two seconds.
type progress struct {
	screen
	duration time.Duration
	drawn    int // lines on the terminal
}

func (s screen) newProgress(duration time.Duration) *progress {
	s.live = s.live && s.columns >= 80 && s.rows >= 12
	return &progress{screen: s, duration: duration}
}

// interval returns the time between two updates.
func (p *progress) interval() time.Duration {
	if p.live {
		return 100 * time.Millisecond
	}
	return 2 * time.Second
}

// Sequences that move the cursor.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	lineUp     = "\x1b[%dA"
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
)

func (p *progress) update(results []experiment.Result) {
	if !p.live {
		p.printf("%s\n", p.clock(results))
		return
	}
	lines := p.lines(results)
	var frame strings.Builder
	if p.drawn == 0 {
		frame.WriteString(hideCursor)
	} else {
		fmt.Fprintf(&frame, lineUp, p.drawn)
	}
	for _, line := range lines {
		frame.WriteString(string(line) + eraseLine + "\n")
	}
	p.drawn = len(lines)
	p.printf("%s", safe(frame.String()))
}

// clock says how long the experiment has run.
func (p *progress) clock(results []experiment.Result) string {
	return fmt.Sprintf("%.1f of %s", elapsedOf(results).Seconds(), seconds(p.duration))
}

func (p *progress) lines(results []experiment.Result) []safe {
	columns := min(1+int(elapsedOf(results)*stripColumns/p.duration), stripColumns)
	lines := []safe{p.paint(faint, axis(p.duration))}
	for _, r := range results {
		s := stripOf(r)
		blank := safe(strings.Repeat(" ", stripColumns-columns))
		lines = append(lines, p.paint(bold, pad(r.Name, gutter))+p.liveLine(s, columns)+blank+p.liveCount(r))
	}
	return append(lines, p.paint(faint, pad("", gutter)+p.clock(results)))
}

// liveLine shows the number of acts in each column. Columns that end a second above the limit are coloured.
func (p *progress) liveLine(s strip, columns int) safe {
	var glyphs []glyph
	for i, n := range s.acts[:columns] {
		g := p.actGlyph(n)
		if n > 0 && s.worst[i] > experiment.Limit {
			g.as = alarm
		}
		glyphs = append(glyphs, g)
	}
	return p.ribbon(glyphs)
}

// liveCount returns the number of acts, marked if any second held too many.
func (p *progress) liveCount(r experiment.Result) safe {
	count := safe(fmt.Sprintf("%4d", len(r.Booked)))
	if r.MaxBooked() > experiment.Limit {
		return count + p.paint(red, "!")
	}
	return count
}

// end removes the picture, so that the next output takes its place.
func (p *progress) end() {
	if p.drawn > 0 {
		p.printf("\r"+lineUp+eraseBelow+showCursor, p.drawn)
	}
}

// elapsedOf returns how long the experiment has run: the time of the last act.
func elapsedOf(results []experiment.Result) time.Duration {
	var elapsed time.Duration
	for _, r := range results {
		if n := len(r.Booked); n > 0 {
			elapsed = max(elapsed, r.Booked[n-1])
		}
	}
	return elapsed
}

// statusLine is a line on standard error that is redrawn. Without a terminal it stays empty.
type statusLine struct{ screen }

func (a app) newStatusLine() statusLine {
	s, _ := a.newScreen(a.stderr, "never") // the only error is an unknown colour
	return statusLine{s}
}

func (l statusLine) redraw(format string, args ...any) {
	if l.live {
		l.printf("\r"+eraseLine+format, args...)
	}
}

// end removes the line.
func (l statusLine) end() { l.redraw("") }
