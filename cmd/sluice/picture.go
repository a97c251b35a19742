package main

import (
	"fmt"
	"strings"
)

// stripColumns is the maximum number of columns of a timeline.
const stripColumns = 60

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

// either returns the first text if the locale can show it, else the second.
func (s screen) either(unicode, ascii string) string {
	if s.unicode {
		return unicode
	}
	return ascii
}

func pad(text string, width int) string { return fmt.Sprintf("%-*s", width, text) }
