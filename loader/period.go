package loader

import (
	"slices"
	"time"
)

// Period returns the begin and the end of the period of a calendar in which a time lies: the end is the begin of the
// next one. Both are of whole microseconds. What is asked before or after all that it returns, as with Between, counts
// in a period of 366 days that ends or begins there, and does not begin before 1970. It is called three times for each
// decision of a Quota.
type Period func(t time.Time) (begin, end time.Time)

// Daily is the days of a location, from midnight to midnight: 23 to 25 hours where clocks change.
func Daily(loc *time.Location) Period {
	return calendar(loc, func(t time.Time, k int) time.Time {
		y, m, d := t.Date()
		return midnight(y, m, d+k, loc)
	})
}

// Weekly is the weeks of a location, which begin on Monday, as in ISO 8601.
func Weekly(loc *time.Location) Period {
	return calendar(loc, func(t time.Time, k int) time.Time {
		y, m, d := t.Date()
		sinceMonday := (int(t.Weekday()) + 6) % 7
		return midnight(y, m, d-sinceMonday+7*k, loc)
	})
}

// Monthly is the months of a location.
func Monthly(loc *time.Location) Period {
	return calendar(loc, func(t time.Time, k int) time.Time {
		y, m, _ := t.Date()
		return midnight(y, m+time.Month(k), 1, loc)
	})
}

// Yearly is the years of a location.
func Yearly(loc *time.Location) Period {
	return calendar(loc, func(t time.Time, k int) time.Time { return midnight(t.Year()+k, time.January, 1, loc) })
}

// MonthlyFrom is the months of a subscription that began at a time: each begins on its day, at its time of day, in its
// location. Where a month has no such day, it is the last one.
func MonthlyFrom(first time.Time) Period {
	loc := first.Location()
	return calendar(loc, func(t time.Time, k int) time.Time {
		y, m, _ := t.Date()
		last := time.Date(y, m+time.Month(k)+1, 0, 0, 0, 0, 0, loc).Day()
		hour, minute, second := first.Clock()
		return time.Date(y, m+time.Month(k), min(first.Day(), last), hour, minute, second, 0, loc)
	})
}

// Between is the one period that a billing system names.
func Between(begin, end time.Time) Period {
	return func(time.Time) (time.Time, time.Time) { return begin, end }
}

// calendar returns the Period with these begins: of the one around the date of t, and of the k-th after it. If clocks
// change, t may lie in one beside it.
func calendar(loc *time.Location, begin func(t time.Time, k int) time.Time) Period {
	if loc == nil {
		return nil
	}
	return func(t time.Time) (time.Time, time.Time) {
		t = t.In(loc)
		k := 0
		for begin(t, k).After(t) {
			k--
		}
		for !begin(t, k+1).After(t) {
			k++
		}
		return begin(t, k), begin(t, k+1)
	}
}

// midnight returns the begin of a day. It is later than 0:00 where the clocks go forward over it.
func midnight(y int, m time.Month, d int, loc *time.Location) time.Time {
	at, day := time.Date(y, m, d, 0, 0, 0, 0, loc), time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Day()
	if at.Day() != day {
		_, at = at.ZoneBounds()
	}
	return at
}

// moments returns the begins of three periods, of which the second is that which p has for t, and the end of the third.
func (p Period) moments(t time.Time) (moments [4]time.Time) {
	const beside = 366 * 24 * time.Hour
	begin, end := p(t)
	before, itsEnd := p(begin.Add(-time.Microsecond))
	if !itsEnd.Equal(begin) {
		before = time.UnixMicro(max(0, begin.Add(-beside).UnixMicro()))
	}
	next, after := p(end)
	if !next.Equal(end) {
		after = end.Add(beside)
	}
	return [4]time.Time{before, begin, end, after}
}

// isSame reports whether two Periods are the same around t.
func (p Period) isSame(other Period, t time.Time) bool {
	if p == nil || other == nil {
		return p == nil && other == nil
	}
	a, b := p.moments(t), other.moments(t)
	return slices.EqualFunc(a[:], b[:], time.Time.Equal)
}

// check returns what is wanted of a Period that is wrong around t.
func (p Period) check(t time.Time) (want string) {
	if p == nil {
		return "one, such as Monthly(time.UTC)"
	}
	moments := p.moments(t)
	for i, at := range moments {
		switch {
		case !at.Equal(at.Truncate(time.Microsecond)) || at.UnixMicro() < 0:
			return "whole microseconds since 1970"
		case i > 0 && !at.After(moments[i-1]):
			return "an end after its begin, and neighbors likewise"
		}
	}
	return ""
}
