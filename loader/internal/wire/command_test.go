package wire

import (
	"context"
	"encoding"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluice-redis/sluice"
)

var listLog = sluice.ListLogV1()

// newCommand is the first attempt of a call.
func newCommand(t *testing.T) *Command {
	t.Helper()
	call := New(Options{Timeouts: []time.Duration{time.Second}}).NewCall(&listLog, "key", 5)
	cmd := call.Attempt()
	cmd.Compose(context.Background())
	return cmd
}

func TestCommandGivenUpDoesNothing(t *testing.T) {
	written := func(c *Command) string {
		keys, err := c.Args()[2].(encoding.BinaryMarshaler).MarshalBinary()
		if err != nil {
			t.Error(err)
		}
		return string(keys)
	}
	c := newCommand(t)
	for range 2 {
		if !c.GiveUp() {
			t.Fatal("it cannot be given up")
		}
	}
	if keys := written(c); keys != "0" {
		t.Errorf("it is written with %s keys", keys)
	}
	c = newCommand(t)
	_ = c.String() // as a hook does that logs, and a ClusterClient that looks for the slot
	_ = c.Args()
	if !c.GiveUp() {
		t.Error("it counts as written when it is looked at")
	}
	c = newCommand(t)
	for range 2 {
		if keys := written(c); keys != "1" {
			t.Errorf("it is written with %s keys", keys)
		}
	}
	if c.GiveUp() {
		t.Error("it was given up after it had left")
	}
	if keys := written(c); keys != "1" {
		t.Errorf("it is written with %s keys", keys)
	}
	var _ redis.Cmder = c
	if !c.Clone().NoRetry() || c.Name() != "evalsha" || c.String() != "evalsha "+listLog.SHA1+" 1 key: []" {
		t.Errorf("%s: its clone is sent again", c)
	}
}

func TestSleep(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	if err := Sleep(ctx, time.Millisecond); err != nil {
		t.Error(err)
	}
	cancel()
	if err := Sleep(ctx, time.Hour); err != context.Canceled {
		t.Error(err)
	}
	if err := Sleep(ctx, -1); err != nil {
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
		cmd := newCommand(t)
		cmd.piped = test.piped
		if test.left {
			cmd.StartWrite()
		}
		step := cmd.Call.Judge(context.Background(), cmd, test.err)
		e, _ := errors.AsType[*Error](step.Err)
		if unknown := e != nil && e.Kind == Unknown; unknown != test.unknown {
			t.Errorf("%s: %v", test.name, step.Err)
		}
	}
}

// TestOutcomeOfAnswered has a connection end behind the reply of a command: go-redis says so on all of them.
func TestOutcomeOfAnswered(t *testing.T) {
	c := newCommand(t)
	if err := c.Outcome(false, io.EOF); err != io.EOF {
		t.Errorf("on its way: %v", err)
	}
	c.StartWrite()
	c.SetErr(nil)
	c.SetErr(io.EOF)
	for _, done := range []bool{false, true} {
		if err := c.Outcome(done, io.EOF); err != nil {
			t.Errorf("done %v: %v", done, err)
		}
	}
	c = newCommand(t)
	c.SetErr(reply("BADARG limit: want 1"))
	if err := c.Outcome(true, io.EOF); err == io.EOF {
		t.Error("its own error is lost")
	}
}
