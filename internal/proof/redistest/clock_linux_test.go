package redistest

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// TestClock makes steps on a running and on a stopped clock.
func TestClock(t *testing.T) {
	for _, binary := range Servers(t) {
		server, clock := StartWithClock(t, binary)
		c := server.Client(t)
		for _, step := range []time.Duration{
			0, time.Millisecond, -time.Millisecond, time.Second, -time.Hour, 3 * 8760 * time.Hour, -6 * 8760 * time.Hour,
		} {
			clock.Step(step)
			wantRunning(t, c, clock, step)
		}
		clock.Stop()
		stopped := clock.Now()
		for _, step := range []time.Duration{0, time.Microsecond, -time.Second, 8760 * time.Hour} {
			clock.Step(step)
			stopped = stopped.Add(step)
			time.Sleep(time.Millisecond)
			if got := serverTime(t, c); !got.Equal(stopped) {
				t.Errorf("stopped, after a step of %v: %v, want %v", step, got, stopped)
			}
		}
		clock.Set(time.UnixMicro(4102444800000042))
		if got := serverTime(t, c).UnixMicro(); got != 4102444800000042 {
			t.Errorf("set to 4102444800000042 us: %d", got)
		}
		clock.Resume()
		wantRunning(t, c, clock, 0)
		if ahead := clock.Now().Sub(time.UnixMicro(4102444800000042)); ahead < 0 || ahead > time.Minute {
			t.Errorf("resumed %v from where it stood", ahead)
		}
	}
}

// wantRunning asks the server between two reads of the clock.
func wantRunning(t *testing.T, c *redis.Client, clock *Clock, step time.Duration) {
	t.Helper()
	before := clock.Now()
	got := serverTime(t, c)
	if after := clock.Now(); got.Before(before) || got.After(after) {
		t.Errorf("after a step of %v: %v, want between %v and %v", step, got, before, after)
	}
}

func serverTime(t *testing.T, c *redis.Client) time.Time {
	t.Helper()
	now, err := c.Time(context.Background()).Result()
	must(t, err)
	return now
}

// TestClockExpires: keys expire by the stepped clock, also if no command uses them.
func TestClockExpires(t *testing.T) {
	server, clock := StartWithClock(t, Servers(t)[0], "--hz", "100")
	c, ctx := server.Client(t), context.Background()
	must(t, c.Set(ctx, "k", "v", time.Hour).Err())
	clock.Step(time.Hour + time.Second)
	Await(t, "an hour later the key is gone", func() bool { return c.DBSize(ctx).Val() == 0 })
}

// TestClockWithoutCompiler: without a compiler the test is skipped, and fails in CI.
func TestClockWithoutCompiler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for ci, want := range map[string]string{"": "skipped", "true": "failed"} {
		t.Setenv("CI", ci)
		got := &outcomeTB{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); compiler(got) }()
		<-done
		if got.outcome != want {
			t.Errorf("CI=%q: %s, want %s", ci, got.outcome, want)
		}
	}
}

// outcomeTB records how a test ends and does not end the real test.
type outcomeTB struct {
	testing.TB
	outcome string
}

func (o *outcomeTB) Skip(...any)  { o.end("skipped") }
func (o *outcomeTB) Fatal(...any) { o.end("failed") }

func (o *outcomeTB) end(how string) {
	o.outcome = how
	runtime.Goexit()
}
