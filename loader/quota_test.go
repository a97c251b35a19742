package loader_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

func location(t *testing.T, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	must(t, err)
	return loc
}

// TestPeriods names a time, and the begin and the end of the period in which it lies, by the clocks of a location.
func TestPeriods(t *testing.T) {
	subscribed := time.Date(2024, 1, 31, 15, 4, 5, 0, location(t, "Europe/Berlin"))
	for _, c := range []struct {
		name     string
		period   func(*time.Location) loader.Period
		zone     string
		at       string
		from, to string
		hours    float64
	}{
		{"a day of 23 hours", loader.Daily, "Europe/Berlin", "2026-03-29 12:00", "03-29 00:00", "03-30 00:00", 23},
		{"a day of 25 hours", loader.Daily, "Europe/Berlin", "2026-10-25 02:30", "10-25 00:00", "10-26 00:00", 25},
		{"no midnight: the day begins at 1:00", loader.Daily, "America/Sao_Paulo", "2018-11-04 05:00", "11-04 01:00",
			"11-05 00:00", 23},
		{"the day before it ends then", loader.Daily, "America/Sao_Paulo", "2018-11-03 23:30", "11-03 00:00", "11-04 01:00", 24},
		{"a day that was left out", loader.Daily, "Pacific/Apia", "2011-12-29 12:00", "12-29 00:00", "12-31 00:00", 24},
		{"a half-hour zone that moves by half an hour", loader.Daily, "Australia/Lord_Howe", "2026-04-05 12:00", "04-05 00:00",
			"04-06 00:00", 24.5},
		{"a week begins on Monday", loader.Weekly, "Asia/Tokyo", "2026-11-29 23:59", "11-23 00:00", "11-30 00:00", 168},
		{"a week with a change of clocks", loader.Weekly, "Europe/Berlin", "2026-10-25 12:00", "10-19 00:00", "10-26 00:00", 169},
		{"a month of 28 days", loader.Monthly, "UTC", "2026-02-28 23:59", "02-01 00:00", "03-01 00:00", 28 * 24},
		{"one of 29", loader.Monthly, "UTC", "2028-02-01 00:00", "02-01 00:00", "03-01 00:00", 29 * 24},
		{"a month of 31 days less an hour", loader.Monthly, "Europe/Berlin", "2026-03-31 12:00", "03-01 00:00", "04-01 00:00",
			31*24 - 1},
		{"a year", loader.Yearly, "America/New_York", "2028-12-31 23:59", "01-01 00:00", "01-01 00:00", 366 * 24},
		{"a subscription of the 31st", func(*time.Location) loader.Period { return loader.MonthlyFrom(subscribed) },
			"Europe/Berlin", "2026-02-28 15:04", "01-31 15:04", "02-28 15:04", 28 * 24},
		{"its next month", func(*time.Location) loader.Period { return loader.MonthlyFrom(subscribed) },
			"Europe/Berlin", "2026-02-28 15:05", "02-28 15:04", "03-31 15:04", 31*24 - 1},
	} {
		loc := location(t, c.zone)
		at, err := time.ParseInLocation("2006-01-02 15:04", c.at, loc)
		must(t, err)
		from, to := c.period(loc)(at)
		const form = "01-02 15:04"
		if from.In(loc).Format(form) != c.from || to.In(loc).Format(form) != c.to || to.Sub(from).Hours() != c.hours {
			t.Errorf("%s: from %v to %v (%v h), want %s to %s (%v h)", c.name, from, to, to.Sub(from).Hours(), c.from, c.to, c.hours)
		}
	}
}

// TestPeriodsFollowOneAnother walks through years of zones whose clocks change in unusual ways: each period ends where
// the next begins, and holds the times between.
func TestPeriodsFollowOneAnother(t *testing.T) {
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Pacific/Apia",
		"Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns"} {
		loc := location(t, zone)
		first := time.Date(2005, 1, 31, 23, 30, 0, 0, loc)
		for name, period := range map[string]loader.Period{
			"days": loader.Daily(loc), "weeks": loader.Weekly(loc), "months": loader.Monthly(loc), "years": loader.Yearly(loc),
			"subscriptions": loader.MonthlyFrom(first),
		} {
			begin, end := period(first)
			for end.Year() < 2027 {
				for _, at := range []time.Time{begin, begin.Add(end.Sub(begin) / 2), end.Add(-time.Microsecond)} {
					if b, e := period(at); !b.Equal(begin) || !e.Equal(end) {
						t.Fatalf("%s, %s: %v is in %v to %v, want %v to %v", zone, name, at, b, e, begin, end)
					}
				}
				next, after := period(end)
				if !next.Equal(end) || !after.After(end) {
					t.Fatalf("%s, %s: %v to %v follows %v", zone, name, next, after, end)
				}
				begin, end = next, after
			}
		}
	}
}

// TestQuota asks, looks, reports and gives back in the month of today, on a fake and on a server.
func TestQuota(t *testing.T) {
	each(t, func(t *testing.T, rdb *redis.Client) {
		now, err := rdb.Time(background).Result()
		must(t, err)
		begin, end := loader.Monthly(time.UTC)(now)
		var events []loader.Event
		observe := loader.ObserverFunc(func(_ context.Context, e loader.Event) { events = append(events, e) })
		quota := loader.New(rdb, loader.Observe(observe)).Quota("x", 10, loader.Between(begin, end))
		must(t, quota.Check())
		d := wantGrant(t, quota, "s", 4)
		if d.Limit.Window != end.Sub(begin) || !d.PeriodBegin.Equal(begin) || d.Remaining != 6 || !d.Now.Add(d.ResetAfter).Equal(end) {
			t.Errorf("%+v, want 6 remaining from %v to %v", d, begin, end)
		}
		denied := wantDenial(t, quota.With(10, loader.Between(begin, end)), "s", 7)
		if !denied.Now.Add(denied.Wait).Equal(end) {
			t.Errorf("%+v, want a wait until %v", denied, end)
		}
		wantReturned(t, quota, "s", d, 3, 3)
		wantRemaining(t, quota, "s", 9)
		over, err := quota.Report(background, "s", 12)
		if must(t, err); over.Granted || !over.Now.Add(over.Wait).Equal(end) {
			t.Errorf("%+v, want no grant after a report of 12", over)
		}
		if e := events[len(events)-1]; e.ReportOver != 3 || e.Script != "quota_v1" {
			t.Errorf("%+v, want 3 over", e)
		}
		_, err = quota.Report(background, "s", 1_000_000_000_001)
		wantError(t, err, "loader: x: n 1000000000001: want 0 to 1000000000000")
		must(t, quota.Reset(background, "s"))
		wantRemaining(t, quota, "s", 10)
	})
}

// TestQuotaOfOverPeriod gives nothing back of a period that is over, and counts anew.
func TestQuotaOfOverPeriod(t *testing.T) {
	m, rdb := fake(t)
	first := loader.New(rdb).Quota("x", 10, loader.Between(second0, second0.Add(24*time.Hour)))
	d := wantGrant(t, first, "s", 10)
	m.SetTime(second0.Add(24 * time.Hour))
	second := wantGrant(t, first, "s", 4)
	if !second.PeriodBegin.Equal(second0.Add(24 * time.Hour)) {
		t.Errorf("%+v", second)
	}
	wantReturned(t, first, "s", d, 0, 10)
	wantRemaining(t, first, "s", 6)
}

// TestQuotaInAll charges a quota and a window together, or neither.
func TestQuotaInAll(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	month, minute := limits.Quota("m", 3, loader.Between(second0, second0.AddDate(0, 1, 0))), limits.ListLog("w", loader.PerMinute(2))
	for i, want := range []bool{true, true, false} {
		all := limits.All()
		all.Allow(month, "s")
		all.Allow(minute, "s")
		d, err := all.Do(background)
		if must(t, err); d.Granted != want {
			t.Errorf("call %d: %+v", i, d)
		}
	}
	must(t, limits.Flush(background))
	wantRemaining(t, month, "s", 1)
}

// TestQuotaShared has many callers ask at once: they share commands, and no permit too many is granted.
func TestQuotaShared(t *testing.T) {
	rdb := real(t)
	now := rdb.Time(background).Val()
	quota := loader.New(rdb).Quota("x", 100, loader.Between(now.Add(-time.Hour), now.Add(time.Hour)))
	var mu sync.Mutex
	var all sync.WaitGroup
	granted := 0
	for range 300 {
		all.Go(func() {
			d, err := quota.Allow(background, "s")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if d.Granted {
				granted++
			}
		})
	}
	all.Wait()
	if granted != 100 {
		t.Errorf("%d granted of 100", granted)
	}
}

// TestQuotaMistakes are told by Check, or by the call.
func TestQuotaMistakes(t *testing.T) {
	limits := loader.New(neverAsked(t))
	for want, quota := range map[string]loader.Quota{
		"loader: x: permits -1: want 0 or more":                                                limits.Quota("x", -1, loader.Daily(time.UTC)),
		"loader: x: permits 1000000000001: want 10^12 or less":                                 limits.Quota("x", 1e12+1, loader.Daily(time.UTC)),
		"loader: x: period of a calendar: want one, such as Monthly(time.UTC)":                 limits.Quota("x", 1, loader.Daily(nil)),
		"loader: x: period of a calendar: want an end after its begin, and neighbors likewise": limits.Quota("x", 1, loader.Between(second0, second0)),
		"loader: x: period of a calendar: want whole microseconds since 1970": limits.Quota("x", 1,
			loader.Between(second0.Add(time.Nanosecond), second0.Add(time.Hour))),
		"loader: x: FailLocal is not an option of Quota": limits.Quota("x", 1, loader.Daily(time.UTC), loader.FailLocal(1)),
	} {
		if err := quota.Check(); err == nil || len(err.Error()) < len(want) || err.Error()[:len(want)] != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := limits.Quota("x", 1, loader.Between(time.Unix(1000, 0), time.Unix(2000, 0))).Check(); err != nil {
		t.Errorf("a period in 1970: %v", err)
	}
	if d, err := limits.Quota("x", 0, loader.Daily(time.UTC)).Allow(background, "s"); err != nil || d.Granted || d.Wait != loader.Never {
		t.Errorf("a quota of 0: %+v, %v", d, err)
	}
	_, err := limits.Quota("x", 3, loader.Daily(time.UTC)).AllowN(background, "s", 4)
	if !errors.Is(err, loader.ErrExceedsLimit) {
		t.Error(err)
	}

	m, rdb := fake(t)
	m.SetTime(time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC))
	_, err = loader.New(rdb).Quota("x", 3, loader.Daily(time.UTC)).Allow(background, "s")
	wanted := as[*loader.ArgumentError](t, err)
	if wanted.Argument != "first" {
		t.Error(err)
	}
}

// TestQuotaAtBoundary asks from processes whose clocks differ by two seconds, around the end of a period: neither it
// nor the next holds more than the limit.
func TestQuotaAtBoundary(t *testing.T) {
	rdb := real(t)
	const limit, processes = 400, 8
	boundary := rdb.Time(background).Val().Add(1500 * time.Millisecond).Truncate(time.Microsecond)
	ctx, cancel := context.WithDeadline(background, time.Now().Add(3*time.Second))
	defer cancel()
	counts := make([]map[string]int, processes)
	var all sync.WaitGroup
	for i := range processes {
		off := time.Duration(i-processes/2) * 500 * time.Millisecond // of this process's clock
		length := 5 * time.Second
		quota := loader.New(rdb).Quota("x", limit, func(t time.Time) (time.Time, time.Time) {
			since := t.Sub(boundary)
			if edge := (since%length + length) % length; edge != 0 && edge != length-time.Microsecond { // now
				since += off
			}
			k := (since - (since%length+length)%length) / length
			return boundary.Add(k * length), boundary.Add((k + 1) * length)
		})
		counts[i] = map[string]int{}
		all.Go(func() {
			for ctx.Err() == nil {
				d, err := quota.Allow(background, "s")
				if err != nil {
					t.Error(err)
					return
				}
				if d.Granted {
					counts[i][fmt.Sprint(d.PeriodBegin.Sub(boundary))]++
				}
			}
		})
	}
	all.Wait()
	sum := map[string]int{}
	for _, count := range counts {
		for begin, n := range count {
			sum[begin] += n
		}
	}
	if len(sum) != 2 || sum["-5s"] != limit || sum["0s"] != limit {
		t.Errorf("granted by the begin of the period: %v, want %d twice", sum, limit)
	}
}
