package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/layout"
)

// A ringCall is a single call at the bounds of a script of slice_ring's family.
type ringCall struct {
	script   sluice.Script
	what     string
	subjects int   // of a script for many
	windows  int   // of a subject, of as many cells each
	cells    int64 // of a window
	ago      int64 // slices since the last charge; below 0: no ring
	permits  int64 // wanted, given back or settled
	reported int64
	limit    int64
	granted  int64 // the first field of the reply: of a subject where there are many
}

const (
	maxCells   = 1000
	maxWindows = 8
	eachCell   = 100 // permits in each slice of a ring
	fullRing   = maxCells * eachCell
	ample      = 1_000_000_000
)

// ringCalls are all of them, in the states that take long: no ring yet, a gap of all slices but one or of half of them,
// and a search for the wait in each window.
func ringCalls() []ringCall {
	var list []ringCall
	states := func(c ringCall, denials bool) {
		add := func(what string, ago, permits, limit, granted int64) {
			c.what, c.ago, c.permits, c.limit, c.granted = what, ago, permits, limit, granted
			list = append(list, c)
		}
		add("new", -1, 1, ample, 1)
		add("gap of 999", 999, 1, ample, 1)
		add("all left", 1000, 1, ample, 1)
		if denials {
			add("denied", 0, 1, fullRing, 0)
			add("denied, gap of 500", 500, fullRing/2, fullRing/2, 0)
		}
		if denials && c.script.Name != sluice.BudgetV1().Name {
			c.reported = 1
			add("denied, reported, gap of 500", 500, fullRing/2, fullRing/2, 0)
		}
	}
	many := sluice.SliceRingManyV1()
	keys := many.KeyGroup.Max
	states(ringCall{script: sluice.SliceRingV1(), subjects: 1, windows: maxWindows, cells: maxCells}, true)
	states(ringCall{script: many, subjects: keys, windows: 1, cells: maxCells}, true)
	states(ringCall{script: many, subjects: keys / maxWindows, windows: maxWindows, cells: maxCells}, true)
	states(ringCall{script: sluice.BudgetV1(), subjects: 1, windows: maxWindows, cells: maxCells}, true)
	states(ringCall{script: sluice.BudgetSettleV1(), subjects: 1, windows: maxWindows, cells: maxCells}, false)
	give := func(script sluice.Script, granted int64) {
		c := ringCall{script: script, subjects: 1, permits: eachCell, granted: granted}
		c.what, c.windows, c.cells = "given back over 999 slices", 1, maxCells
		list = append(list, c)
		c.what, c.windows, c.cells = "given back over 124 slices each", maxWindows, maxCells/maxWindows
		list = append(list, c)
	}
	give(sluice.SliceRingReturnV1(), eachCell)
	give(sluice.BudgetSettleV1(), 1) // settled
	return list
}

// name is the script and its bounds.
func (c ringCall) name() string {
	name := fmt.Sprintf("%s, %d x %d cells", c.script.Name, c.windows, c.cells)
	if c.script.KeyGroup != nil {
		name = fmt.Sprintf("%s, %d x %d x %d cells", c.script.Name, c.subjects, c.windows, c.cells)
	}
	return name
}

func (c ringCall) key(i int) string { return fmt.Sprintf("{ring}:%d", i) }

// words are the call: the clock of this machine is the server's.
func (c ringCall) words(id string, moment int64) []any {
	var keys, args []any
	for i := range c.subjects * c.windows {
		keys = append(keys, c.key(i))
	}
	switch c.script.Name {
	case sluice.BudgetV1().Name:
		keys, args = append(keys, id), []any{day.Microseconds(), c.permits}
	case sluice.BudgetSettleV1().Name:
		keys, args = append(keys, id), []any{day.Microseconds(), c.permits, 1}
		if c.gives() {
			args[1] = 0
		}
	case sluice.SliceRingReturnV1().Name:
		args = []any{moment, c.permits}
	default:
		args = []any{c.permits, c.reported}
	}
	for range c.windows {
		args = append(args, ringSlice.Microseconds(), c.cells)
		if !c.gives() && c.script.Name != sluice.BudgetSettleV1().Name {
			args = append(args, c.limit)
		}
	}
	return slices.Concat([]any{"evalsha", c.script.SHA1, len(keys)}, keys, args)
}

// gives reports whether the call takes permits of the oldest slice out.
func (c ringCall) gives() bool { return c.limit == 0 }

// ring is the stored value of a window with the same number of permits in each slice, the last of them so long ago.
func (c ringCall) ring(now time.Time) string {
	slice := ringSlice.Microseconds()
	last := now.UnixMicro()/slice - c.ago
	cells := make([]uint64, c.cells)
	for i := range c.cells {
		cells[(last+1+i)%c.cells] = uint64(ample + i*eachCell)
	}
	return layout.SliceRing(uint64(last*slice), uint64(ample+c.cells*eachCell), ample, cells...)
}

// worstRings measures each call on rings that it finds as they are to be.
func (b *bench) worstRings(ctx context.Context) ([]*Row, error) {
	var rows []*Row
	for _, c := range ringCalls() {
		b.progress("%s, %s", c.name(), c.what)
		row := &Row{Name: c.name(), Size: c.cells, Case: c.what}
		rows = append(rows, row)
		err := row.single(b.repeats*ringRepeats, func() (float64, error) { return b.ringCall(ctx, c) })
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// ringRepeats is how many of these calls are made for one of another script: they are short.
const ringRepeats = 20

// ringCall is the server's time for one call, in microseconds.
func (b *bench) ringCall(ctx context.Context, c ringCall) (float64, error) {
	now, id := time.Now(), "{ring}:id"
	moment := now.Add(-time.Duration(c.cells-1) * ringSlice).UnixMicro()
	ring := c.ring(now)
	window := layout.Window{Slice: uint64(ringSlice.Microseconds()), Size: uint64(c.cells)}
	windows := slices.Repeat([]layout.Window{window}, c.windows)
	estimate := layout.Budget(uint64(moment), uint64(c.permits), false, windows...)
	reply, usec, err := b.server.single(ctx, c.script.Source, func(p redis.Pipeliner) {
		p.FlushAll(ctx)
		for i := range c.subjects * c.windows {
			if c.ago >= 0 {
				p.Set(ctx, c.key(i), ring, time.Hour)
			}
		}
		if c.gives() {
			p.Set(ctx, id, estimate, time.Hour)
		}
	}, c.words(id, moment)...)
	for i := range c.subjects {
		if err == nil && eachGranted(c.script, reply, c.subjects, i) != c.granted {
			err = fmt.Errorf("subject %d: %v, want %d", i, reply, c.granted)
		}
	}
	return usec, err
}
