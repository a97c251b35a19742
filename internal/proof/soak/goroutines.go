package soak

import (
	"bytes"
	"runtime"
	"time"
)

// patience is how long goroutines may take to end.
const patience = 10 * time.Second

// Goroutines returns the stacks of all goroutines that run code of the loader or of go-redis.
func Goroutines() [][]byte {
	stacks := allStacks()
	var own [][]byte
	for stack := range bytes.SplitSeq(stacks, []byte("\n\n")) {
		if bytes.Contains(stack, []byte("/sluice/loader.")) || bytes.Contains(stack, []byte("/go-redis/")) {
			own = append(own, stack)
		}
	}
	return own
}

// LeftOver returns the stacks of the loader's and go-redis's goroutines if any is left after ten seconds.
func LeftOver() []byte { return MoreThan(0) }

// MoreThan returns the stacks of the loader's and go-redis's goroutines if more than n are left after ten seconds.
func MoreThan(n int) []byte {
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		stacks := Goroutines()
		if len(stacks) <= n {
			return nil
		}
		if time.Now().After(deadline) {
			return bytes.Join(stacks, []byte("\n\n"))
		}
	}
}

// allStacks returns the full output of runtime.Stack for all goroutines.
func allStacks() []byte {
	for size := 1 << 20; ; size *= 2 {
		stacks := make([]byte, size)
		if n := runtime.Stack(stacks, true); n < size {
			return stacks[:n]
		}
	}
}
