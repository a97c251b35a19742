package policy_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
	"github.com/sluice-redis/sluice/loader"
	"github.com/sluice-redis/sluice/policy"
)

var t0 = time.Unix(1_800_000_000, 0)

// fakeRedis is a Redis in this process whose clock stands still at t0.
func fakeRedis(t testing.TB) (*miniredis.Miniredis, *loader.Loader) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(t0)
	return server, loader.New(redistest.DialOnce(t, server.Addr()), loader.Timeout(10*time.Second)) // this machine may be busy
}

// writeFile writes a policy file of its own.
func writeFile(t testing.TB, src string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "limits.yaml")
	must(t, os.WriteFile(path, []byte(src), 0o600))
	return path
}

// load loads a policy file that is not looked at again.
func load(t testing.TB, limits *loader.Loader, src string, opts ...policy.Option) *policy.Policies {
	t.Helper()
	opts = append([]policy.Option{policy.ReloadEvery(0), policy.Logger(slog.New(slog.NewTextHandler(io.Discard, nil)))},
		opts...)
	policies, err := policy.Load(limits, writeFile(t, src), opts...)
	must(t, err)
	t.Cleanup(func() { _ = policies.Close() })
	return policies
}

// parse reads the text of a policy file.
func parse(t testing.TB, src string) *policy.File {
	t.Helper()
	f, err := policy.Parse("limits.yaml", []byte(src))
	must(t, err)
	return f
}

// decide is Decide without an error.
func decide(t testing.TB, policies *policy.Policies, a policy.Attributes) policy.Decision {
	t.Helper()
	d, err := policies.Decide(context.Background(), a)
	must(t, err)
	return d
}

// from is a request from an address.
func from(ip string) policy.Attributes {
	return policy.Attributes{Request: &policy.Request{Method: "GET", Path: "/", IP: ip}}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
