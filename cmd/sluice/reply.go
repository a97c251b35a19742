package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// reply prints what a reply means, then each field.
func (s screen) reply(t attempt, values []int64) {
	fields := t.replied(len(values))
	if fields[0].Name == "granted" {
		s.printf("%s\n\n", s.meaning(t.script, values))
	}
	var rows table
	for i, field := range fields {
		rows.add(cell{text: "  " + field.Name}, cell{text: shown(field, values[i])})
	}
	rows.print(s)
}

// look prints the reply to a look, with the limit that was asked about, without granted and now.
func (s screen) look(v view) {
	t, values := v.asked, v.reply
	granted, denied := "a permit would be granted now", "the next permit comes free "+length(values[2])+" from now"
	if takes(t.script, "renew") {
		granted, denied = "a slot is free now", "the next slot is free "+length(values[2])+" from now, if it is not renewed"
	}
	switch wait := values[2]; {
	case v.WindowsMissing:
		s.aloneLook(v)
	case v.key.IsRing() && wait == 0:
		s.printf("  %s: %s\n\n", v.windowsText(), s.paint(green, granted))
	case v.key.IsRing():
		s.printf("  %s\n  %s\n\n", v.windowsText(), s.paint(red, denied))
	case wait == 0:
		s.printf("  with %s: %s\n\n", t.about(), s.paint(green, granted))
	default:
		s.printf("  with %s: %s\n\n", t.about(), s.paint(red, denied))
	}
	var facts table
	for i, field := range repeatedTo(len(values), t.script.Reply) {
		if field.Name != "granted" && field.Type != "time" {
			facts.add(cell{text: "  " + field.Name}, cell{text: shown(field, values[i])})
		}
	}
	facts.print(s)
}

// aloneLook prints the reply to a look at a ring with fewer windows than it was written with.
func (s screen) aloneLook(v view) {
	these, verdict := "this window", "a permit would be granted"
	if v.asked.groups() > 1 {
		these = "these windows"
	}
	if wait := v.reply[2]; wait > 0 {
		verdict = "the next permit comes free " + length(wait) + " from now"
	}
	s.printf("  %s\n  with %s alone: %s;\n", v.windowsText(), these, s.paint(yellow, verdict))
	s.printf("  the ring is %s long, other windows may refuse: add %s\n\n", length(v.Ring.Size*v.Ring.Slice),
		v.missingForm())
}

// about describes the limit that was asked about: "limit 3, window 60 s".
func (t attempt) about() string {
	var parts []string
	for i, field := range repeatedTo(len(t.args), t.script.Args) {
		switch field.Name {
		case "permits", "max_wait", "id", "scope", "ttl", "renew":
			continue
		}
		text := fmt.Sprint(t.args[i])
		if us, err := strconv.ParseInt(text, 10, 64); err == nil {
			text = shortly(field, us)
		}
		parts = append(parts, field.Name+" "+text)
	}
	return strings.Join(parts, ", ")
}

// meaning describes a decision. Every reply begins with granted, remaining and wait.
func (s screen) meaning(script sluice.Script, values []int64) safe {
	granted, wait := values[0], values[2]
	if takes(script, "renew") {
		return s.slotMeaning(granted, wait)
	}
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

// slotMeaning describes a decision about a slot.
func (s screen) slotMeaning(granted, wait int64) safe {
	switch {
	case granted > 0:
		return s.paint(green, "granted: the slot is held until the lease ends")
	case wait == 0:
		return s.paint(red, "not granted: no live lease to renew; a slot is free now")
	}
	return s.paint(red, "not granted: a slot is free "+length(wait)+" from now, if none is renewed")
}

// replies prints many replies to the same call as a table.
func (s screen) replies(asked attempt, all [][]int64) {
	fields := asked.replied(len(all[0]))
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
			as := plain
			switch {
			case field.Type == "time":
				continue
			case field.Name == "granted" && values[i] > 0:
				as = green
			case field.Name == "granted":
				as = red
			}
			row = append(row, cell{text: shortly(field, values[i]), as: as, right: true})
		}
		t.add(row...)
	}
	t.print(s)
}

// replied returns the count fields of the reply. Where several keys are asked about and each has several windows, the
// fields of the windows are numbered by both: count_2_1.
func (t attempt) replied(count int) (fields []sluice.Field) {
	ofWindow := func(field sluice.Field) bool { return strings.HasSuffix(field.Name, "_i") }
	windows := slices.IndexFunc(t.script.Reply, ofWindow)
	if t.script.KeyGroup == nil || windows < 0 {
		return repeatedTo(count, t.script.Reply)
	}
	fields = slices.Clone(t.script.Reply[:1])
	for k := range t.keys {
		for _, field := range t.script.Reply[1:windows] {
			field.Name = repetition(field, k+1)
			fields = append(fields, field)
		}
		for i := range t.groups() {
			field := t.script.Reply[windows]
			field.Name = repetition(field, k+1) + "_" + strconv.Itoa(i+1)
			fields = append(fields, field)
		}
	}
	return fields[:count]
}

// repeatedTo returns count fields. The repeated fields at the end are numbered from 1.
func repeatedTo(count int, all []sluice.Field) []sluice.Field {
	group := slices.IndexFunc(all, func(field sluice.Field) bool { return field.Repeated })
	if group < 0 {
		return all[:min(len(all), count)]
	}
	fields := slices.Clone(all[:group])
	for i := 1; len(fields) < count; i++ {
		for _, field := range all[group:] {
			field.Name = repetition(field, i)
			fields = append(fields, field)
		}
	}
	return fields[:count]
}

// shown formats a value with its unit, followed by the raw value if that differs.
func shown(field sluice.Field, value int64) string {
	switch {
	case field.Type == "us" && value != 0:
		return fmt.Sprintf("%s (%d us)", length(value), value)
	case field.Type == "time":
		return fmt.Sprintf("%s (%d us)", time.UnixMicro(value).UTC().Format(timeLayout), value)
	}
	return strconv.FormatInt(value, 10)
}

// shortly formats a value with its unit.
func shortly(field sluice.Field, value int64) string {
	if field.Type == "us" {
		return length(value)
	}
	return strconv.FormatInt(value, 10)
}

// length formats a duration in microseconds with a readable unit.
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

// rounded formats a number with up to three decimals, without zeros at the end.
func rounded(n float64) string {
	text := strconv.FormatFloat(math.Round(n*1e3)/1e3, 'f', 3, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
