package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluice-redis/sluice"
)

// A Slot is what the server spends on one call about slots, by INFO commandstats.
type Slot struct {
	Call  string  `json:"call"`
	Held  int64   `json:"held"`            // slots that are held when the call comes
	Ended int64   `json:"ended,omitempty"` // leases that have ended and are still there
	Usec  Spread  `json:"usec"`
	Ratio Spread  `json:"ratio"` // to the floor, in the same round
	Max   float64 `json:"max_us,omitempty"`
}

// slotSizes are how many slots are held, and slotCalls what is asked then.
var (
	slotSizes = []int64{1, 100, 1e4}
	slotCalls = []string{"granted", "denied", "renewed", "released", "looked"}
)

// slotKey holds the slots of a row.
const slotKey = "sluice:bench:{slots}:cc1"

// slots measures every call, and single calls on the largest state: with all leases live, half of them ended, and all.
func (b *bench) slots(ctx context.Context) ([]Slot, error) {
	var rows []Slot
	for _, held := range slotSizes {
		for _, call := range slotCalls {
			b.progress("slots: %s, %d held", call, held)
			rows = append(rows, Slot{Call: call, Held: held})
			calls := b.calls
			if call == "granted" || call == "released" { // they change how many are held
				calls = min(calls, int(max(held/20, 1)))
			}
			if err := b.slotRow(ctx, &rows[len(rows)-1], calls, b.rounds); err != nil {
				return nil, err
			}
		}
	}
	for _, ended := range []int64{0, 5000, 1e4} {
		for _, call := range slotCalls {
			if ended == 1e4 && (call == "renewed" || call == "released" || call == "denied") {
				continue // no lease is left
			}
			rows = append(rows, Slot{Call: call, Held: 1e4 - ended, Ended: ended})
			if err := b.slotRow(ctx, &rows[len(rows)-1], 1, b.repeats); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// slotRow measures so many rounds of so many calls, each round from the same state.
func (b *bench) slotRow(ctx context.Context, row *Slot, calls, rounds int) error {
	var usec, ratio []float64
	for range rounds {
		if err := b.fillSlots(ctx, row, calls); err != nil {
			return err
		}
		base := floor()
		below, err := b.timed(ctx, base.source, slices.Repeat([][]any{base.command("floor", ask{})}, calls), 1)
		if err != nil {
			return err
		}
		commands, want := row.commands(calls)
		source := sluice.ConcurrencyV1().Source
		if row.Call == "released" {
			source = sluice.ConcurrencyReleaseV1().Source
		}
		us, err := b.timed(ctx, source, commands, want)
		if err != nil {
			return fmt.Errorf("slots: %s, %d held: %w", row.Call, row.Held, err)
		}
		usec, ratio = append(usec, us), append(ratio, us/below)
	}
	row.Usec, row.Ratio = spreadOf(usec), spreadOf(ratio)
	if calls == 1 {
		row.Max = slices.Max(usec)
	}
	return nil
}

// fillSlots writes the leases, which end within a minute of each other, an hour from now or an hour ago. A grant finds
// room for all calls.
func (b *bench) fillSlots(ctx context.Context, row *Slot, calls int) error {
	held := row.Held
	if row.Call == "granted" {
		held = max(min(held, 1e4-int64(calls)), 0)
	}
	now := time.Now().UnixMicro()
	pipe := b.server.Pipeline()
	pipe.Unlink(ctx, slotKey)
	add := func(n, ends int64, name string) {
		for i := range n {
			pipe.ZAdd(ctx, slotKey, redis.Z{Score: float64(ends + i*60_000_000/n), Member: fmt.Sprintf("%s%016d", name, i)})
		}
	}
	add(held, now+3600_000_000, "h")
	add(row.Ended, now-3600_000_000, "e")
	pipe.PExpire(ctx, slotKey, 2*time.Hour)
	_, err := pipe.Exec(ctx)
	return err
}

// commands are the calls of a row, and the first field of each reply.
func (row *Slot) commands(calls int) (commands [][]any, want int64) {
	limit, renew, id := row.Held, 0, func(int) string { return "" }
	switch row.Call {
	case "granted":
		limit, want, id = 1e4, 1, func(i int) string { return fmt.Sprintf("new%016d", i) }
	case "denied":
		id = func(i int) string { return fmt.Sprintf("new%016d", i) }
	case "renewed", "released":
		renew, want, id = 1, 1, func(i int) string { return fmt.Sprintf("h%016d", int64(i)%row.Held) }
	}
	for i := range calls {
		if row.Call == "released" {
			commands = append(commands, []any{"evalsha", sluice.ConcurrencyReleaseV1SHA1, 1, slotKey, id(i)})
			continue
		}
		commands = append(commands, []any{"evalsha", sluice.ConcurrencyV1SHA1, 1, slotKey, max(limit, 1), 7_200_000_000,
			renew, id(i)})
	}
	return commands, want
}

// timed is the server's time for each of some calls of a script, which must all reply with want first.
func (b *bench) timed(ctx context.Context, source string, commands [][]any, want int64) (float64, error) {
	if err := b.server.ScriptLoad(ctx, source).Err(); err != nil {
		return 0, err
	}
	if err := b.server.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	replies, err := b.server.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, command := range commands {
			p.Do(ctx, command...)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, reply := range replies {
		got := reply.(*redis.Cmd).Val()
		if first(got) != want && got != want {
			return 0, fmt.Errorf("%v, want %d first", got, want)
		}
	}
	stats, err := b.server.commandStats(ctx)
	return stats["evalsha"].usec / float64(len(commands)), err
}
