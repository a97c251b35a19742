package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Widths in columns: a timeline, and the names before it.
const (
	columns = 60
	gutter  = 14
)

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

// printer prints a demo. What is redrawn on a terminal takes the place of what was there.
type printer struct {
	Config
	drawn int // lines on the terminal
}

func (p *printer) printf(format string, args ...any) { fmt.Fprintf(p.Out, format, args...) }

func (p *printer) paint(as style, text string) string {
	if !p.Terminal || as == plain || text == "" {
		return text
	}
	return "\x1b[" + string(as) + "m" + text + "\x1b[0m"
}

// introduce prints what the demo is about to do.
func (p *printer) introduce(trials []*trial) {
	p.printf("%s\n", p.paint(bold,
		fmt.Sprintf("A payment API takes %d calls in any second, wherever that second starts.", limit)))
	p.printf("%d workers share it for %v, through each of %d limiters at once.\n", p.Workers, p.Duration, len(trials))
	if p.Margin > 0 {
		p.printf("Our windows are %v long, so that workers may be %v late.\n", window+p.Margin, p.Margin)
	}
	p.printf("Server: %s\n\n", p.Server)
	for _, t := range trials {
		p.printf("  %s%s\n", p.paint(bold, fmt.Sprintf("%-*s", gutter, t.name)), t.text)
	}
	p.printf("\nThe fullest second that ends here: %s below %d, %s %d, %s more (X: 10+)\n",
		p.paint(yellow, "▁▂▃▄"), limit, p.paint(green, "▆"), limit, p.paint(alarm, "6789X"))
}

// progress draws the results so far on a terminal. Lines are not wrapped: a narrow terminal shows their beginnings.
func (p *printer) progress(results []result) {
	if !p.Terminal {
		return
	}
	if p.drawn == 0 {
		p.printf("\x1b[?25l\x1b[?7l") // no cursor, no wrapping
	} else {
		p.printf("\x1b[%dA", p.drawn)
	}
	p.picture(results)
	p.drawn = len(results) + 1
}

// end makes the cursor visible again, where the picture begins.
func (p *printer) end() {
	if p.drawn > 0 {
		p.printf("\x1b[%dA\x1b[J\x1b[?25h\x1b[?7h", p.drawn)
	}
}

// picture draws a timeline of every limiter: for each column how full the second is that ends there.
func (p *printer) picture(results []result) {
	p.printf("%s\n", p.paint(faint, axis(results[0].duration)))
	for _, r := range results {
		p.printf("%s", p.paint(bold, fmt.Sprintf("%-*s", gutter, r.name)))
		for _, n := range fullest(r) {
			p.printf("%s", p.glyph(n))
		}
		p.printf("\n")
	}
}

// fullest returns for each column the highest number of acts in a second that ends there.
func fullest(r result) []int {
	counts := make([]int, columns)
	width := r.duration / columns
	for i := range counts {
		from := time.Duration(i)*width - window // acts until then are not in such a second
		to := from + window + width
		first, _ := slices.BinarySearch(r.booked, from+1)
		last, _ := slices.BinarySearch(r.booked, to)
		counts[i] = maxInWindow(r.booked[first:last], window)
	}
	return counts
}

// glyph shows how full a second is: a bar up to the limit, and a coloured number above it.
func (p *printer) glyph(n int) string {
	switch {
	case n > 9:
		return p.paint(alarm, "X")
	case n > limit:
		return p.paint(alarm, strconv.Itoa(n))
	case n == limit:
		return p.paint(green, "▆")
	}
	return p.paint(yellow, []string{" ", "▁", "▂", "▃", "▄"}[n])
}

// axis returns the scale of seconds above a timeline.
func axis(duration time.Duration) string {
	seconds := int(duration / time.Second)
	step := 1
	for columns*step/seconds < 5 {
		step++
	}
	line := []byte(strings.Repeat(" ", columns+4))
	for second := 0; second < seconds; second += step {
		copy(line[columns*second/seconds:], fmt.Sprintf("%ds", second))
	}
	return strings.Repeat(" ", gutter) + strings.TrimRight(string(line), " ")
}

// report prints the results on one screen of 80 x 24. It returns ErrBroken if one of our scripts broke a promise.
func (p *printer) report(results []result) error {
	p.picture(results)
	p.disturbance(results)
	p.printf("\n")
	p.comparison(results)
	p.printf("booked: most acts in any second by the server's clock; real: as they happened\n")
	p.printf("capacity: of %d acts; calls: to Redis; longest wait: for one permit\n", results[0].possible())
	var broken []string
	for _, r := range results {
		broken = append(broken, r.broken(p.Margin)...)
	}
	for _, text := range broken {
		p.printf("%s\n", p.paint(red, "✗ "+text))
	}
	if len(broken) > 0 {
		return ErrBroken
	}
	p.printf("%s\n", p.paint(green, "✓ our scripts kept every promise"))
	return nil
}

// disturbance says how a busy machine changed the results. It prints nothing after an undisturbed run.
func (p *printer) disturbance(results []result) {
	isLate := func(r result) bool { return r.kind != faulty && r.maxReal() > limit }
	text := ""
	switch stalled := results[0].stalled; {
	case stalled > 0:
		text = fmt.Sprintf("This machine stopped for %v during the run: no worker asked in that time.\n",
			stalled.Round(10*time.Millisecond)) + "Run the same command again for undisturbed results."
	case !slices.ContainsFunc(results, isLate):
		return
	case p.Margin == 0:
		text = fmt.Sprintf("Without a margin, every late worker shows in column real.\n"+
			"Run it again with --margin %v or more.", DefaultMargin)
	default:
		text = fmt.Sprintf("This machine woke workers later than the margin of %v allows: see column real.", p.Margin)
	}
	p.printf("%s\n", p.paint(yellow, text))
}

// comparison prints the table of all limiters.
func (p *printer) comparison(results []result) {
	p.printf("%s\n", p.paint(bold, "limiter       booked  real  capacity  calls  a permit  longest wait  verdict"))
	for _, r := range results {
		as, verdict := r.verdict()
		p.printf("%-*s%s%s%8.1f %%%7d%10.2f%12.1f s  %s\n", gutter, r.name, p.judged(6, r.maxBooked()),
			p.judged(6, r.maxReal()), 100*r.capacity(), r.calls, r.callsPerPermit(), r.longestWait.Seconds(),
			p.paint(as, verdict))
	}
}

// judged returns a number of acts in a second, in the colour of what it means.
func (p *printer) judged(width, acts int) string {
	as := green
	switch {
	case acts == limit+1:
		as = yellow
	case acts > limit:
		as = red
	}
	return p.paint(as, fmt.Sprintf("%*d", width, acts))
}

// verdict judges a result by the limit. A faulty limiter that kept the limit is judged by its requests to Redis:
// slice_ring may send more than two for a permit too, but only at the times that the script names.
func (r result) verdict() (style, string) {
	switch {
	case r.maxBooked() > limit:
		return red, "✗ broken"
	case r.kind == faulty && r.callsPerPermit() > 2:
		return red, "✗ wasteful"
	}
	return green, "✓ kept"
}
