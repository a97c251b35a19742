package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

// Widths in columns: a timeline, and the gutter for names before it.
const (
	stripColumns = 60
	gutter       = 14
)

// strip is the timeline of one limiter, column by column.
type strip struct {
	acts  []int // acts booked for this column
	worst []int // the highest number of acts in a second that ends in this column
}

func stripOf(r experiment.Result) strip {
	s := strip{acts: make([]int, stripColumns), worst: make([]int, stripColumns)}
	width := r.Duration / stripColumns
	behind := experiment.CountsInWindow(r.Booked, experiment.Window)
	for i, at := range r.Booked {
		column := min(int(at/width), stripColumns-1)
		s.acts[column]++
		s.worst[column] = max(s.worst[column], behind[i])
	}
	for column := range s.worst {
		start := time.Duration(column) * width
		s.worst[column] = max(s.worst[column], countBetween(r.Booked, start-experiment.Window, start))
	}
	return s
}

// countBetween counts the times in (after, upTo].
func countBetween(times []time.Duration, after, upTo time.Duration) int {
	count := 0
	for _, at := range times {
		if at > after && at <= upTo {
			count++
		}
	}
	return count
}

// glyph is one column of a timeline.
type glyph struct {
	text string
	as   style
}

// ribbon joins a row of glyphs. Neighbours of the same style share one escape sequence.
func (s screen) ribbon(glyphs []glyph) safe {
	var line strings.Builder
	for len(glyphs) > 0 {
		as, text := glyphs[0].as, ""
		for len(glyphs) > 0 && glyphs[0].as == as {
			text += glyphs[0].text
			glyphs = glyphs[1:]
		}
		line.WriteString(string(s.paint(as, text)))
	}
	return safe(line.String())
}

// actGlyph shows the number of acts in a column.
func (s screen) actGlyph(n int) glyph {
	switch {
	case n == 0:
		return glyph{s.either("·", "."), faint}
	case n > 9:
		return glyph{"+", plain}
	}
	return glyph{strconv.Itoa(n), plain}
}

// loadGlyph shows how full a second is: a bar up to the limit, and a coloured number above it.
func (s screen) loadGlyph(n int) glyph {
	switch {
	case n > 9:
		return glyph{"X", alarm}
	case n > experiment.Limit:
		return glyph{strconv.Itoa(n), alarm}
	case n == experiment.Limit:
		return glyph{s.either("▆", "="), green}
	case n == 0:
		return glyph{" ", plain}
	}
	return glyph{s.either([]string{"▁", "▂", "▃", "▄"}[n-1], "-"), yellow}
}

// either returns the first text if the locale can show it, else the second.
func (s screen) either(unicode, ascii string) string {
	if s.unicode {
		return unicode
	}
	return ascii
}

// axis returns the scale of seconds above a timeline.
func axis(duration time.Duration) string {
	seconds := int(duration / time.Second)
	step := 1
	for stripColumns*step/seconds < 5 {
		step++
	}
	line := []byte(strings.Repeat(" ", stripColumns+4))
	for second := 0; second < seconds; second += step {
		copy(line[stripColumns*second/seconds:], fmt.Sprintf("%ds", second))
	}
	return strings.Repeat(" ", gutter) + strings.TrimRight(string(line), " ")
}

// picture draws a timeline of every limiter: for each column how full the second is that ends there.
func (s screen) picture(results []experiment.Result) {
	s.printf("%s\n", s.paint(faint, axis(results[0].Duration)))
	for _, r := range results {
		var glyphs []glyph
		for _, n := range stripOf(r).worst {
			glyphs = append(glyphs, s.loadGlyph(n))
		}
		s.printf("%s%s\n", s.paint(bold, pad(r.Name, gutter)), s.ribbon(glyphs))
	}
}

func (s screen) legend() {
	s.printf("The fullest second that ends here: %s below %d, %s %d, %s more (X: 10+)\n",
		s.paint(yellow, s.either("▁▂▃▄", "-")), experiment.Limit, s.ribbon([]glyph{s.loadGlyph(experiment.Limit)}),
		experiment.Limit, s.paint(alarm, "6789X"))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(d/time.Second)) }

func pad(text string, width int) string { return fmt.Sprintf("%-*s", width, text) }
