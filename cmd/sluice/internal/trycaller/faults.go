package trycaller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/faultproxy"
)

// fault is what goes wrong while calls are made.
type fault struct {
	tried      string
	serial     int          // calls one by one; 0: 40 at once
	fresh      bool         // COMMAND is started when it has begun
	begin, end func() error // nil: nothing to do
	loses      bool         // the server may lose what it has charged
	mute       bool         // nothing that is sent to a caller has an error reply
	harmless   bool         // nothing fails: the calls after it are granted at once
	subject    []string     // of all keys
}

// everywhere has all proxies do something.
func (t *trial) everywhere(do func(*faultproxy.Proxy)) func() error {
	return func() error { t.proxies(do); return nil }
}

// faults are all that are tried here.
func (t *trial) faults() []fault {
	faults := t.proxyFaults()
	for i := range faults {
		faults[i].mute = !t.Cluster
	}
	switch {
	case t.Cluster && t.Redis == "":
		faults = append(faults, t.clusterFaults()...)
	case t.Redis == "":
		faults = append(faults,
			fault{tried: "the server restarts", loses: true, begin: func() error { t.nodes[0].server.Kill(); return nil },
				end: t.restart},
			fault{tried: "SCRIPT FLUSH", harmless: true, end: func() error { return t.flush() }})
	}
	return faults
}

func (t *trial) isTried(f fault) bool { return strings.Contains(f.tried, t.Only) }

func (t *trial) names() (names []string) {
	for _, f := range t.faults() {
		names = append(names, f.tried)
	}
	return names
}

func (t *trial) allFaults() error {
	for _, f := range t.faults() {
		if !t.isTried(f) {
			continue
		}
		if err := t.try(f); err != nil {
			return fmt.Errorf("%s: %w", f.tried, err)
		}
	}
	return nil
}

func (t *trial) flush() error { t.each(t.ctx, "SCRIPT", "FLUSH"); return nil }

// proxyFaults are those of the network, with calls one by one and at once.
func (t *trial) proxyFaults() []fault {
	pass := t.everywhere((*faultproxy.Proxy).Pass)
	lose, cut := t.everywhere((*faultproxy.Proxy).LoseReplies), t.everywhere((*faultproxy.Proxy).CutCalls)
	silent := t.everywhere((*faultproxy.Proxy).Swallow)
	refuse := t.everywhere(func(p *faultproxy.Proxy) { p.Refuse(); p.Disconnect() })
	return []fault{
		{tried: "replies are lost, one by one", serial: atOnce, begin: lose, end: pass},
		{tried: "replies are lost, 40 at once", begin: lose, end: pass},
		{tried: "cut before it is sent, one by one", serial: atOnce, begin: cut, end: pass},
		{tried: "cut before it is sent, 40 at once", begin: cut, end: pass},
		{tried: "silent at first, one call", serial: 1, fresh: true, begin: silent, end: pass},
		{tried: "silent at first, 40 at once", fresh: true, begin: silent, end: pass},
		{tried: "silent, one call", serial: 1, begin: silent, end: pass},
		{tried: "silent, 40 at once", begin: silent, end: pass},
		{tried: "connections are refused", begin: refuse, end: pass},
	}
}

// clusterFaults are those of one node of a cluster. The last leaves a node dead.
func (t *trial) clusterFaults() []fault {
	moved := make(chan error, 1)
	return []fault{
		{tried: "one node is silent, 40 at once", begin: func() error { t.nodes[0].proxy.Swallow(); return nil },
			end: func() error { t.nodes[0].proxy.Pass(); return nil }},
		{tried: "a slot moves", serial: atOnce, subject: []string{"mover"},
			begin: func() error {
				go func() { moved <- t.moveSlot(t.ctx, "{mover}") }()
				time.Sleep(50 * time.Millisecond)
				return nil
			},
			end: func() error { return <-moved }},
		{tried: "SCRIPT FLUSH", harmless: true, end: func() error { return t.flush() }},
		{tried: "a master dies, its replica takes over", loses: true,
			begin: t.killMaster, end: t.awaitFailover},
	}
}

// try makes calls while something is wrong, and reports what came of them.
func (t *trial) try(f fault) error {
	limit, name := t.Within, strings.ReplaceAll(f.tried, " ", "-")
	if !f.fresh {
		if err := t.start(true); err != nil {
			return err
		}
	}
	if f.begin != nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	starting, connected := make(chan time.Duration, 1), t.connections()
	if f.fresh {
		if err := t.start(false); err != nil {
			return err
		}
		go t.awaitStart(connected, starting)
	}
	var answers []answer
	var keys []string
	for began := time.Now(); len(answers) < f.serial && time.Since(began) < 2*t.patience(); {
		a, key := t.calls(1, name, f.subject...)
		answers, keys = append(answers, a...), append(keys, key...)
	}
	if f.serial == 0 && !f.harmless {
		answers, keys = t.calls(atOnce, name, f.subject...)
	}
	select {
	case needed := <-starting:
		limit += needed
	default:
	}
	if err := f.end(); err != nil {
		return err
	}
	back := t.comesBack(f) // what a client sends again by then counts
	charged, err := t.charged(t.ctx, keys)
	if err == nil && len(answers) > 0 {
		t.judge(f, limit, answers, charged)
	}
	t.report(back)
	return err
}

// awaitStart says how long COMMAND needs until each of its programs connects.
func (t *trial) awaitStart(before int64, starting chan<- time.Duration) {
	began, programs := time.Now(), int64(len(t.programs))
	for t.connections() < before+programs && time.Since(began) < startsIn {
		time.Sleep(5 * time.Millisecond)
	}
	starting <- time.Since(began)
}

// connections is how many the proxies have accepted.
func (t *trial) connections() (count int64) {
	t.proxies(func(p *faultproxy.Proxy) { count += p.Counts().Accepted })
	return count
}

// comesBack asks until 40 calls at once are granted.
func (t *trial) comesBack(f fault) Row {
	began, row := time.Now(), Row{Property: ComesBack, Tried: f.tried}
	for rounds := 1; ; rounds++ {
		answers, _ := t.calls(atOnce, "back")
		i := slices.IndexFunc(answers, func(a answer) bool { return !a.granted() || a.wrong != "" })
		row.Seen = fmt.Sprintf("%.2f s", time.Since(began).Seconds())
		switch {
		case i < 0:
		case f.harmless:
			row.Seen, row.Cure = fmt.Sprint(answers[i]), "after NOSCRIPT send SCRIPT LOAD and EVALSHA again on that connection"
		case time.Since(began) > backIn || answers[i].failed != "" || t.ctx.Err() != nil:
			row.Seen, row.Cure = fmt.Sprint("not in ", backIn, ": ", answers[i]),
				"after an error that is not an error reply close the connection, and let the next call open a new one"
		default:
			time.Sleep(50 * time.Millisecond)
			continue
		}
		return row
	}
}

// judge reports what the answers are worth beside what the server has charged.
func (t *trial) judge(f fault, limit time.Duration, answers []answer, charged []int64) {
	kinds, slowest := map[string]int{}, time.Duration(0)
	var twice, permits int64
	var hung, misled string
	cure := "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"
	for i, a := range answers {
		slowest, permits = max(slowest, a.took), permits+charged[i]
		if charged[i] > 1 {
			twice++
		}
		kind := a.Kind
		switch {
		case a.failed != "":
			kind, hung = "no answer", a.failed
		case a.granted():
			kind = "granted"
		}
		kinds[kind]++
		if a.wrong != "" {
			misled, cure = a.wrong, "a reply is Redis's to this call: after a timeout close the connection, its reply may come"
		}
		if kind == refused && f.mute {
			misled = fmt.Sprintf("%v, and Redis answered nothing", a)
		}
		if kind == "granted" && charged[i] == 0 && !f.loses || (kind == refused || kind == notSent) && charged[i] > 0 {
			misled = fmt.Sprintf("%v, and %d charged", a, charged[i])
		}
	}
	row := Row{Property: ChargedOnce, Tried: f.tried, Seen: fmt.Sprintf("%d of %d", permits, len(answers))}
	if twice > 0 {
		row.Seen = fmt.Sprintf("%d of %d twice or more", twice, len(answers))
		row.Cure = "the client sends a call again when its reply is lost: switch off its retries and reconnects"
	}
	t.report(row)
	row = Row{Property: EndsInTime, Tried: f.tried, Seen: fmt.Sprintf("%.2f s", slowest.Seconds())}
	if hung != "" || slowest > limit {
		row.Seen = strings.TrimSpace(row.Seen + " " + hung)
		row.Cure = "bound each: connecting, waiting for a connection of the pool, waiting for a reply. " +
			"If COMMAND takes one call at a time, say --processes"
	}
	t.report(row)
	row = Row{Property: TellsApart, Tried: f.tried}
	for _, kind := range []string{"granted", refused, notSent, unknown, "no answer"} {
		if kinds[kind] > 0 {
			row.Seen += fmt.Sprintf(", %d %s", kinds[kind], kind)
		}
	}
	row.Seen = strings.TrimPrefix(row.Seen, ", ")
	if misled != "" {
		row.Seen, row.Cure = misled, cure
	}
	t.report(row)
}

// errorReplies has the proxy answer as a server in trouble does.
func (t *trial) errorReplies() error {
	if t.Cluster || t.Only != "" {
		return nil // clients of a cluster follow some of them
	}
	if err := t.start(true); err != nil {
		return err
	}
	for _, text := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots.", "NOPERM this user has no permissions to run the command",
	} {
		code, rest, _ := strings.Cut(text, " ")
		t.nodes[0].proxy.RefuseCalls(text)
		r := t.request(sluice.ListLogV1(), []string{"sluice:try-caller:{x}:ll1"}, "1000", "3600000000", "1", "0")
		a := t.ask(r)
		row := Row{Property: TellsApart, Tried: "the error reply " + code, Seen: a.Kind}
		if a.Kind != refused || !strings.Contains(a.Error, rest) {
			row.Seen, row.Cure = a.String(), "an error reply is refused, with its text"
		}
		t.report(row)
	}
	t.nodes[0].proxy.Pass()
	return nil
}
