// Package trycaller runs a program that calls the scripts, makes its transport fail, and counts on the server what ran.
//
// table.go has the rows: what is tried. A trial has a stand: a server or a cluster behind proxies. judge.go says what
// is wrong. COMMAND is started anew after a row that fails.
package trycaller

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
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
	report   func(Row)
	startup  time.Duration // from a start of COMMAND to its first reply
	patience time.Duration // for an answer
	last     int           // id of a request
	programs []*program
}

// Run tries a caller, and reports each row at once. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(Row)) error {
	s, err := newStand(ctx, o)
	defer s.close()
	if err != nil {
		return err
	}
	t := &trial{Options: o, stand: s}
	defer t.stop()
	t.report = func(row Row) {
		if report(row); row.Cure != "" {
			t.stop()
		}
	}
	rows := slices.DeleteFunc(table(o.Vectors), func(r row) bool { return !strings.Contains(r.where, s.kind) })
	names := each(rows, func(r row) string { return r.name })
	rows = slices.DeleteFunc(rows, func(r row) bool { return !strings.Contains(r.name, o.Only) })
	if len(rows) == 0 {
		return fmt.Errorf("--only %q is in no name of a row: want a part of %s", o.Only, strings.Join(names, "; "))
	}
	for _, r := range rows {
		if err := r.try(t); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return s.failed
}

// start starts COMMAND anew, so many times.
func (t *trial) start(count int) error {
	t.stop()
	for range count {
		p, err := start(t.ctx, t.Command, []string{t.at, "SLUICE_SCRIPTS=" + t.scripts}, t.Stderr)
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

// stop ends all that runs of COMMAND.
func (t *trial) stop() {
	var work sync.WaitGroup
	for _, p := range t.programs {
		work.Go(p.close)
	}
	work.Wait()
	t.programs = nil
}

// untilGranted makes calls at once until all are granted, and says for how long. Or else it says which was not.
func (t *trial) untilGranted(count int, limit time.Duration) (time.Duration, *answer) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answers := t.calls(count, "well")
		i := slices.IndexFunc(answers, func(a answer) bool { return !a.isGrant() })
		if i < 0 {
			return time.Since(began), nil
		}
		hopeless := answers[i].Kind == noAnswer || answers[i].wrong != ""
		if hopeless || time.Since(began) > limit || t.ctx.Err() != nil {
			return limit, &answers[i]
		}
	}
}

// calls makes calls at once, each of which is to charge a permit to a key of its own. Every second key is in the slot
// that moves, if one does.
func (t *trial) calls(count int, limiter string) []answer {
	answers := make([]answer, count)
	var work sync.WaitGroup
	for i := range answers {
		id := t.last + 1
		subject := []string{"mover", fmt.Sprint("s", id)}[i%2]
		key := fmt.Sprintf("%s/%s-%d:{%s}:ll1", t.prefix, limiter, id, subject)
		limit := int64(1000 + 100*(id%9000)) // of its own, so that the reply to another call is known
		r := t.request("list_log_v1", []string{key}, fmt.Sprint(limit), "3600000000", "1", "0")
		work.Go(func() {
			a := t.programs[i%len(t.programs)].ask(r, t.patience)
			remaining := a.number(1) // of the limit; the client may have sent it several times
			isReply := len(a.Reply) == 5 && a.Kind == granted && remaining < limit && remaining > limit-100
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

// request is a call of a script in the folder of scripts.
func (t *trial) request(name string, keys []string, args ...string) request {
	t.last++
	path := filepath.Join(t.scripts, name+".lua")
	source, _ := os.ReadFile(path) // without the file COMMAND has nothing to load, and says so
	return request{t.last, name, redis.NewScript(string(source)).Hash(), path, each(keys, hexOf), each(args, hexOf)}
}

// each makes something of each.
func each[T, U any](all []T, make func(T) U) []U {
	made := []U{}
	for _, one := range all {
		made = append(made, make(one))
	}
	return made
}

func hexOf(word string) string { return fmt.Sprintf("%x", word) }

func anyOf(word string) any { return word }
