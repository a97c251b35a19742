package loader

import (
	"context"
	"encoding"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice/internal/redistest"
)

func TestCommandGivenUpDoesNothing(t *testing.T) {
	words := func() []any { return []any{"evalsha", "sum", 1, "key"} }
	written := func(c *command) string {
		keys, err := c.Args()[keyCountAt].(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Error(err)
		}
		return string(keys)
	}
	c := newCommand(context.Background(), words(), 1)
	for range 2 {
		if !c.giveUp() {
			t.Fatal("it cannot be given up")
		}
	}
	if keys := written(c); keys != "0" {
		t.Errorf("it is written with %s keys", keys)
	}
	c = newCommand(context.Background(), words(), 1)
	_ = c.String() // as a hook does that logs, and a ClusterClient that looks for the slot
	_ = c.Args()
	if !c.giveUp() {
		t.Error("it counts as written when it is looked at")
	}
	c = newCommand(context.Background(), words(), 1)
	for range 2 {
		if keys := written(c); keys != "1" {
			t.Errorf("it is written with %s keys", keys)
		}
	}
	if c.giveUp() {
		t.Error("it was given up after it had left")
	}
	if keys := written(c); keys != "1" {
		t.Errorf("it is written with %s keys", keys)
	}
	var _ redis.Cmder = c
	if !c.Clone().NoRetry() || c.Name() != "evalsha" || c.String() != "evalsha sum 1 key: []" {
		t.Errorf("%s: its clone is sent again", c)
	}
}

func TestSleep(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if err := sleep(ctx, time.Millisecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := sleep(ctx, time.Hour); err != context.Canceled {
		t.Error(err)
	}
	if err := sleep(ctx, -1); err != nil {
		t.Error(err)
	}
}

// TestPipedErrors tests what go-redis leaves on a command of a pipeline: the first error of several attempts,
// where the last may have run.
func TestPipedErrors(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: io.EOF}
	tests := []struct {
		name        string
		err         error
		piped, left bool
		unknown     bool
	}{
		{"no connection, alone", dial, false, true, false},
		{"no connection, then sent", dial, true, true, true},
		{"no connection", dial, true, false, false},
		{"redirected too often, alone", reply("MOVED 1 host:1"), false, true, false},
		{"redirected, then sent", reply("MOVED 1 host:1"), true, true, true},
		{"redirected, then sent", reply("ASK 1 host:1"), true, true, true},
		{"refused", reply("OOM no memory"), true, true, false},
	}
	for _, test := range tests {
		limits := New(nil)
		c := newCall(limits, &listLogV1, []any{"evalsha", "sum", 1, "key", 1, 1, 1, 0}, 5)
		cmd := c.command(context.Background())
		cmd.piped = test.piped
		if test.left {
			cmd.startWrite()
		}
		c.note(context.Background(), cmd, test.err)
		if errors.Is(c.err, ErrOutcomeUnknown) != test.unknown {
			t.Errorf("%s: %v", test.name, c.err)
		}
	}
}

// TestOutcomeOfAnswered has a connection end behind the reply of a command: go-redis says so on all of them.
func TestOutcomeOfAnswered(t *testing.T) {
	c := newCommand(context.Background(), []any{"evalsha", "sum", 1, "key"}, 1)
	if err := c.outcome(false, io.EOF); err != io.EOF {
		t.Errorf("on its way: %v", err)
	}
	c.startWrite()
	c.SetErr(nil)
	c.SetErr(io.EOF)
	for _, done := range []bool{false, true} {
		if err := c.outcome(done, io.EOF); err != nil {
			t.Errorf("done %v: %v", done, err)
		}
	}
	c = newCommand(context.Background(), []any{"evalsha", "sum", 1, "key"}, 1)
	c.SetErr(reply("BADARG limit: want 1"))
	if err := c.outcome(true, io.EOF); err == io.EOF {
		t.Error("its own error is lost")
	}
}

// TestSharingForgetsNodes: in a cluster they come and go.
func TestSharingForgetsNodes(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", DialerRetries: 1, MaxRetries: -1})
	defer func() { _ = rdb.Close() }()
	limits := New(rdb, ShareRoundTrips())
	if _, err := limits.GCRA("x", PerMinute(1)).Allow(context.Background(), "s"); err == nil {
		t.Fatal("there is a server")
	}
	queues := func() int {
		limits.sharing.mu.Lock()
		defer limits.sharing.mu.Unlock()
		return len(limits.sharing.queues)
	}
	redistest.Await(t, "no queue is left", func() bool { return queues() == 0 })
}
