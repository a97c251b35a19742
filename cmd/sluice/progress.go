package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

// progress shows an experiment while it runs.
type progress interface {
	interval() time.Duration // between two updates
	update([]experiment.Result)
	end()
}

// newProgress returns a live picture if the screen is a terminal with enough room, else a progress that prints a line
// every two seconds.
func (s screen) newProgress(duration time.Duration) progress {
	if s.live && s.columns >= 80 && s.rows >= 12 {
		return &liveProgress{screen: s, duration: duration}
	}
	return &plainProgress{screen: s}
}

// Sequences that move the cursor.
const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	lineUp     = "\x1b[%dA"
	eraseLine  = "\x1b[K"
	eraseBelow = "\x1b[J"
)

// liveProgress draws the growing timelines.
type liveProgress struct {
	screen
	duration time.Duration
	drawn    int // lines on the screen
}

func (p *liveProgress) interval() time.Duration { return 100 * time.Millisecond }

func (p *liveProgress) update(results []experiment.Result) {
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

func (p *liveProgress) lines(results []experiment.Result) []safe {
	elapsed := elapsedOf(results)
	columns := min(1+int(elapsed*stripColumns/p.duration), stripColumns)
	clock := fmt.Sprintf("%.1f of %s", elapsed.Seconds(), seconds(p.duration))
	lines := []safe{p.paint(faint, axis(p.duration))}
	for _, r := range results {
		s := stripOf(r)
		blank := safe(strings.Repeat(" ", stripColumns-columns))
		lines = append(lines, p.paint(bold, pad(r.Name, gutter))+p.liveLine(s, columns)+blank+p.liveCount(r))
	}
	return append(lines, p.paint(faint, pad("", gutter)+clock))
}

// liveLine shows the number of acts in each column. Columns that end a second above the limit are coloured.
func (p *liveProgress) liveLine(s strip, columns int) safe {
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
func (p *liveProgress) liveCount(r experiment.Result) safe {
	count := safe(fmt.Sprintf("%4d", len(r.Booked)))
	if r.MaxBooked() > experiment.Limit {
		return count + p.paint(red, "!")
	}
	return count
}

// end removes the picture, so that the next output takes its place.
func (p *liveProgress) end() {
	if p.drawn == 0 {
		return
	}
	p.printf("\r"+lineUp+eraseBelow+showCursor, p.drawn)
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

// plainProgress prints a table row every two seconds.
type plainProgress struct {
	screen
	updates int
}

func (p *plainProgress) interval() time.Duration { return 2 * time.Second }

func (p *plainProgress) update(results []experiment.Result) {
	if p.updates == 0 {
		p.printf("acts   %s\n", row(results, func(r experiment.Result) string { return r.Name }))
	}
	p.updates++
	elapsed := time.Duration(p.updates) * p.interval()
	p.printf("%5v  %s\n", elapsed, row(results, func(r experiment.Result) string { return fmt.Sprint(len(r.Booked)) }))
}

func row(results []experiment.Result, text func(experiment.Result) string) string {
	var cells []string
	for _, r := range results {
		cells = append(cells, fmt.Sprintf("%*s", len(r.Name), text(r)))
	}
	return strings.Join(cells, " ")
}

func (p *plainProgress) end() {
	if p.updates > 0 {
		p.printf("\n")
	}
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
