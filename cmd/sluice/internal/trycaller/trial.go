// Package trycaller runs a program that calls the scripts, makes its transport fail, and counts on the server what ran.
//
// rows.go has what is tried, stand.go the servers behind proxies, program.go runs COMMAND, and trial.go tries the rows.
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
	Command            []string
	Redis              string // a URL; "": a server of its own
	Cluster, Processes bool
	Within             time.Duration
	Vectors            string    // their folder
	Only               string    // part of names: nothing else is tried
	Stderr             io.Writer // of COMMAND
}

// Row is one result: a property of a caller, and where it holds or does not.
type Row struct{ Property, Tried, Seen, Cure string } // Cure: "" if all is right

const (
	atOnce     = 40
	backIn     = 10 * time.Second // for a caller to come back
	wellIn     = 30 * time.Second // for a caller that has connected nowhere yet
	startsIn   = 2 * time.Minute  // for the first answer of COMMAND
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
	addrs   []string          // of their proxies, in a cluster
	where   string            // they are, for COMMAND's environment
	scripts string            // their folder
	sha1s   map[string]string // by file
	prefix  string            // of keys: no other trial on the same server has it

	programs []*program
	patience time.Duration // for an answer
	last     int           // id of a request
}

// Run tries a caller, and reports each row at once. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(Row)) (err error) {
	t := &trial{Options: o, report: report, sha1s: map[string]string{}}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	t.prefix = fmt.Sprintf("sluice:try-caller/%x", time.Now().UnixMicro())
	if t.scripts, err = os.MkdirTemp("", "sluice-try-"); err != nil {
		return err
	}
	defer os.RemoveAll(t.scripts)
	defer t.close()
	t.must(t.startStand())
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
	took, failed := t.untilGranted(wellIn)
	if failed != nil {
		t.must(fmt.Errorf("COMMAND does not call list_log on a server that is well: %v", failed))
	}
	t.patience = t.Within + 2*took // of one that is started anew
}

// start starts COMMAND anew. If it takes one call at a time, so many are started.
func (t *trial) start() {
	t.stop()
	for i := 0; i == 0 || t.Processes && i < atOnce; i++ {
		t.programs = append(t.programs, start(t.ctx, t.Command, []string{t.where, "SLUICE_SCRIPTS=" + t.scripts}, t.Stderr))
	}
}

func (t *trial) stop() {
	for _, p := range t.programs {
		_ = p.input.Close()
		p.kill()
		<-p.ended
	}
	t.programs = nil
}

// untilGranted makes calls until all of 40 at once are granted, and says for how long. Or else it says which was not.
func (t *trial) untilGranted(within time.Duration) (time.Duration, *answer) {
	last := ""
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answers := t.calls(atOnce)
		i := slices.IndexFunc(answers, func(a answer) bool { return !a.isGrant() })
		if i < 0 {
			return time.Since(began), nil
		}
		a := &answers[i]
		if said := a.String(); within == wellIn && said != last {
			fmt.Fprintln(t.Stderr, "not granted yet:", said)
			last = said
		}
		if a.Kind == "no answer" || a.Kind == "wrong reply" || time.Since(began) > within {
			return within, a
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
			charged := limit - a.numbers[1] // several times, if the client has sent it several times
			age := time.Since(time.UnixMicro(a.numbers[4]))
			isReply := a.isGrant() && len(a.Reply) == 5 && charged > 0 && charged < 100 && age.Abs() < 24*time.Hour
			if a.Kind == "reply" && !isReply {
				a.Kind, a.Text = "wrong reply", fmt.Sprintf("%s to the first call of %d permits", a.Text, limit)
			}
			a.key = key
			answers[i] = a
		})
	}
	work.Wait()
	return answers
}
