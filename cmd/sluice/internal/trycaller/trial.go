// Package trycaller runs a program that calls the scripts, makes its transport fail, and counts on the server what ran.
//
// A trial has a stand (a server or cluster behind proxies) and a table of what is tried there: reads.go has what is
// tried while all is well, faults.go has the faults. The programs of COMMAND are started anew for each fault.
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
	report   func(...Row)  // of one thing
	startup  time.Duration // from a start of COMMAND to its first reply
	last     int           // id of a request
	programs []*program
}

// item is a line of the table: what is tried, and how.
type item struct {
	tried string
	try   func() error // reports rows of that name
}

// items is the table.
func (t *trial) items() (items []item) {
	for _, r := range readings() {
		if r.answered == "" || !t.Cluster { // clients of a cluster follow some error replies
			items = append(items, item{r.tried, func() error { return t.read(r) }})
		}
	}
	if t.Vectors != "" && !t.Cluster {
		items = append(items, item{"vectors and calls.json", t.playVectors})
	}
	items = append(items, item{theCommands, t.asks})
	for _, f := range t.faults() {
		items = append(items, item{f.tried, func() error { return t.meet(f) }})
	}
	return items
}

// Run tries a caller, and reports at once all rows about one thing. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(...Row)) error {
	s, err := newStand(o)
	defer s.close()
	if err != nil {
		return err
	}
	t := &trial{Options: o, stand: s, ctx: ctx, report: report}
	defer t.stop()
	var names []string
	tried := 0
	for _, item := range t.items() {
		names = append(names, item.tried)
		if !strings.Contains(item.tried, o.Only) {
			continue
		}
		tried++
		if err := item.try(); err != nil {
			return fmt.Errorf("%s: %w", item.tried, err)
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

// start starts COMMAND anew, 40 times if it takes one call at a time. variables are more of its environment.
func (t *trial) start(variables ...string) error {
	t.stop()
	count := 1
	if t.Processes {
		count = atOnce
	}
	for range count {
		p, err := start(t.ctx, t.Command, slices.Concat(t.environment, variables), t.Stderr)
		if err != nil {
			return err
		}
		t.programs = append(t.programs, p)
	}
	return nil
}

// startWell starts COMMAND while all is well, and wants a grant of each program.
func (t *trial) startWell() error {
	if err := t.start(); err != nil {
		return err
	}
	took, failed := t.untilGranted(len(t.programs), startsIn)
	if failed != nil {
		return fmt.Errorf("COMMAND does not call list_log on a server that is well: %v", failed)
	}
	t.startup = max(t.startup, took)
	return nil
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

// request is a call of a script.
func (t *trial) request(script sluice.Script, keys []string, args ...string) request {
	t.last++
	file := filepath.Join(t.dir, "scripts", script.File)
	return request{t.last, strings.TrimSuffix(script.File, ".lua"), script.SHA1, file, hexes(keys), hexes(args)}
}

// ask makes a call with the first program.
func (t *trial) ask(r request) answer { return t.programs[0].ask(r, t.patience()) }

// patience is how long the trial waits for an answer.
func (t *trial) patience() time.Duration {
	if t.startup == 0 {
		return startsIn
	}
	return 3*t.Within + 2*t.startup // of one that is started anew
}

// calls makes calls at once, each of which is to charge a permit to a key of its own. The keys are of one subject, and
// so of one slot, if it is not "".
func (t *trial) calls(count int, limiter string, subject ...string) (answers []answer, keys []string) {
	answers = make([]answer, count)
	var work sync.WaitGroup
	for i := range answers {
		of := append(subject, fmt.Sprint("s", t.last+1))[0]
		key := fmt.Sprintf("%s/%s-%d:{%s}:ll1", t.prefix, limiter, t.last+1, of)
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
