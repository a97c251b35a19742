package loader

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

type reply string

func (r reply) Error() string { return string(r) }
func (r reply) RedisError()   {}

func TestCodeOf(t *testing.T) {
	tests := []struct {
		err  error
		want string
	}{
		{io.EOF, ""},
		{errors.New("READONLY in disguise"), ""},
		{reply("NOSCRIPT No matching script. Please use EVAL."), "NOSCRIPT"},
		{reply("READONLY You can't write against a read only replica. script: 2342, on @user_script:104."), "READONLY"},
		{reply("ERR Error running script (call to f_2342): @user_script:104: @user_script: 104: -READONLY You can't write against a read only replica."), "READONLY"},
		{reply("ERR Error running script (call to f_2342): @user_script:104: NOREPLICAS Not enough good replicas to write."), "NOREPLICAS"},
		{reply("ERR max number of clients reached"), "MAXCLIENTS"},
		{reply("ERR unknown command 'evalsha'"), "ERR"},
		{reply("LOADING"), "LOADING"},
	}
	for _, test := range tests {
		if got := codeOf(test.err); got != test.want {
			t.Errorf("codeOf(%v) = %q, want %q", test.err, got, test.want)
		}
	}
}

func TestCommandGivenUpBecomesPing(t *testing.T) {
	c := newCommand(context.Background(), []any{"evalsha", "sum", 1, "key"})
	for range 2 {
		if !c.giveUp() {
			t.Fatal("it cannot be given up")
		}
	}
	if args := c.Args(); len(args) != 1 || args[0] != "ping" {
		t.Errorf("it sends %q", args)
	}
	c = newCommand(context.Background(), []any{"evalsha", "sum", 1, "key"})
	if args := c.Args(); len(args) != 4 {
		t.Errorf("it sends %q", args)
	}
	if c.giveUp() {
		t.Error("it was given up after it had left")
	}
	if args := c.Args(); len(args) != 4 {
		t.Errorf("it sends %q", args)
	}
	var _ redis.Cmder = c
	if !c.Clone().NoRetry() || c.Name() != "evalsha" {
		t.Error("its clone is sent again")
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
