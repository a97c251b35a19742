package loader_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-redis/sluice/loader"
)

// A context that is nil is an error which says so, of every method, and no fallback answers.
func TestNilContext(t *testing.T) {
	_, rdb := fake(t)
	limits := loader.New(rdb)
	var none context.Context
	list := limits.ListLog("x", loader.PerMinute(5), loader.FailOpen())
	ring := limits.SliceRing("r", []loader.Limit{loader.PerMinute(5)})
	budget := limits.Budget("b", []loader.Limit{loader.PerMinute(5)})
	slots := limits.Concurrency("c", 1, time.Minute)
	granted, err := list.Allow(background, "s")
	must(t, err)
	batch, all := limits.Batch(), limits.All()
	batch.Allow(list, "s")
	all.Allow(list, "s")
	for name, call := range map[string]func() error{
		"Allow":    func() error { return errOf(list.Allow(none, "s")) },
		"Peek":     func() error { return errOf(list.Peek(none, "s")) },
		"Wait":     func() error { return list.Wait(none, "s") },
		"Reset":    func() error { return list.Reset(none, "s") },
		"Reserve":  func() error { return errOf(list.Reserve(none, "s")) },
		"GiveBack": func() error { return errOf(list.GiveBack(none, "s", granted, 1)) },
		"Report":   func() error { return errOf(ring.Report(none, "s", 1)) },
		"estimate": func() error { return errOf(budget.Reserve(none, "s", "id", 1)) },
		"Settle":   func() error { return budget.Settle(none, "s", "id", 1) },
		"SetRate": func() error {
			return limits.TokenBucket("t", loader.PerMinute(5)).SetRate(none, "s", loader.PerMinute(1))
		},
		"Acquire":    func() error { return errOf(slots.Acquire(none, "s")) },
		"TryAcquire": func() error { _, _, err := slots.TryAcquire(none, "s"); return err },
		"Batch":      func() error { return errOf(batch.Do(none)) },
		"All":        func() error { return errOf(all.Do(none)) },
		"Preload":    func() error { return limits.Preload(none) },
	} {
		err := call()
		if err == nil || !strings.Contains(err.Error(), "the context is nil: want one such as context.Background()") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
