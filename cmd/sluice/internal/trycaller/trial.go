// Package trycaller runs a program that calls the scripts, makes its transport fail, and counts on the server what ran.
//
// A trial has a stand (a server or cluster behind proxies), on which the programs of COMMAND are started anew for each
// fault: faults.go has the faults, reads.go and rights.go what is tried without one.
package trycaller

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sluice-redis/sluice"
)

// Options are the flags of sluice try-caller.
type Options struct {
	Command   []string
	Redis     string // a URL; or else
	Binary    string // the program of a server
	Cluster   bool
	Processes bool
	Within    time.Duration
	Vectors   string
	Only      string    // part of the names of faults: nothing else is tried
	Stderr    io.Writer // of COMMAND
}

// Row is one result.
type Row struct {
	Property string // one of Properties
	Tried    string
	Seen     string
	Cure     string // "" if all is right
}

// The properties of a caller.
const (
	ChargedOnce = "charged once"
	EndsInTime  = "ends in time"
	TellsApart  = "tells apart"
	ComesBack   = "comes back"
	AsksLittle  = "asks for little"
	ReadsRight  = "reads right"
)

const (
	atOnce   = 40
	backIn   = 10 * time.Second // for a caller to come back
	startsIn = 2 * time.Minute  // for COMMAND to make its first call
)

type trial struct {
	Options
	*stand
	ctx      context.Context
	report   func(Row)
	startup  time.Duration // from a start of COMMAND to its first reply
	last     int           // id of a request
	programs []*program
}

// Run tries a caller and reports rows as they are found. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(Row)) error {
	s, err := newStand(o)
	defer s.close()
	if err != nil {
		return err
	}
	t := &trial{Options: o, stand: s, ctx: ctx, report: report}
	defer t.stop()
	if o.Only != "" && !slices.ContainsFunc(t.faults(), t.isTried) {
		return fmt.Errorf("--only %q is in no name of a fault: want a part of %s", o.Only, strings.Join(t.names(), ", "))
	}
	tries := []func() error{t.allFaults}
	if o.Only == "" {
		tries = []func() error{t.reads, t.playVectors, t.asks, t.errorReplies, t.allFaults}
	}
	for _, try := range tries {
		if err := try(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return s.failed
}

// start starts COMMAND, 40 times if it takes one call at a time. warm wants a grant of each.
func (t *trial) start(warm bool, scripts ...string) error {
	t.stop()
	count, began := 1, time.Now()
	if t.Processes {
		count = atOnce
	}
	environment := t.environment
	for _, folder := range scripts {
		environment = append(environment[:len(environment):len(environment)], "SLUICE_SCRIPTS="+folder)
		count = 1
	}
	for range count {
		p, err := start(t.ctx, t.Command, environment, t.Stderr)
		if err != nil {
			return err
		}
		t.programs = append(t.programs, p)
	}
	if !warm {
		return nil
	}
	for {
		answers, _ := t.calls(count, "warm")
		left := count
		for _, a := range answers {
			if a.granted() {
				left--
			}
		}
		switch {
		case left == 0:
			t.startup = max(t.startup, time.Since(began))
			return nil
		case t.ctx.Err() != nil:
			return t.ctx.Err()
		case time.Since(began) > startsIn || answers[0].failed != "" && t.programs[0].hasEnded():
			return fmt.Errorf("COMMAND does not call list_log on a server that is well: %v", answers[0])
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (p *program) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// stop ends all that runs of COMMAND.
func (t *trial) stop() {
	var work sync.WaitGroup
	for _, p := range t.programs {
		work.Go(p.close)
	}
	work.Wait()
	t.programs = nil
}

// request is a call of a script.
func (t *trial) request(script sluice.Script, keys []string, args ...string) request {
	t.last++
	file := filepath.Join(t.dir, "scripts", script.File)
	return request{t.last, strings.TrimSuffix(script.File, ".lua"), script.SHA1, file, hexes(keys), hexes(args)}
}

// patience is how long the trial waits for an answer.
func (t *trial) patience() time.Duration {
	if t.startup == 0 {
		return startsIn
	}
	return max(10*time.Second, 3*t.Within) + 2*t.startup // of one that is started anew
}

// ask makes a call with the first program.
func (t *trial) ask(r request) answer { return t.programs[0].ask(r, t.patience()) }

// calls makes calls at once, each of which is to charge a permit to a key of its own. The keys are of one subject, and
// so of one slot, if there is one.
func (t *trial) calls(count int, limiter string, subject ...string) (answers []answer, keys []string) {
	answers = make([]answer, count)
	var work sync.WaitGroup
	for i := range answers {
		of := append(subject, fmt.Sprint("s", t.last+1))[0]
		key := fmt.Sprintf("sluice:try-caller/%s-%d:{%s}:ll1", limiter, t.last+1, of)
		limit := 1000 + 100*((t.last+1)%9000) // of its own, so that the reply to another call is known
		r := t.request(sluice.ListLogV1(), []string{key}, fmt.Sprint(limit), "3600000000", "1", "0")
		keys = append(keys, key)
		work.Go(func() {
			a := t.programs[i%len(t.programs)].ask(r, t.patience())
			if a.Reply != nil && !a.isOf(int64(limit)) {
				a.wrong = fmt.Sprintf("%v to the first call of %d permits", a, limit)
			}
			answers[i] = a
		})
	}
	work.Wait()
	return answers, keys
}
