package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// reply shows a reply field by field, behind what it means.
func (s screen) reply(script sluice.Script, values []int64) {
	fields := replyFields(script, len(values))
	if fields[0].Name == "granted" {
		s.printf("%s\n\n", s.meaning(values))
	}
	var t table
	for i, field := range fields {
		t.add(cell{text: "  " + field.Name}, cell{text: shown(field, values[i])})
	}
	t.print(s)
}

// meaning is a decision in words: granted, remaining and wait are the first fields of every one.
func (s screen) meaning(values []int64) string {
	granted, wait := values[0], values[2]
	switch {
	case granted > 0 && wait == 0:
		return s.paint(green, "granted: act now")
	case granted > 0:
		return s.paint(green, "granted: act "+length(wait)+" from now")
	case wait == 0:
		return s.paint(green, "a look: a permit would be granted now")
	}
	return s.paint(red, "not granted: permits come free "+length(wait)+" from now")
}

// replies shows many replies to one question, a row each.
func (s screen) replies(script sluice.Script, all [][]int64) {
	fields := replyFields(script, len(all[0]))
	names := []string{"#"}
	for _, field := range fields {
		if field.Type != "time" {
			names = append(names, field.Name)
		}
	}
	var t table
	t.head(names...)
	for n, values := range all {
		row := []cell{{text: strconv.Itoa(n + 1), right: true}}
		for i, field := range fields {
			switch {
			case field.Type == "time":
			case field.Name == "granted":
				row = append(row, cell{text: shown(field, values[i]), as: styleOfGrant(values[i]), right: true})
			default:
				row = append(row, cell{text: shortly(field, values[i]), right: true})
			}
		}
		t.add(row...)
	}
	t.print(s)
}

func styleOfGrant(granted int64) style {
	if granted > 0 {
		return green
	}
	return red
}

// replyFields are the fields of a reply of so many integers; the repeated ones at its end are numbered.
func replyFields(script sluice.Script, count int) []sluice.Field {
	var fields []sluice.Field
	for _, field := range script.Reply {
		if !field.Repeated {
			fields = append(fields, field)
			continue
		}
		for i := 1; len(fields) < count; i++ {
			one := field
			one.Name = repetition(field, i)
			fields = append(fields, one)
		}
	}
	return fields[:min(len(fields), count)]
}

// shown is a value with its unit, and as it is where that differs.
func shown(field sluice.Field, value int64) string {
	switch {
	case field.Type == "us" && value != 0:
		return fmt.Sprintf("%s (%d us)", length(value), value)
	case field.Type == "time":
		return time.UnixMicro(value).UTC().Format("2006-01-02 15:04:05.000000 UTC")
	}
	return strconv.FormatInt(value, 10)
}

// shortly is a value with its unit.
func shortly(field sluice.Field, value int64) string {
	if field.Type == "us" {
		return length(value)
	}
	return strconv.FormatInt(value, 10)
}

// length is a number of microseconds in a unit that a person would choose.
func length(us int64) string {
	seconds := float64(us) / 1e6
	switch {
	case us == 0:
		return "0"
	case us < 1000:
		return strconv.FormatInt(us, 10) + " us"
	case us < 1_000_000:
		return rounded(seconds*1e3) + " ms"
	case seconds < 120:
		return rounded(seconds) + " s"
	case seconds < 2*3600:
		return rounded(seconds/60) + " min"
	case seconds < 48*3600:
		return rounded(seconds/3600) + " h"
	}
	return rounded(seconds/86400) + " days"
}

// rounded is a number with up to three decimals, and none at its end that say nothing.
func rounded(n float64) string {
	text := strconv.FormatFloat(math.Round(n*1e3)/1e3, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
