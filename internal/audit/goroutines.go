package audit

import (
	"bytes"
	"runtime"
	"time"
)

// patience is how long goroutines may take to end.
const patience = 10 * time.Second

// Goroutines returns the stacks of those goroutines that run code of the loader or of go-redis.
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

// LeftOver returns the stacks of the loader's and go-redis's goroutines if one is still there after ten seconds.
func LeftOver() []byte { return MoreThan(0) }

// MoreThan returns the stacks of the loader's and go-redis's goroutines if after ten seconds there are still more than
// n.
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

// allStacks is what runtime.Stack writes about all goroutines, whole.
func allStacks() []byte {
	for size := 1 << 20; ; size *= 2 {
		stacks := make([]byte, size)
		if n := runtime.Stack(stacks, true); n < size {
			return stacks[:n]
		}
	}
}
