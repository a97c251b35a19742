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
	day      = 24 * time.Hour
	backIn   = 10 * time.Second // for a caller to come back
	startsIn = 2 * time.Minute  // for COMMAND to make its first call
)

// trial is a caller on a stand.
type trial struct {
	Options
	*stand
	patience time.Duration // for an answer
	last     int           // id of a request
	programs []*program
}

// Run tries a caller, and reports each row at once. An error means that it could not be tried.
func Run(ctx context.Context, o Options, report func(Row)) error {
	dir, err := os.MkdirTemp("", "sluice-try-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s, err := newStand(ctx, o, dir)
	defer s.close()
	if err != nil {
		return err
	}
	t := &trial{Options: o, stand: s}
	defer t.stop()
	rows := t.table()
	if len(rows) == 0 {
		return fmt.Errorf("--only %q: want a part of the name of a row, such as \"silent, one by one\"", o.Only)
	}
	for _, r := range rows {
		t.startWell(r.together)
		found := r.try(t)
		if s.ctx.Err() != nil {
			return fmt.Errorf("%s: %w", r.name, context.Cause(s.ctx))
		}
		for _, row := range found {
			if report(row); row.Cure != "" {
				t.stop()
			}
		}
	}
	return nil
}

// start starts COMMAND anew, so many times.
func (t *trial) start(count int) {
	t.stop()
	for range count {
		t.programs = append(t.programs, start(t.ctx, t.Command, []string{t.at, "SLUICE_SCRIPTS=" + t.scripts}, t.Stderr))
	}
}

// startWell starts COMMAND while all is well, if it does not run, and wants a grant of each program. One that takes one
// call at a time needs 40 programs for 40 at once.
func (t *trial) startWell(calls int) {
	if !t.Processes {
		calls = min(calls, 1)
	}
	if len(t.programs) >= calls {
		return
	}
	t.start(calls)
	t.patience = startsIn
	took, failed := t.untilGranted(calls, startsIn)
	if failed != nil {
		t.must(fmt.Errorf("COMMAND does not call list_log on a server that is well: %v", failed))
	}
	t.patience = t.Within + 2*took // of one that is started anew
}

// stop ends all that runs of COMMAND.
func (t *trial) stop() {
	for _, p := range t.programs {
		p.close()
	}
	t.programs = nil
}

// untilGranted makes calls at once until all are granted, and says for how long. Or else it says which was not.
func (t *trial) untilGranted(count int, limit time.Duration) (time.Duration, *answer) {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		answers := t.calls(count)
		i := slices.IndexFunc(answers, func(a answer) bool { return !a.isGrant() })
		if i < 0 {
			return time.Since(began), nil
		}
		hopeless := answers[i].Kind == noAnswer || answers[i].wrong != ""
		if hopeless || time.Since(began) > limit {
			return limit, &answers[i]
		}
	}
}

// calls makes calls at once, each of which is to charge a permit to a key of its own. Every second key is in the slot
// that moves, if one does.
func (t *trial) calls(count int) []answer {
	answers := make([]answer, count)
	var work sync.WaitGroup
	for i := range answers {
		id := t.last + 1
		subject := []string{"mover", fmt.Sprint("s", id)}[i%2]
		key := word(fmt.Sprintf("%s-%d:{%s}:ll1", t.prefix, id, subject))
		limit := int64(1000 + 100*(id%9000)) // of its own, so that the reply to another call is known
		r := t.request("list_log_v1", []word{key}, word(fmt.Sprint(limit)), "3600000000", "1", "0")
		work.Go(func() {
			a := t.programs[i%len(t.programs)].ask(r, t.patience)
			remaining := a.number(1) // of the limit; the client may have sent it several times
			age := time.Since(time.UnixMicro(a.number(4)))
			isReply := len(a.Reply) == 5 && a.isGrant() && remaining < limit && remaining > limit-100 && age.Abs() < day
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
func (t *trial) request(name string, keys []word, args ...word) request {
	t.last++
	path := filepath.Join(t.scripts, name+".lua")
	source, err := os.ReadFile(path)
	t.must(err)
	return request{t.last, name, redis.NewScript(string(source)).Hash(), path, keys, args}
}
