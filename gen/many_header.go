package main

import (
	"fmt"
	"slices"
	"strings"
)

// What follows is the header of a script for many keys, made from that of the script for one.

// KeyRow is the row of the keys.
func (r *repetition) KeyRow() string {
	index := "KEYS[k]"
	if r.Group != nil {
		index = "KEYS[ki]"
	}
	return fmt.Sprintf("-- %-11s %-12s %s", index, r.Keys[0].Name, r.Keys[0].Pattern)
}

// Order is the script's complexity for K keys.
func (r *repetition) Order() string {
	return "O(K" + strings.TrimPrefix(" "+strings.TrimPrefix(r.Cost.Order, "O("), " 1")
}

// Prose returns the prose of the header.
func (r *repetition) Prose() string {
	scope := "up to " + r.Max + " keys of one limiter in one call"
	keys := "REPLY goes on with EACH for each key in turn. Each key is decided as by " + r.ID()
	if r.Group != nil {
		scope = "several subjects of one limiter in one call, with up to " + r.Max + " keys in all"
		keys = "KEYS has the " + tableOf(r.Keys[0].Name) + " of the first subject, then of the next. REPLY goes on with " +
			"EACH for each subject in turn. Each is decided as by " + r.ID()
	}
	keys += ", and twice if it is named twice."
	if r.Bound != "" { // a row has K
		keys += " K is the number of keys."
	}
	text := r.ID() + " for " + scope + ". " + keys + " Only granted above 0 is a grant. One that cannot be decided has " +
		"granted -1 (BADSTATE) or -2 (WRONGTYPE), and 0 in its other fields; the others are decided. If Redis refuses a " +
		"command, for example by an ACL, the call ends with that error, and those before it keep their grants. In a " +
		"cluster all keys must lie in one slot: different subjects mostly do not."
	if r.Counted != "" {
		text += fmt.Sprintf(" Granted -3: not decided and not charged, because the keys before it have read %s entries. "+
			"Ask for these keys again.", r.Calls)
	}
	return wrapTo(maxColumns-2, "--", text) + "\n"
}

// Rows returns the rows of the header that begin with a word.
func (r *repetition) Rows(word string) string { return strings.Join(r.rows[word], "") }

// ArgRows returns the rows of the arguments, with the bound of the product.
func (r *repetition) ArgRows() string {
	rows := slices.Clone(r.rows["ARGV"])
	if r.Bound != "" {
		bounded := slices.Index(fieldNames(r.Args), r.Product)
		rows[bounded] = strings.Replace(rows[bounded], ";", fmt.Sprintf(", K * %s up to %s;", r.Product, r.Bound), 1)
	}
	return strings.Join(rows, "")
}

// ReplyRows returns the rows of the replies: now, then those for each key. The first of these is a number below 0 if
// the key was not decided.
func (r *repetition) ReplyRows() string {
	rows, now := r.rows["REPLY"], len(r.Fields())
	least, text := -2, ""
	if r.Counted != "" {
		least, text = -3, ", -3: ask again"
	}
	granted := r.Reply[0]
	b := row("REPLY[1]", rows[now]) + fmt.Sprintf(
		"-- EACH[1]     %-12s %-5s %-23s permits granted; -1: BADSTATE, -2: WRONGTYPE%s\n",
		granted.Name, granted.Type, fmt.Sprintf("%d..%d", least, granted.Max), text)
	for i := 1; i < len(rows); i++ {
		switch {
		case i < now:
			b += row(fmt.Sprintf("EACH[%d]", i+1), rows[i])
		case i > now:
			b += row(fmt.Sprintf("EACH[%d+i]", now), rows[i])
		}
	}
	return b
}

// row is a row with another first column.
func row(first, old string) string { return fmt.Sprintf("-- %-11s ", first) + old[nameColumn-1:] }

// ErrorRows returns the rows of the errors. Those of one key are numbers in the reply.
func (r *repetition) ErrorRows() string {
	rows := slices.Clone(r.rows["ERROR"])
	for i, e := range r.Errors {
		number, ok := map[string]string{"WRONGTYPE": "-2", "BADSTATE": "-1"}[e.Name]
		if ok {
			rows[i] = rows[i][:thirdColumn-1] + "granted " + number + ": " + rows[i][thirdColumn-1:]
		}
	}
	return strings.Join(rows, "")
}
