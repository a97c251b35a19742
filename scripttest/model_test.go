package scripttest_test

import (
	"flag"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

var modelSteps = flag.Int("model", 5000,
	"how many random steps TestModel and TestServerModel each hold against the model")

// Random sequences of calls and of what happens to a limiter: after each step the reply and what is stored are what the
// model says, and so is when it expires. A failure is printed as a timeline, to be kept in a table.
func TestModel(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.script.Name, func(t *testing.T) {
			s.check(t, modelHarness{startHarness(t, false)}, *modelSteps/len(subjects), starts...)
		})
	}
}

// The same on a real server, through the loader, which also finds its scripts flushed.
func TestServerModel(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		for _, s := range subjects {
			t.Run(s.script.Name, func(t *testing.T) {
				s.check(t, startModelServer(t, server.Addr), *modelSteps/len(subjects), epoch)
			})
		}
	})
}

// check plays sequences until so many steps are made.
func (s subject) check(t *testing.T, on machine, steps int, starts ...int64) {
	sequences := s.sequences(starts...)
	kinds := map[string]int{}
	for total(kinds) < steps {
		rapid.Check(quiet{t}, func(rt *rapid.T) {
			if total(kinds) >= steps {
				return
			}
			if failed := s.play(on, sequences.Draw(rt, "sequence"), kinds); failed != "" {
				rt.Fatal(failed)
			}
		})
	}
	t.Logf("%d steps: %v", total(kinds), kinds)
}

func total(kinds map[string]int) (steps int) {
	for _, n := range kinds {
		steps += n
	}
	return steps
}

// quiet is a test in which rapid does not log that all is well.
type quiet struct{ *testing.T }

func (quiet) Logf(string, ...any) {}
