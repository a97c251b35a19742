package loader_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// TestSliceLength finds the windows of a ring by what its header says of its sections.
func TestSliceLength(t *testing.T) {
	const us = time.Microsecond
	for _, test := range []struct {
		windows []time.Duration
		opts    []loader.LimiterOption
		want    string // slice and size of each window
	}{
		{[]time.Duration{time.Minute}, nil, "300ms 201"},
		{[]time.Duration{time.Hour, time.Minute}, nil, "18s 201, 300ms 201"},
		{[]time.Duration{time.Second}, nil, "5ms 201"},
		{[]time.Duration{2 * time.Millisecond}, nil, "1ms 3"},
		{[]time.Duration{time.Millisecond}, nil, "1ms 2"},
		{[]time.Duration{time.Minute + us}, nil, "300.001ms 201"},
		{[]time.Duration{day, time.Minute}, []loader.LimiterOption{loader.Slice(time.Minute)}, "1m0s 1441, 1m0s 2"},
		{[]time.Duration{200 * day, 200*day + us}, nil, "24h0m0s 201, 24h0m0s 202"},
		{[]time.Duration{9999 * day}, nil, "24h0m0s 10000"},
		{[]time.Duration{time.Minute}, []loader.LimiterOption{loader.LeaseAge(10 * time.Second)}, "300ms 235"},
		{[]time.Duration{9998 * day}, []loader.LimiterOption{loader.LeaseAge(day)}, "24h0m0s 10000"},
	} {
		m, rdb := fake(t)
		var limits []loader.Limit
		for _, window := range test.windows {
			limits = append(limits, permits(3, window))
		}
		ring := loader.New(rdb).SliceRing("x", limits, test.opts...)
		wantGrant(t, ring, "s", 3)
		wantDenial(t, ring, "s", 1)
		stored, err := m.Get(m.Keys()[0])
		must(t, err)
		var got []string
		for section := range slices.Chunk([]byte(stored[14:14+20*stored[0]]), 20) {
			slice := binary.BigEndian.Uint64(append([]byte{0, 0, 0}, section[:5]...))
			got = append(got, fmt.Sprint(time.Duration(slice)*us, " ", binary.BigEndian.Uint16(section[5:7])))
		}
		if got := strings.Join(got, ", "); got != test.want {
			t.Errorf("%v: %s, want %s", test.windows, got, test.want)
		}
	}
}

// TestSliceRingCoversItsWindow asks at the end of a slice: a full window later the limit still holds.
func TestSliceRingCoversItsWindow(t *testing.T) {
	m, rdb := fake(t)
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{loader.PerMinute(5)})
	slice := 300 * time.Millisecond
	m.SetTime(second0.Add(slice - time.Microsecond))
	wantGrant(t, ring, "s", 5)
	m.SetTime(second0.Add(time.Minute))
	wantDenial(t, ring, "s", 1)
	m.SetTime(second0.Add(time.Minute + slice))
	wantGrant(t, ring, "s", 1)
}

// TestLongWindowHolds follows a window of 61 days: nothing is granted until the whole of it has gone by.
func TestLongWindowHolds(t *testing.T) {
	m, rdb := fake(t)
	start := time.UnixMicro(20000 * day.Microseconds()) // where a slice begins
	ring := loader.New(rdb).SliceRing("x", []loader.Limit{permits(5, 61*day)}, loader.Slice(day))
	for _, step := range []struct {
		at      time.Duration
		granted bool
	}{
		{day - time.Microsecond, true}, {day, false}, {61 * day, false}, {62*day - time.Microsecond, false}, {62 * day, true},
	} {
		m.SetTime(start.Add(step.at))
		d, err := ring.AllowN(background, "s", 5)
		if err != nil || d.Granted != step.granted {
			t.Errorf("%v: %+v, %v; want granted %v", step.at, d, err, step.granted)
		}
	}
}
