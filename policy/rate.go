package policy

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/admit"
	"github.com/sluice-redis/sluice/loader"
)

const (
	wantBrackets = "brackets around several rates, as in [3/1m, 20/24h]"
	wantRate     = "permits and a window, as in 3/1m, 20/24h or 5000/30d"
	maxWindow    = 366 * 24 * time.Hour
	minWindow    = time.Millisecond
	maxRates     = 8
)

// parseRate reads a rate such as 3/1m: three permits in any minute. Windows have the units of time.ParseDuration, and
// d for 24 hours.
func parseRate(text string) (limit loader.Limit, what, want string) {
	permits, window, found := strings.Cut(text, "/")
	n, err := strconv.ParseInt(permits, 10, 64)
	if !found || err != nil || strings.Trim(permits, "0123456789") != "" {
		return limit, fmt.Sprintf("rate %q", text), wantRate
	}
	d, err := parseWindow(window)
	switch {
	case err != nil:
		return limit, fmt.Sprintf("rate %q", text), wantRate
	case d < minWindow || d > maxWindow:
		return limit, fmt.Sprintf("rate %q", text), "a window of 1ms to 366d"
	case d%time.Microsecond != 0:
		return limit, fmt.Sprintf("rate %q", text), "a window of whole microseconds"
	}
	return loader.Limit{Permits: n, Window: d}, "", ""
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
func conflict(rates []loader.Limit) (at int, what string) {
	for i, a := range rates {
		for _, b := range rates[:i] {
			switch near := max(a.Window/199, time.Millisecond); {
			case a.Window == b.Window:
				return i, fmt.Sprintf("%s and %s have the same window", show(b), show(a))
			case (a.Window - b.Window).Abs() < near:
				return i, fmt.Sprintf("%s and %s have nearly the same window", show(b), show(a))
			}
		}
	}
	for i, a := range rates {
		for j, b := range rates {
			if i == j {
				continue
			}
			if b.Window > a.Window && b.Permits <= a.Permits {
				return i, fmt.Sprintf("%s never denies: %s allows no more in a longer window", show(a), show(b))
			}
			if upper, ok := maxIn(a.Window, b); ok && a.Window > b.Window && upper <= a.Permits {
				return i, fmt.Sprintf("%s never denies: %s allows at most %d in %s", show(a), show(b), upper,
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
func show(limit loader.Limit) string {
	return strconv.FormatInt(limit.Permits, 10) + "/" + admit.ShortDuration(limit.Window)
}
