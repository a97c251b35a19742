package grpclimit_test

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/sluice-redis/sluice/grpclimit"
	"github.com/sluice-redis/sluice/loader"
)

// A logged Result has what operators look for, and no subject.
func TestResultLogValue(t *testing.T) {
	var text bytes.Buffer
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	granted := loader.Decision{Granted: true}
	for _, r := range []grpclimit.Result{
		{},
		{Outcome: grpclimit.Denied, Decisions: []grpclimit.Decision{{Policy: "a", Subject: "ada"}, {Policy: "b"}}},
		{Decisions: []grpclimit.Decision{
			{Policy: "a", Decision: granted}, {Policy: "b", Shadow: true},
			{Policy: "c", Shadow: true, Err: errors.New("x")},
		}},
		{Degraded: true, Cause: errors.New("down")},
		{Outcome: grpclimit.Undecided, Err: errors.New("down")},
	} {
		log.Info("call", "limit", r)
	}
	const want = `level=INFO msg=call limit.outcome=allowed
level=INFO msg=call limit.outcome=denied limit.denied=a,b
level=INFO msg=call limit.outcome=allowed limit.shadow_denied=b
level=INFO msg=call limit.outcome=allowed limit.degraded=down
level=INFO msg=call limit.outcome=undecided limit.error=down
`
	if text.String() != want {
		t.Errorf("logged\n%swant\n%s", &text, want)
	}
}
