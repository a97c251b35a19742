package scripttest

import (
	"fmt"
	"runtime"
	"testing"
)

// Failure runs a check on the side and returns its first failure, "" when it passes. It is how a mutant
// is put to the test: a check that fails has noticed it, which is no failure of the test that asks. The
// check ends at its first failure, a panic included, and its cleanups run before Failure returns.
//
// The check is to use what it is given, and no *testing.T of its own. Skipping it counts as passing.
func Failure(tb testing.TB, check func(tb testing.TB)) string {
	t := &trial{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanUp()
		defer func() {
			if p := recover(); p != nil {
				t.failure = fmt.Sprintf("panic: %v", p)
			}
		}()
		check(t)
	}()
	<-done
	return t.failure
}

// trial is the testing.TB of a check whose failure is only noted.
type trial struct {
	testing.TB
	failure  string
	skipped  bool
	cleanups []func()
}

func (t *trial) fail(text string) {
	t.failure = text
	if text == "" {
		t.failure = "failed without saying why"
	}
	runtime.Goexit()
}

func (t *trial) Error(args ...any)                 { t.fail(fmt.Sprint(args...)) }
func (t *trial) Errorf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }
func (t *trial) Fatal(args ...any)                 { t.fail(fmt.Sprint(args...)) }
func (t *trial) Fatalf(format string, args ...any) { t.fail(fmt.Sprintf(format, args...)) }
func (t *trial) Fail()                             { t.fail("") }
func (t *trial) FailNow()                          { t.fail("") }
func (t *trial) Failed() bool                      { return t.failure != "" }
func (t *trial) Log(...any)                        {}
func (t *trial) Logf(string, ...any)               {}
func (t *trial) Skip(...any)                       { t.SkipNow() }
func (t *trial) Skipf(string, ...any)              { t.SkipNow() }
func (t *trial) SkipNow()                          { t.skipped = true; runtime.Goexit() }
func (t *trial) Skipped() bool                     { return t.skipped }
func (t *trial) Cleanup(f func())                  { t.cleanups = append(t.cleanups, f) }

func (t *trial) cleanUp() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
