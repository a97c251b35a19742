package trycaller

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/faultproxy"
)

// fault is what goes wrong while calls are made.
type fault struct {
	tried      string
	begin, end func() error
	serial     int      // calls one by one; 0: 40 at once
	fresh      bool     // COMMAND is started anew when it has begun
	loses      bool     // the server may lose what it has charged
	mute       bool     // nothing that is sent to a caller has an error reply
	harmless   string   // all calls are granted, or this cures it
	subject    []string // of all keys
}

// faults are all that are tried here. The last leaves a node of a cluster dead.
func (t *trial) faults() (faults []fault) {
	everywhere := func(do ...func(*faultproxy.Proxy)) func() error {
		return func() error {
			for _, do := range do {
				t.proxies(do)
			}
			return nil
		}
	}
	type proxy = faultproxy.Proxy
	silent, pass := everywhere((*proxy).Swallow), everywhere((*proxy).Pass)
	for _, f := range []fault{
		{tried: "replies are lost", serial: atOnce, begin: everywhere((*proxy).LoseReplies)},
		{tried: "cut before it is sent", serial: atOnce, begin: everywhere((*proxy).CutCalls)},
		{tried: "silent at first", serial: 1, fresh: true, begin: silent},
		{tried: "silent", serial: 1, begin: silent},
		{tried: "silent again", serial: 2, begin: func() error {
			t.proxies((*proxy).Swallow)
			t.calls(len(t.programs), "silent")
			t.proxies((*proxy).Pass)
			t.comesBack(fault{})
			return silent()
		}},
		{tried: "connects hang", serial: 2, begin: everywhere((*proxy).Stall, (*proxy).Disconnect)},
		{tried: "connections are refused", serial: 5, begin: everywhere((*proxy).Refuse, (*proxy).Disconnect)},
	} {
		f.end, f.mute = pass, !t.Cluster
		together := f
		f.tried, together.tried, together.serial = f.tried+", one by one", f.tried+", 40 at once", 0
		faults = append(faults, f, together)
	}
	if t.Redis != "" {
		return faults
	}
	forget := func() error { t.each(t.ctx, "SCRIPT", "FLUSH"); return nil }
	nothing := func() error { return nil }
	faults = append(faults, fault{tried: "SCRIPT FLUSH", begin: forget, end: nothing,
		harmless: "after NOSCRIPT send SCRIPT LOAD and EVALSHA again on that connection"})
	if !t.Cluster {
		kill := func() error { t.nodes[0].server.Kill(); return nil }
		restart := func() error { return t.nodes[0].server.Restart() }
		return append(faults, fault{tried: "the server restarts", loses: true, begin: kill, end: restart})
	}
	arrive := nothing
	return append(faults,
		fault{tried: "one node is silent, 40 at once", end: pass,
			begin: func() error { t.nodes[0].proxy.Swallow(); return nil }},
		fault{tried: "a slot moves", serial: atOnce, subject: []string{"mover"},
			harmless: "follow redirections: ASK by ASKING and the call on the node that it names, MOVED by the call there",
			begin:    func() (err error) { arrive, err = t.moveSlot(t.ctx, "{mover}"); return err },
			end:      func() error { return arrive() }},
		fault{tried: "a master dies, its replica takes over", loses: true,
			begin: func() error { t.masters(t.ctx)[0].server.Kill(); return nil },
			end:   func() error { return t.awaitFailover(t.ctx) }},
	)
}

// meet makes calls while something is wrong, and reports what came of them.
func (t *trial) meet(f fault) error {
	limit, name := t.Within, strings.ReplaceAll(f.tried, " ", "-")
	if err := t.startWell(); err != nil {
		return err
	}
	if err := f.begin(); err != nil {
		return err
	}
	if f.fresh {
		limit += t.startup
		if err := t.start(); err != nil {
			return err
		}
	}
	var answers []answer
	var keys []string
	if f.serial == 0 {
		answers, keys = t.calls(atOnce, name, f.subject...)
	}
	for began := time.Now(); len(answers) < f.serial && time.Since(began) < 2*t.patience(); {
		a, key := t.calls(1, name, f.subject...)
		answers, keys = append(answers, a...), append(keys, key...)
	}
	if err := f.end(); err != nil {
		return err
	}
	back := t.comesBack(f) // what a client sends again by then counts
	charged, err := t.charged(t.ctx, keys)
	if err != nil {
		return err
	}
	if i := firstNotGranted(answers); f.harmless != "" && i >= 0 {
		back.Seen, back.Cure = fmt.Sprint(answers[i]), f.harmless
	}
	t.report(f.once(answers, charged), f.inTime(answers, limit), f.apart(answers, charged), back)
	return nil
}

// comesBack makes 40 calls at once until all are granted.
func (t *trial) comesBack(f fault) Row {
	took, failed := t.untilGranted(atOnce, backIn, f.subject...)
	if failed != nil {
		return Row{ComesBack, f.tried, fmt.Sprint("not in ", backIn, ": ", failed),
			"after an error that is not an error reply close the connection, and let the next call open a new one"}
	}
	return Row{ComesBack, f.tried, fmt.Sprintf("%.2f s", took.Seconds()), ""}
}

// once counts what the server has charged.
func (f fault) once(answers []answer, charged []int64) Row {
	var twice, permits int64
	for _, count := range charged {
		permits += count
		twice += min(1, count/2)
	}
	if twice > 0 {
		return Row{ChargedOnce, f.tried, fmt.Sprintf("%d of %d twice or more", twice, len(answers)),
			"the client sends a call again when its reply is lost: switch off its retries and reconnects"}
	}
	return Row{ChargedOnce, f.tried, fmt.Sprintf("%d of %d", permits, len(answers)), ""}
}

// inTime looks for the slowest answer, and for one that is missing.
func (f fault) inTime(answers []answer, limit time.Duration) Row {
	row, slowest := Row{Property: EndsInTime, Tried: f.tried}, time.Duration(0)
	for _, a := range answers {
		slowest = max(slowest, a.took)
		if a.Kind == noAnswer {
			row.Seen = " " + a.Error
		}
	}
	if row.Seen != "" || slowest > limit {
		row.Cure = "bound each: connecting, waiting for a connection of the pool, waiting for a reply. " +
			"If COMMAND takes one call at a time, say --processes"
	}
	row.Seen = fmt.Sprintf("%.2f s%s", slowest.Seconds(), row.Seen)
	return row
}

// apart holds each answer against what the server has charged.
func (f fault) apart(answers []answer, charged []int64) Row {
	kinds := map[string]int{}
	misled, cure := "", "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"
	for i, a := range answers {
		kinds[a.Kind]++
		nothingRan := a.Kind == refused || a.Kind == notSent
		switch {
		case a.wrong != "":
			misled, cure = a.wrong, "a reply is Redis's to this call: after a timeout close the connection, its reply may come"
		case a.Kind == refused && f.mute:
			misled = fmt.Sprintf("%v, and Redis answered nothing", a)
		case a.Kind == granted && charged[i] == 0 && !f.loses, nothingRan && charged[i] > 0:
			misled = fmt.Sprintf("%v, and %d charged", a, charged[i])
		}
	}
	if misled != "" {
		return Row{TellsApart, f.tried, misled, cure}
	}
	var seen []string
	for _, kind := range []string{granted, refused, notSent, unknown, noAnswer} {
		if kinds[kind] > 0 {
			seen = append(seen, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
	}
	return Row{TellsApart, f.tried, strings.Join(seen, ", "), ""}
}
