// Package trycaller runs a program that calls the scripts, makes its transport fail, and counts on the server what ran.
//
// A trial has rows: readings.go tries what a caller reads while all is well, faults.go what comes of faults. stand.go
// has the servers, behind proxies, and what they were asked for; program.go has COMMAND.
package trycaller

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Options are the flags of sluice try-caller.
type Options struct {
	Command   []string
	Redis     string // a URL; "": a server of its own
	Cluster   bool
	Processes bool
	Within    time.Duration
	Vectors   string
	Only      string    // part of names: nothing else is tried
	Stderr    io.Writer // of COMMAND
}

// Row is one result: a property of a caller, and where it holds or does not.
type Row struct {
	Property string
	Tried    string
	Seen     string
	Cure     string // "" if all is right
}

const (
	atOnce     = 40
	backIn     = 10 * time.Second // for a caller to come back
	startsIn   = 2 * time.Minute  // for COMMAND to make its first call
	masters    = 3                // of a cluster
	movingSlot = "slot"           // a hash tag of the first master
)

// trial is a caller that is tried. An error of what is around it ends it, by its context.
type trial struct {
	Options
	ctx    context.Context
	cancel context.CancelCauseFunc
	report func(Row)
	tried  int // rows

	kind    string // of stand
	nodes   []*node
	addrs   []string // of their proxies
	scripts string   // their folder
	prefix  string   // of keys: no other trial on the same server has it
	endMove func() error

	programs []*program
	patience time.Duration // for an answer
	last     int           // id of a request
}

// Run tries a caller, and reports each row at once. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(Row)) error {
	t := &trial{Options: o, report: report, prefix: fmt.Sprintf("sluice:try-caller/%x", time.Now().UnixMicro())}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	dir, err := os.MkdirTemp("", "sluice-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	defer t.close()
	if err := t.startStand(dir); err != nil {
		return err
	}
	defer t.stop()
	for _, line := range t.readings() {
		t.row(line.Name, "", line.try)
	}
	t.row("ACL SETUSER", "", (*trial).asks)
	for _, f := range faults() {
		t.row(f.name, f.where, f.try)
	}
	if t.Vectors != "" {
		t.row(theVectors, ownServer, (*trial).playVectors)
	}
	if err := context.Cause(t.ctx); err != nil || t.tried > 0 {
		return err
	}
	return fmt.Errorf("--only %q: want a part of the name of a row, such as \"silent, one by one\"", o.Only)
}

// row tries something, on the kinds of stands of where, or on all. After a row that fails COMMAND is started anew.
func (t *trial) row(name, where string, try func(*trial) []Row) {
	if where != "" && !strings.Contains(where, t.kind) || !strings.Contains(name, t.Only) || t.ctx.Err() != nil {
		return
	}
	t.startWell()
	found := try(t)
	if t.ctx.Err() != nil {
		return
	}
	t.tried++
	for _, row := range found {
		if t.report(row); row.Cure != "" {
			t.stop()
		}
	}
}

// startWell starts COMMAND while all is well, if it does not run.
func (t *trial) startWell() {
	if len(t.programs) > 0 {
		return
	}
	t.start()
	t.patience = startsIn
	took, failed := t.untilGranted()
	if failed != nil {
		t.must(fmt.Errorf("COMMAND does not call list_log on a server that is well: %v", failed))
	}
	t.patience = t.Within + 2*took // of one that is started anew
}

// start starts COMMAND anew. If it takes one call at a time, so many are started.
func (t *trial) start() {
	t.stop()
	count := 1
	if t.Processes {
		count = atOnce
	}
	for range count {
		t.programs = append(t.programs, start(t.ctx, t.Command, t.environment(), t.Stderr))
	}
}

// stop ends all that runs of COMMAND.
func (t *trial) stop() {
	for _, p := range t.programs {
		_ = p.input.Close()
		p.kill()
		<-p.ended
	}
	t.programs = nil
}

// untilGranted makes calls until all of 40 at once are granted, and says for how long. Or else it says which was not.
func (t *trial) untilGranted() (time.Duration, *answer) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answers := t.calls(atOnce)
		i := slices.IndexFunc(answers, func(a answer) bool { return !a.isGrant() })
		if i < 0 {
			return time.Since(began), nil
		}
		if answers[i].Kind == "no answer" || answers[i].wrong != "" || time.Since(began) > backIn {
			return backIn, &answers[i]
		}
	}
}

// calls makes calls at once, each of which is to charge a permit to a key of its own. Every second key is in the slot
// that moves, if one does. Each limit is another, so that the reply to another call is known.
func (t *trial) calls(count int) []answer {
	answers := make([]answer, count)
	var work sync.WaitGroup
	for i := range answers {
		id := t.last + 1
		limit := int64(1000 + 100*(id%9000))
		key := word(fmt.Sprintf("%s-%d:{%s}:ll1", t.prefix, id, []string{movingSlot, fmt.Sprint("s", id)}[i%2]))
		r := t.request("list_log_v1", []word{key}, word(fmt.Sprint(limit)), "3600000000", "1", "0")
		work.Go(func() {
			a := t.programs[i%len(t.programs)].ask(r, t.patience)
			charged := limit - a.number(1) // several times, if the client has sent it several times
			age := time.Since(time.UnixMicro(a.number(4)))
			isReply := a.isGrant() && len(a.Reply) == 5 && charged > 0 && charged < 100 && age.Abs() < 24*time.Hour
			if a.Reply != nil && !isReply {
				a.wrong = fmt.Sprintf("%v to the first call of %d permits", a, limit)
			}
			a.key = key
			answers[i] = a
		})
	}
	work.Wait()
	return answers
}
