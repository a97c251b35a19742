package soak

import (
	"cmp"
	"slices"
	"time"
)

// Use is the time in which a slot of a Concurrency was in use: from after it was acquired until before it was released,
// or until its context ended.
type Use struct{ From, To time.Time }

// MostAtOnce returns how many slots were in use at once at most: in the times that are explained, and in all others.
func MostAtOnce(uses []Use, explained ...Use) (within, otherwise int) {
	type change struct {
		at time.Time
		by int
	}
	var changes []change
	for _, u := range uses {
		changes = append(changes, change{u.From, 1}, change{u.To, -1})
	}
	for _, e := range explained { // what is in use then counts, also if nothing changes afterwards
		changes = append(changes, change{e.From, 0}, change{e.To, 0})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.by, b.by)) })
	held := 0
	for _, c := range changes {
		held += c.by
		if slices.ContainsFunc(explained, func(e Use) bool { return !c.at.Before(e.From) && c.at.Before(e.To) }) {
			within = max(within, held)
		} else {
			otherwise = max(otherwise, held)
		}
	}
	return within, otherwise
}
