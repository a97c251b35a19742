//go:build unix

package soak

import (
	"context"
	"net"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// soon reports whether something becomes so within ten seconds.
func soon(isSo func() bool) bool {
	for deadline := time.Now().Add(tooLong); !isSo(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// goroutines returns the stacks of all goroutines that run code of the loader or of go-redis.
func goroutines() (stacks []string) {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2)
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.Contains(stack, "/sluice/loader.") || strings.Contains(stack, "/go-redis/") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// moreThan returns the stacks of the loader's and go-redis's goroutines if more than n are left after ten seconds.
func moreThan(n int) (stacks string) {
	if soon(func() bool { return len(goroutines()) <= n }) {
		return ""
	}
	return strings.Join(goroutines(), "\n\n")
}

// A goroutine that waits in go-redis is seen, and no more once it has ended.
func TestGoroutines(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ReadTimeout: time.Minute, MaxRetries: -1})
	go func() { rdb.Ping(context.Background()) }()
	accepted, err := silent.Accept()
	must(t, err)
	if len(goroutines()) == 0 {
		t.Error("none is seen")
	}
	_ = accepted.Close()
	_ = rdb.Close()
	if stacks := moreThan(0); stacks != "" {
		t.Errorf("left over:\n%s", stacks)
	}
}
