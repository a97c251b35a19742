package experiment

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func newExperiment(t *testing.T, duration time.Duration) (*Experiment, *miniredis.Miniredis) {
	t.Helper()
	mini := miniredis.RunT(t)
	e, err := New(context.Background(), Config{
		Connect:  func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: mini.Addr()}) },
		Subject:  "test",
		Workers:  10,
		Duration: duration,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e, mini
}

// TestRun looks at what was booked only: when it really happened is up to the machine.
func TestRun(t *testing.T) {
	e, mini := newExperiment(t, 2*time.Second)
	updates := 0
	results, err := e.Run(context.Background(), 100*time.Millisecond, func([]Result) { updates++ })
	if err != nil {
		t.Fatal(err)
	}
	if updates == 0 {
		t.Error("watch was never called")
	}
	if keys := mini.Keys(); len(keys) < len(results) {
		t.Errorf("%d ways on %d keys: %q", len(results), len(keys), keys)
	}
	for _, r := range results {
		if len(r.Booked) == 0 || len(r.Booked) != len(r.Real) {
			t.Errorf("%s: %d acts booked, %d happened", r.Name, len(r.Booked), len(r.Real))
		}
		if r.Kind != Faulty && r.MaxBooked() > Limit {
			t.Errorf("%s: %d acts booked for one second", r.Name, r.MaxBooked())
		}
		if r.Kind == Booking && r.Calls != r.Granted {
			t.Errorf("%s: %d calls for %d permits", r.Name, r.Calls, r.Granted)
		}
		if r.Calls < r.Granted || r.Granted < len(r.Booked) {
			t.Errorf("%s: %d calls, %d permits, %d acts", r.Name, r.Calls, r.Granted, len(r.Booked))
		}
	}
}

func TestRunInterrupted(t *testing.T) {
	e, _ := newExperiment(t, time.Minute)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := e.Run(ctx, 100*time.Millisecond, func([]Result) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

func TestRunFails(t *testing.T) {
	e, mini := newExperiment(t, time.Minute)
	_, err := e.Run(context.Background(), 100*time.Millisecond, func([]Result) { mini.SetError("ERR out of order") })
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("err = %v", err)
	}
}

func TestNewFails(t *testing.T) {
	closed := func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	}
	if _, err := New(context.Background(), Config{Connect: closed, Subject: "test"}); err == nil {
		t.Error("no error without a server")
	}
}
