package main

import (
	"fmt"
	"strings"
)

// Bounds on pictures, in characters.
const (
	narrowest   = 20
	widest      = 100
	assumed     = 80 // columns where there is no terminal
	plotRows    = 4
	plotMargin  = 2
	wordsGutter = 11
)

// plotColumns is how wide a picture may be.
func (s screen) plotColumns() int {
	columns := s.columns
	if columns == 0 {
		columns = assumed
	}
	return min(max(columns-2*plotMargin, narrowest), widest)
}

// views shows what was found about each key.
func (s screen) views(views []view, i inspection, found search) {
	if len(views) == 0 && found.missed == nil && found.unread() == 0 {
		s.printf("nothing is stored under %s on %s\n", found.pattern, found.node)
	}
	for n, v := range views {
		if n > 0 {
			s.printf("\n")
		}
		s.view(v)
	}
	for _, note := range found.notes(i, views) {
		if len(views) > 0 {
			s.printf("\n")
		}
		s.printf("note: %s\n", note)
	}
}

// view shows what was found about a key, a line each.
func (s screen) view(v view) {
	s.printf("%s\n", s.paint(bold, v.Key))
	line := func(name string, text any) {
		if fmt.Sprint(text) != "" {
			s.printf("%s%s\n", pad("  "+name, plotMargin+wordsGutter), text)
		}
	}
	line("state", s.paint(styleOfState(v.State), string(v.State)+": "+v.Meaning))
	line("script", v.Script)
	line("limiter", v.Limiter)
	line("subject", v.Subject)
	line("client", v.Client)
	line("node", v.Node)
	s.facts(v, line)
	for _, name := range []string{"rate", "type", "memory", "expires", "history", "left"} {
		if why, found := v.Refused[name]; found {
			line(name, s.paint(yellow, "not known: "+why))
		}
	}
	if v.History != nil && v.State == stateLive {
		s.printf("\n")
		s.plot(*v.History, v.Now)
	}
	s.left(v)
	if v.refused() {
		s.printf("\ncure: look whose key it is; UNLINK removes it, and the permits in use with it\n")
	}
	if v.State == stateUnknown && (v.summary.Err != nil || len(v.Refused) > 0) {
		s.printf("\ncure: grant this user what is named above: ACL SETUSER <name> +<command> ~<keys>\n")
	}
}

func styleOfState(state limitState) style {
	switch state {
	case stateAbsent, stateIdle:
		return green
	case stateLive:
		return bold
	case stateVoid, stateUnknown, stateConfig:
		return yellow
	}
	return red
}

// facts are the numbers, as far as they are known.
func (s screen) facts(v view, line func(name string, text any)) {
	if v.Config != nil {
		whose := "all clients together"
		if v.Config.PerClient {
			whose = "each client by itself"
		}
		line("rate", fmt.Sprintf("%d in %s, %s", v.Config.Rate, length(v.Config.Interval), whose))
	}
	if v.Ring != nil {
		line("slices", fmt.Sprintf("%d of %s", v.Ring.Size, length(v.Ring.Slice)))
	}
	if v.LeaseAge > 0 {
		line("lease age", length(v.LeaseAge)+": permits may be spent that long after they were counted")
	}
	if v.Window > 0 && v.Config == nil {
		line("window", length(v.Window)+", "+v.WindowFrom)
	}
	switch {
	case v.refused():
	case v.Permits > 0 && v.Ring != nil:
		line("permits", fmt.Sprintf("%d in the ring", v.Permits))
	case v.Permits > 0 && v.Window > 0 && v.History != nil:
		line("permits", fmt.Sprintf("%d live, of %d stored", v.Live, v.Permits))
	case v.Permits > 0:
		line("permits", fmt.Sprintf("%d stored", v.Permits))
	}
	if v.Limit > 0 {
		line("limit", fmt.Sprintf("%d, by the newest grant", v.Limit))
	}
	if v.Written > 0 {
		line("written", v.moment(v.Written))
	}
	switch {
	case v.Newest == 0, v.refused():
	case v.Ring != nil:
		line("newest", "in the slice of "+v.moment(v.Newest))
	default:
		line("newest", v.moment(v.Newest))
	}
	if v.State == stateLive && v.Window > 0 && v.Full == 0 {
		line("full", length(v.Newest+v.Window-v.Now)+" from now, if no one asks")
	}
	line("type", strings.TrimSpace(v.Type+" "+bracketed(v.Encoding)))
	if v.Memory > 0 {
		line("memory", fmt.Sprintf("%d bytes", v.Memory))
	}
	switch {
	case v.TTL > 0:
		line("expires", length(v.TTL)+" from now")
	case v.TTL == -1:
		line("expires", "never")
	}
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}

// plot draws a history: higher columns have more permits, those behind now are booked.
func (s screen) plot(h history, now int64) {
	most := int64(1)
	for _, n := range h.Permits {
		most = max(most, n)
	}
	for row := plotRows - 1; row >= 0; row-- {
		var glyphs []glyph
		for i, n := range h.Permits {
			as := green
			if h.From+int64(i)*h.Step >= now {
				as = yellow
			}
			glyphs = append(glyphs, glyph{s.block(n, most, row), as})
		}
		s.printf("%*s%s\n", plotMargin, "", s.ribbon(glyphs))
	}
	s.printf("%*s%s\n", plotMargin, "", s.paint(faint, timeAxis(h, now)))
	s.printf("%*sa column is %s; the fullest has %s", plotMargin, "", length(h.Step), counted(int(most), "permit", "permits"))
	if h.end() > now+h.Step {
		s.printf("; those after now are to come")
	}
	s.printf("\n")
}

// block is the piece of a column that stands in a row, the lowest of which is 0.
func (s screen) block(n, most int64, row int) string {
	const eighths = 8
	height := (n*plotRows*eighths + most - 1) / most // at least an eighth for a single permit
	here := min(max(height-int64(row)*eighths, 0), eighths)
	if s.unicode {
		return []string{" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}[here]
	}
	switch {
	case here == 0:
		return " "
	case here < eighths/2:
		return "."
	}
	return "#"
}

// timeAxis names the ends of a picture, and now.
func timeAxis(h history, now int64) string {
	columns := len(h.Permits)
	line := []byte(strings.Repeat(" ", columns))
	write := func(at int, text string) bool {
		at = max(min(at, columns-len(text)), 0)
		if at+len(text) > columns || strings.TrimSpace(string(line[max(at-1, 0):min(at+len(text)+1, columns)])) != "" {
			return false
		}
		copy(line[at:], text)
		return true
	}
	write(int((now-h.From)/h.Step), "now")
	write(0, "-"+length(now-h.From))
	if h.end() > now+h.Step {
		write(columns, "+"+length(h.end()-now))
	}
	return strings.TrimRight(string(line), " ")
}

// left shows what the script itself says of a call that only looks.
func (s screen) left(v view) {
	if len(v.Wanted) > 0 && v.State == stateLive {
		s.printf("\n  to see what is left, add what the callers use: %s=\n", strings.Join(v.Wanted, "= "))
	}
	if v.reply == nil {
		return
	}
	s.printf("\n")
	if v.burst > 0 {
		s.gauge(v.Left["remaining"], v.burst)
	}
	s.look(v.asked, v.reply)
}

// gauge shows how full a bucket is.
func (s screen) gauge(remaining, burst int64) {
	columns := int64(s.plotColumns())
	full := min(remaining, burst) * columns / burst
	s.printf("%*s%s\n%*s%d of %s left\n\n", plotMargin, "", s.ribbon([]glyph{
		{strings.Repeat(s.either("█", "#"), int(full)), green},
		{strings.Repeat(s.either("░", "."), int(columns-full)), faint},
	}), plotMargin, "", remaining, counted(int(burst), "permit", "permits"))
}
