//go:build unix

// Command outagedemo draws what an outage of Redis costs a site, with a breaker and without: make demo-outage.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/sluice-redis/sluice/internal/localredis"
	"github.com/sluice-redis/sluice/loader"
)

const (
	workers, width = 20, 30               // of a bar
	work           = 2 * time.Millisecond // of a request, beside its limit
	row            = 500 * time.Millisecond
)

func main() {
	logging.Disable()
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	programs, err := localredis.Programs()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "outagedemo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := localredis.Start(programs[0], dir, nil)
	if err != nil {
		return err
	}
	defer server.Kill()
	without, with := serveRequests(server.Addr, loader.WithoutBreaker()), serveRequests(server.Addr)
	fmt.Printf("Requests a second of two sites with %d workers, whose limits fail open.\n\n%8s  %-*s  %s\n", workers, "",
		width+7, "without a breaker", "with one, as New makes it")
	most := int64(1)
	for i := range 20 {
		event := ""
		switch i {
		case 5:
			event = "  <- Redis is frozen"
			_ = syscall.Kill(server.PID, syscall.SIGSTOP)
		case 14:
			event = "  <- Redis is back"
			_ = syscall.Kill(server.PID, syscall.SIGCONT)
		}
		time.Sleep(row)
		bars := [2]int64{without.Swap(0), with.Swap(0)}
		most = max(most, bars[0], bars[1])
		fmt.Printf("%6.1f s", (time.Duration(i) * row).Seconds())
		for _, n := range bars {
			fmt.Printf("  %-*s%7.0f", width, strings.Repeat("#", int(n*width/most)), float64(n)/row.Seconds())
		}
		fmt.Println(event)
	}
	return nil
}

// serveRequests has workers serve requests for ever, and returns the counter of them.
func serveRequests(addr string, opts ...loader.Option) *atomic.Int64 {
	limits := loader.New(redis.NewClient(&redis.Options{Addr: addr}), opts...)
	limiter, served := limits.GCRA("demo", loader.PerSecond(1_000_000), loader.FailOpen()), new(atomic.Int64)
	for range workers {
		go func() {
			for {
				_, _ = limiter.Allow(context.Background(), "ada")
				time.Sleep(work)
				served.Add(1)
			}
		}()
	}
	return served
}
