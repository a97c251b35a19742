// Package trycaller runs a program that calls the scripts, makes its transport fail, and counts on the server what ran.
//
// table.go has the rows: what is tried, and what is counted. A trial has a stand: a server or a cluster behind proxies.
// COMMAND is started anew after a row that fails.
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
	Only      string    // part of names: nothing else is tried
	Stderr    io.Writer // of COMMAND
}

// Row is one result.
type Row struct {
	Property string // one of the constants
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

// trial is a caller on a stand.
type trial struct {
	Options
	*stand
	ctx      context.Context
	report   func(...Row)
	startup  time.Duration // from a start of COMMAND to its first reply
	patience time.Duration // for an answer
	last     int           // id of a request
	programs []*program
}

// Run tries a caller, and reports at once all rows about one thing. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(...Row)) error {
	s, err := newStand(o)
	defer s.close()
	if err != nil {
		return err
	}
	t := &trial{Options: o, stand: s, ctx: ctx, patience: startsIn}
	defer t.stop()
	t.report = func(rows ...Row) {
		if report(rows...); slices.ContainsFunc(rows, func(row Row) bool { return row.Cure != "" }) {
			t.stop()
		}
	}
	var names []string
	tried := 0
	for _, item := range t.items() {
		names = append(names, item.name)
		if !strings.Contains(item.name, o.Only) {
			continue
		}
		tried++
		if err := item.try(t); err != nil {
			return fmt.Errorf("%s: %w", item.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if tried == 0 {
		return fmt.Errorf("--only %q is in no name of a row: want a part of %s", o.Only, strings.Join(names, "; "))
	}
	return s.failed
}

// start starts COMMAND anew, so many times.
func (t *trial) start(count int) error {
	t.stop()
	for range count {
		p, err := start(t.ctx, t.Command, append(t.environment, "SLUICE_SCRIPTS="+t.scripts), t.Stderr)
		if err != nil {
			return err
		}
		t.programs = append(t.programs, p)
	}
	return nil
}

// startWell starts COMMAND while all is well, if it does not run, and wants a grant of each program. One that takes one
// call at a time needs 40 programs for 40 at once.
func (t *trial) startWell(calls int) error {
	if !t.Processes {
		calls = 1
	}
	if len(t.programs) >= calls {
		return nil
	}
	if err := t.start(calls); err != nil {
		return err
	}
	t.patience = startsIn
	took, failed := t.untilGranted(calls, startsIn)
	if failed != nil {
		return fmt.Errorf("COMMAND does not call list_log on a server that is well: %v", failed)
	}
	t.startup = max(t.startup, took)
	t.patience = t.Within + 2*t.startup // of one that is started anew
	return nil
}

// awaitConnections says how long COMMAND, which is started now, needs until its programs connect.
func (t *trial) awaitConnections(wanted int64, took chan<- time.Duration) {
	began := time.Now()
	for t.accepted() < wanted && time.Since(began) < startsIn {
		time.Sleep(5 * time.Millisecond)
	}
	took <- time.Since(began)
}

// untilGranted makes calls at once until all are granted, and says for how long. Or else it says which was not.
func (t *trial) untilGranted(count int, limit time.Duration, subject ...string) (time.Duration, *answer) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answers, _ := t.calls(count, "well", subject...)
		i := firstNotGranted(answers)
		if i < 0 {
			return time.Since(began), nil
		}
		hopeless := answers[i].Kind == noAnswer || answers[i].wrong != ""
		if hopeless || time.Since(began) > limit || t.ctx.Err() != nil {
			return limit, &answers[i]
		}
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

// request is a call of a script in the folder of scripts.
func (t *trial) request(name string, keys []string, args ...string) request {
	t.last++
	path := filepath.Join(t.scripts, name+".lua")
	return request{t.last, name, sum(path), path, each(keys, hexOf), each(args, hexOf)}
}

// ask makes a call with the first program.
func (t *trial) ask(r request) answer { return t.programs[0].ask(r, t.patience) }

// calls makes calls at once, each of which is to charge a permit to a key of its own. The keys are of one subject, and
// so of one slot, if it is not "".
func (t *trial) calls(count int, limiter string, subject ...string) (answers []answer, keys []string) {
	answers = make([]answer, count)
	var work sync.WaitGroup
	for i := range answers {
		of := append(subject, fmt.Sprint("s", t.last+1))[0]
		key := fmt.Sprintf("%s/%s-%d:{%s}:ll1", t.prefix, limiter, t.last+1, of)
		limit := 1000 + 100*((t.last+1)%9000) // of its own, so that the reply to another call is known
		r := t.request("list_log_v1", []string{key}, fmt.Sprint(limit), "3600000000", "1", "0")
		keys = append(keys, key)
		work.Go(func() {
			a := t.programs[i%len(t.programs)].ask(r, t.patience)
			if a.Reply != nil && !a.isOf(int64(limit)) {
				a.wrong = fmt.Sprintf("%v to the first call of %d permits", a, limit)
			}
			answers[i] = a
		})
	}
	work.Wait()
	return answers, keys
}
