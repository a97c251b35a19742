package main

import (
	"slices"
	"strconv"
)

// census prints the tables.
func (s screen) census(c census) {
	if len(c.Logs) > 0 {
		s.printf("most permits stored, refused calls not counted\n")
		s.ranked(c.Logs, permitsColumn, permitsOf)
	}
	if len(c.Buckets) > 0 {
		s.printf("furthest from full\n")
		s.ranked(c.Buckets, "full in", func(one *subject) string { return length(one.Backlog) })
	}
	if len(c.Biggest) > 0 {
		s.printf("most memory\n")
		s.ranked(c.Biggest, permitsColumn, permitsOf)
	}
	how := ""
	switch {
	case c.Partial:
		how = ", until it was interrupted"
	case len(c.Failures) > 0:
		how = ", incomplete"
	}
	s.printf("%s (of %s scanned)%s\n", counted(c.Counted, "subject", "subjects"), counted(int(c.Seen), "key", "keys"), how)
	if c.unweighed != nil && len(c.Failures) == 0 && c.unreadable == nil {
		s.printf("memory or TTL is not known: %s\n", c.unweighed)
		if cure := cureFor(withRights(c.unweighed, c.rights())); cure != "" {
			s.printf("cure: %s\n", cure)
		}
	}
	if c.Refused > 0 {
		s.printf("%s a script would refuse; the first:\n  sluice inspect '%s'\n",
			counted(c.Refused, "key that", "keys that"), c.FirstRefused)
	}
}

// permitsColumn is the first column of the table that has a column for the newest permit.
const permitsColumn = "permits"

func permitsOf(one *subject) string {
	return orDash(one.Permits, func(n int64) string { return strconv.FormatInt(n, 10) })
}

func (s screen) ranked(subjects []*subject, measure string, text func(*subject) string) {
	var t table
	names := []string{measure, "newest", "expires", "memory", "script", "limiter", "subject"}
	if measure != permitsColumn {
		names = slices.Delete(names, 1, 2)
	}
	t.head(names...)
	for _, one := range subjects {
		who := one.Subject
		if one.Client != "" {
			who += " by " + one.Client
		}
		if one.Window > 0 {
			who += " in " + length(one.Window)
		}
		row := []cell{{text: text(one), right: true}}
		switch {
		case one.Idle != nil:
			row = append(row, cell{text: ago(*one.Idle), right: true})
		case measure == permitsColumn:
			row = append(row, cell{text: "-", right: true})
		}
		t.add(append(row,
			cell{text: orDash(one.TTL, length), right: true}, cell{text: orDash(one.Memory, size), right: true},
			cell{text: one.Script}, cell{text: one.Limiter}, cell{text: who, as: bold})...)
	}
	t.print(s)
	s.printf("\n")
}

// ago formats how long ago something was.
func ago(us int64) string {
	switch {
	case us < 0:
		return "booked " + length(-us) + " ahead"
	case us < 1000:
		return "now"
	}
	return length(us) + " ago"
}

// orDash formats a number above 0.
func orDash(n int64, text func(int64) string) string {
	if n == 0 {
		return "-"
	}
	return text(n)
}
