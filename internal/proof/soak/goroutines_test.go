package soak

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// A goroutine that waits in go-redis is seen, and no more once it has ended.
func TestGoroutines(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	rdb := redis.NewClient(&redis.Options{Addr: silent.Addr().String(), ReadTimeout: time.Minute, MaxRetries: -1})
	go func() { rdb.Ping(context.Background()) }()
	accepted, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if stacks := Goroutines(); len(stacks) == 0 {
		t.Error("none is seen")
	}
	_ = accepted.Close()
	_ = rdb.Close()
	if stacks := LeftOver(); stacks != nil {
		t.Errorf("left over:\n%s", stacks)
	}
}
