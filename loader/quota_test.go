package loader_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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

// TestPeriods reads the table that the packages for Python and Node read, too: the begins of three periods of a zone, of
// which the second is that of a time, and the end of the third.
func TestPeriods(t *testing.T) {
	data, err := os.ReadFile("testdata/periods.json")
	must(t, err)
	var cases []struct {
		Name, Period, Zone string
		At                 time.Time
		Moments            [4]time.Time
	}
	must(t, json.Unmarshal(data, &cases))
	calendars := map[string]func(*time.Location) loader.Period{
		"day": loader.Daily, "week": loader.Weekly, "month": loader.Monthly, "year": loader.Yearly,
	}
	for _, c := range cases {
		period := calendars[c.Period](location(t, c.Zone))
		for i, at := range []time.Time{c.Moments[0], c.At, c.Moments[2]} {
			if begin, end := period(at); !begin.Equal(c.Moments[i]) || !end.Equal(c.Moments[i+1]) {
				t.Errorf("%s: %v is in %v to %v, want %v to %v", c.Name, at, begin, end, c.Moments[i], c.Moments[i+1])
			}
		}
	}
}

// TestMonthlyFrom is about a month without the day on which the first one began.
func TestMonthlyFrom(t *testing.T) {
	berlin := location(t, "Europe/Berlin")
	period := loader.MonthlyFrom(time.Date(2024, 1, 31, 15, 4, 5, 0, berlin))
	january, february, march := time.Date(2026, 1, 31, 15, 4, 5, 0, berlin), time.Date(2026, 2, 28, 15, 4, 5, 0, berlin),
		time.Date(2026, 3, 31, 15, 4, 5, 0, berlin)
	for at, want := range map[time.Time][2]time.Time{
		february.Add(-time.Second): {january, february}, february.Add(time.Second): {february, march},
	} {
		if begin, end := period(at); !begin.Equal(want[0]) || !end.Equal(want[1]) {
			t.Errorf("%v is in %v to %v, want %v", at, begin, end, want)
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
