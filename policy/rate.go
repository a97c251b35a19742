package policy

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

const (
	wantBrackets = "brackets around several rates, as in [3/1m, 20/24h]"
	wantRate     = "permits and a window in ms, s, m, h or d, or a day, week, month or year: 3/1m, 9/week"
	maxWindow    = 366 * 24 * time.Hour
	minWindow    = time.Millisecond
	maxRates     = 8
)

// rate is a rate as it stands in a file: of a window, or of a period of the calendar.
type rate struct {
	loader.Limit        // its Window is the length of most periods
	period       string // "" of a window
}

// parseRate reads a rate such as 3/1m: three permits in any minute. Windows have the units of time.ParseDuration, and
// d for 24 hours. 3/month is three in each month of the calendar.
func parseRate(text string) (r rate, what, want string) {
	permits, window, found := strings.Cut(text, "/")
	n, err := strconv.ParseInt(permits, 10, 64)
	if !found || err != nil || strings.Trim(permits, "0123456789") != "" {
		return r, fmt.Sprintf("rate %q", text), wantRate
	}
	if c, ok := calendars[window]; ok {
		return rate{loader.Limit{Permits: n, Window: c.length}, window}, "", ""
	}
	d, err := parseWindow(window)
	switch {
	case err != nil:
		return r, fmt.Sprintf("rate %q", text), wantRate
	case d < minWindow || d > maxWindow:
		return r, fmt.Sprintf("rate %q", text), "a window of 1ms to 366d"
	case d%time.Microsecond != 0:
		return r, fmt.Sprintf("rate %q", text), "a window of whole microseconds"
	}
	return rate{Limit: loader.Limit{Permits: n, Window: d}}, "", ""
}

// bracketed is several rates without brackets as they stand in a file, "" if it is something else.
func bracketed(text string) string {
	rates := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;", r) })
	for _, rate := range rates {
		if !isRate(rate) {
			return ""
		}
	}
	if len(rates) < 2 {
		return ""
	}
	return "[" + strings.Join(rates, ", ") + "]"
}

func isRate(text string) bool {
	_, what, _ := parseRate(text)
	return what == ""
}

// parseWindow is time.ParseDuration that knows whole days too. A unit alone is one of it: "m" is a minute.
func parseWindow(text string) (time.Duration, error) {
	if text != "" && strings.Trim(text, "nuµmsh") == "" {
		text = "1" + text
	}
	days, isDays := strings.CutSuffix(text, "d")
	if text == "d" {
		days = "1"
	}
	if !isDays {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	return time.Duration(n) * 24 * time.Hour, err
}

// conflict says which of the rates can never deny beside the others, because they are tighter in any interval, and
// which have so nearly the same window that a slice_ring counts both by the same slices.
func conflict(rates []rate) (at int, what string) {
	for i, a := range rates {
		for _, b := range rates[:i] {
			switch near := max(a.Window/199, time.Millisecond); {
			case a.period != b.period:
			case a.Window == b.Window:
				return i, fmt.Sprintf("%s and %s have the same window", b.show(), a.show())
			case (a.Window - b.Window).Abs() < near:
				return i, fmt.Sprintf("%s and %s have nearly the same window", b.show(), a.show())
			}
		}
	}
	for i, a := range rates {
		for j, b := range rates {
			if i == j || a.period+b.period != "" {
				continue
			}
			if b.Window > a.Window && b.Permits <= a.Permits {
				return i, fmt.Sprintf("%s never denies: %s allows no more in a longer window", a.show(), b.show())
			}
			if upper, ok := maxIn(a.Window, b.Limit); ok && a.Window > b.Window && upper <= a.Permits {
				return i, fmt.Sprintf("%s never denies: %s allows at most %d in %s", a.show(), b.show(), upper,
					admit.ShortDuration(a.Window))
			}
		}
	}
	return 0, ""
}

// mostIn is how many permits a rate allows in a longer window; not ok if that is more than an int64 holds.
func maxIn(window time.Duration, rate loader.Limit) (upper int64, ok bool) {
	times := int64((window + rate.Window - 1) / rate.Window)
	upper = times * rate.Permits
	return upper, rate.Permits == 0 || upper/rate.Permits == times
}

// show is a rate as it stands in a file.
func (r rate) show() string { return strconv.FormatInt(r.Permits, 10) + "/" + r.per() }

// per is the window or the period of a rate.
func (r rate) per() string { return cmp.Or(r.period, admit.ShortDuration(r.Window)) }

// Show returns rates of the policy as they may stand in a file: "3/1m, 20/24h" or "5000/month".
func (p *Policy) Show(rates []loader.Limit) string {
	texts := make([]string, len(rates))
	for i, limit := range rates {
		texts[i] = rate{limit, p.Period}.show()
	}
	return strings.Join(texts, ", ")
}
