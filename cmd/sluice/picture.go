package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/cmd/sluice/internal/experiment"
)

// A time line has so many columns, behind a gutter of so many for names.
const (
	stripColumns = 60
	gutter       = 14
)

// strip is a time line of one way, column by column.
type strip struct {
	acts  []int // acts booked for the column
	worst []int // the most acts in any second that ends in it
}

// stripOf draws what a result holds on a time line.
func stripOf(r experiment.Result) strip {
	s := strip{acts: make([]int, stripColumns), worst: make([]int, stripColumns)}
	width := r.Duration / stripColumns
	behind := experiment.Behind(r.Booked, experiment.Window)
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

// countBetween counts the moments in (after, upTo].
func countBetween(moments []time.Duration, after, upTo time.Duration) int {
	count := 0
	for _, at := range moments {
		if at > after && at <= upTo {
			count++
		}
	}
	return count
}

// glyph is one column of a time line.
type glyph struct {
	text string
	as   style
}

// ribbon is a row of glyphs; those of the same style stand in one sequence.
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

// actGlyph shows how many acts a column holds.
func (s screen) actGlyph(n int) glyph {
	switch {
	case n == 0:
		return glyph{s.either("·", "."), faint}
	case n > 9:
		return glyph{"+", plain}
	}
	return glyph{strconv.Itoa(n), plain}
}

// loadLine shows how full the second is that ends in each column: a bar up to the limit, and a number
// that stands out above it.
func (s screen) loadLine(worst []int) safe {
	var glyphs []glyph
	for _, n := range worst {
		glyphs = append(glyphs, s.loadGlyph(n))
	}
	return s.ribbon(glyphs)
}

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

// either returns its first text where the locale can show it, else the second.
func (s screen) either(unicode, ascii string) string {
	if s.unicode {
		return unicode
	}
	return ascii
}

// axis names the seconds above a time line.
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

// picture draws every way on a time line.
func (s screen) picture(results []experiment.Result) {
	s.printf("%s\n", s.paint(faint, axis(results[0].Duration)))
	for _, r := range results {
		s.printf("%s%s\n", s.paint(bold, pad(r.Name, gutter)), s.loadLine(stripOf(r).worst))
	}
}

// legend explains the lines of the picture.
func (s screen) legend() {
	s.printf("The fullest second that ends there: %s below %d, %s %d, %s more (X: 10+)\n",
		s.paint(yellow, s.either("▁▂▃▄", "-")), experiment.Limit, s.ribbon([]glyph{s.loadGlyph(experiment.Limit)}),
		experiment.Limit, s.paint(alarm, "6789X"))
}

// seconds is a length of time of whole seconds.
func seconds(d time.Duration) string { return fmt.Sprintf("%d s", int(d/time.Second)) }

// pad fills text up with spaces to a width.
func pad(text string, width int) string { return fmt.Sprintf("%-*s", width, text) }
