package loader_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/loader"
)

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// TestColdClientsAreBounded has clients that have never connected, of each kind (that of a Sentinel is a Client), and a
// Dialer that ignores its context and does not return: calls end after 1 s, or 100 ms where a fallback stands ready,
// and nothing was sent.
func TestColdClientsAreBounded(t *testing.T) {
	for name, client := range map[string]func(dialer) redis.UniversalClient{
		"Client": func(dial dialer) redis.UniversalClient {
			return redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: dial})
		},
		"ClusterClient": func(dial dialer) redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1", "127.0.0.1:2"}, Dialer: dial})
		},
		"Ring": func(dial dialer) redis.UniversalClient {
			addrs := map[string]string{"a": "127.0.0.1:1", "b": "127.0.0.1:2"}
			return redis.NewRing(&redis.RingOptions{Addrs: addrs, Dialer: dial})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{})
				rdb := client(func(context.Context, string, string) (net.Conn, error) {
					<-ended
					return nil, errors.New("the test is over")
				})
				for _, opts := range [][]loader.Option{{loader.WithoutSharing()}, nil} {
					limits := loader.New(rdb, opts...)
					bucket := limits.TokenBucket("x", loader.PerHour(5))
					open := limits.ListLog("x", loader.PerHour(5), loader.FailOpen())
					for call, ask := range map[string]func() error{
						"Preload": func() error { return limits.Preload(background) },
						"SetRate": func() error { return bucket.SetRate(background, "s", loader.PerHour(6)) },
						"Allow":   func() error { return errOf(bucket.Allow(background, "s")) },
						"Wait":    func() error { return bucket.Wait(background, "s") },
						"Batch": func() error {
							batch := limits.Batch()
							batch.Allow(bucket, "s")
							batch.Peek(bucket, "t")
							return errOf(batch.Do(background))
						},
					} {
						started := time.Now()
						err := ask()
						if took := time.Since(started); took > time.Second || err == nil || errors.Is(err, loader.ErrOutcomeUnknown) {
							t.Errorf("%s: after %v: %v", call, took, err)
						}
					}
					started := time.Now()
					d, err := open.Allow(background, "s")
					if took := time.Since(started); took > 100*time.Millisecond || err != nil || !d.Degraded {
						t.Errorf("FailOpen: after %v: %+v, %v", took, d, err)
					}
				}
				close(ended)
				_ = rdb.Close()
				time.Sleep(time.Minute) // go-redis goes on dialling for a while
			})
		})
	}
}
