package main

import (
	"fmt"
	"slices"
	"strings"
)

// Sizes of pictures, in characters.
const (
	narrowest   = 20
	widest      = 100
	assumed     = 80 // columns if there is no terminal
	plotRows    = 4
	plotMargin  = 2
	wordsGutter = 11
)

// plotColumns returns the maximum width of a picture.
func (s screen) plotColumns() int {
	columns := s.columns
	if columns == 0 {
		columns = assumed
	}
	return min(max(columns-2*plotMargin, narrowest), widest)
}

// views prints what is known about each key.
func (s screen) views(views []view, i inspection, found search) {
	if len(views) == 0 && found.missed == nil && found.unread() == 0 {
		s.nothingStored(found)
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
	missed := found.missed != nil && strings.Contains(found.missed.Error(), "NOPERM") // failed prints the cure
	if i.rights != "" && !missed && slices.ContainsFunc(views, view.lacksRights) {
		s.printf("\ncure: %s\n", i.rights)
	}
}

// nothingStored says that a complete search has found nothing.
func (s screen) nothingStored(found search) {
	s.printf("nothing is stored under %s on %s\nnames are exact: check spelling and case\n", found.pattern, found.node)
}

// lacksRights reports whether the user may not read something about a key.
func (v view) lacksRights() bool {
	lacks := v.summary.Err != nil && strings.Contains(v.summary.Err.Error(), "NOPERM")
	for _, why := range v.Refused {
		lacks = lacks || strings.Contains(why, "NOPERM") || strings.Contains(why, refusedInScript)
	}
	return lacks && v.State != stateAbsent
}

// view prints what is known about a key, one line for each fact.
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
	for _, name := range []string{"rate", "type", "memory", "expires", "history", "holders", "left"} {
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
		s.printf("\ncure: find out what the key is for; UNLINK removes it with the permits in use\n")
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

// facts prints the numbers that are known.
func (s screen) facts(v view, line func(name string, text any)) {
	v.settings(line)
	v.counts(line)
	if v.State == stateLive && v.Window > 0 && v.Full == 0 {
		line("free", "all permits are free again in "+length(v.Newest+v.Window-v.Now)+", if no one asks")
	}
	line("type", strings.TrimSuffix(v.Type+" ("+v.Encoding+")", " ()"))
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

// settings prints how the limiter was configured.
func (v view) settings(line func(name string, text any)) {
	if v.Config != nil {
		line("rate", rateText(v.Config.Rate, v.Config.Interval, v.Config.PerClient))
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
}

// counts prints the stored permits and when they were granted.
func (v view) counts(line func(name string, text any)) {
	switch {
	case v.refused():
	case v.summary.Slots != nil:
		v.slots(line)
	case v.Permits > 0 && v.Ring != nil:
		line("permits", fmt.Sprintf("%d in the ring", v.Permits))
	case v.Permits > 0 && v.Window > 0 && v.History != nil:
		line("permits", fmt.Sprintf("%d live, of %d stored", v.Live, v.Permits))
	case v.Permits > 0:
		line("permits", fmt.Sprintf("%d stored", v.Permits))
	}
	if v.Limit > 0 {
		line("limit", fmt.Sprintf("%d, as of the newest grant", v.Limit))
	}
	if v.Written > 0 {
		line("written", v.timeText(v.Written))
	}
	switch {
	case v.Newest == 0, v.refused():
	case v.Ring != nil:
		line("newest", "in the slice of "+v.timeText(v.Newest))
	default:
		line("newest", v.timeText(v.Newest))
	}
}

// slots prints who holds slots, and until when.
func (v view) slots(line func(name string, text any)) {
	line("slots", fmt.Sprintf("%d held, of %d stored", v.Live, v.Entries))
	for _, holder := range v.Holders {
		line("holder", holder.ID+", for "+length(holder.Ends-v.Now))
	}
	if more := v.Live - int64(len(v.Holders)); more > 0 && len(v.Holders) > 0 {
		line("", fmt.Sprintf("and %d whose leases end later", more))
	}
	if v.Live > 0 {
		line("free", "all slots are free in "+length(v.Full-v.Now)+", if none is renewed")
	}
}

// plot draws a history. Higher columns have more permits. Columns after now hold bookings.
func (s screen) plot(h history, now int64) {
	highest := int64(1)
	for _, n := range h.Permits {
		highest = max(highest, n)
	}
	for row := plotRows - 1; row >= 0; row-- {
		var glyphs []glyph
		for i, n := range h.Permits {
			as := green
			if h.From+int64(i)*h.Step >= now {
				as = yellow
			}
			glyphs = append(glyphs, glyph{s.block(n, highest, row), as})
		}
		s.printf("%*s%s\n", plotMargin, "", s.ribbon(glyphs))
	}
	s.printf("%*s%s\n", plotMargin, "", s.paint(faint, timeAxis(h, now)))
	fullest := counted(int(highest), "permit", "permits")
	s.printf("%*sa column is %s; the fullest has %s", plotMargin, "", length(h.Step), fullest)
	if h.end() > now+h.Step {
		s.printf("; columns after now are booked")
	}
	s.printf("\n")
}

// block returns the part of a column that is in a row. Row 0 is the lowest.
func (s screen) block(n, highest int64, row int) string {
	const eighths = 8
	height := (n*plotRows*eighths + highest - 1) / highest // at least one eighth for one permit
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

// timeAxis returns the scale of a picture: its ends, and now.
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

// left prints the script's reply to a look.
func (s screen) left(v view) {
	if len(v.Wanted) > 0 && v.State == stateLive {
		s.printf("\n  the limit is in the application, not in Redis: to see what is left, add what\n"+
			"  the callers use (%s=), for example\n\n    %s\n", strings.Join(v.Wanted, "= "), callersForm(v.key))
	}
	if v.reply == nil {
		return
	}
	s.printf("\n")
	if v.burst > 0 {
		s.gauge(v.Left["remaining"], v.burst)
	}
	s.look(v)
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
