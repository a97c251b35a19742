package wire

import (
	"context"
	"testing"
)

// At most 16 calls outlast their callers' deadlines, while the network is slow: one that ends makes room.
func TestOutlastIsBounded(t *testing.T) {
	c := &Client{keepsDeadlines: true}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	outlasts := func() (is bool, end func()) {
		lasting, end := c.Outlast(ctx)
		return lasting.Err() == nil, end
	}
	if is, _ := outlasts(); is {
		t.Error("a call outlasts its caller though each was sent in time")
	}
	c.patience.extend()
	var end func()
	for i := range maxPatient {
		var is bool
		if is, end = outlasts(); !is {
			t.Fatalf("call %d does not outlast its caller", i+1)
		}
	}
	for range 2 {
		if is, _ := outlasts(); is {
			t.Errorf("more than %d calls outlast their callers", maxPatient)
		}
	}
	end()
	if is, _ := outlasts(); !is {
		t.Error("a call that has ended makes no room")
	}
}
