package trycaller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/localredis"
)

// fault is a row: what goes wrong while calls are made.
type fault struct {
	name, where string
	begin       func(*trial)
	end         func(*trial) error // beside that the proxies pass all
	together    int                // calls at once
	calls       int                // in all, if more
	fresh       bool               // COMMAND is started anew when it has begun
	loses       bool               // the server may lose what it has charged
	refuses     string             // all calls are answered with an error of this text
	harmless    string             // all calls are granted, or this cures it
}

// do begins a fault of all proxies: one function after another.
func do(functions ...func(*proxy)) func(*trial) {
	return func(t *trial) {
		for _, n := range t.nodes {
			for _, function := range functions {
				function(n.proxy)
			}
		}
	}
}

// transport are the faults of all connections: with calls one by one, and 40 at once.
var transport = []fault{
	{name: "replies are lost", begin: do((*proxy).LoseReplies), calls: atOnce},
	{name: "cut before it is sent", begin: do((*proxy).CutCalls), calls: atOnce},
	{name: "silent at first", begin: do((*proxy).Swallow), fresh: true},
	{name: "silent", begin: do((*proxy).Swallow), calls: 2},
	{name: "connects hang", begin: do((*proxy).Stall, (*proxy).Disconnect), calls: 2},
	{name: "connections are refused", begin: do((*proxy).Refuse, (*proxy).Disconnect), calls: 5},
}

// servers are the faults of servers. The last one leaves a node of a cluster dead.
var servers = []fault{
	{name: "SCRIPT FLUSH", where: ownServer + ownCluster, together: atOnce,
		begin:    func(t *trial) { t.each("SCRIPT", "FLUSH") },
		harmless: "after NOSCRIPT send SCRIPT LOAD and EVALSHA again on that connection"},
	{name: "the server restarts", where: ownServer, together: atOnce, loses: true,
		begin: func(t *trial) { t.nodes[0].server.Kill() },
		end:   func(t *trial) error { return t.nodes[0].server.Restart() }},
	{name: "one node is silent, 40 at once", where: ownCluster, together: atOnce,
		begin: func(t *trial) { t.nodes[0].proxy.Swallow() }},
	{name: "a slot moves", where: ownCluster, together: 1, calls: atOnce,
		begin:    func(t *trial) { t.endMove = localredis.MoveSlot(movingSlot, t.nodes[0].rdb, t.nodes[1].rdb) },
		end:      func(t *trial) error { return t.endMove() },
		harmless: "follow redirections: ASK by ASKING and the call on the node that it names, MOVED by the call there"},
	{name: "a master dies, its replica takes over", where: ownCluster, together: atOnce, loses: true,
		begin: func(t *trial) {
			t.each("CONFIG", "SET", "cluster-node-timeout", "2000")
			t.nodes[0].server.Kill()
		},
		end: func(t *trial) error { return localredis.Await("a replica takes over", t.nodes[masters].isMaster) }},
}

func faults() (all []fault) {
	for _, text := range []string{ // clients of a cluster follow some
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots.", "NOPERM this user has no permissions to run the command",
	} {
		code, rest, _ := strings.Cut(text, " ") // some clients take off the code
		all = append(all, fault{name: "the error reply " + code, where: theirServer + ownServer, together: 1,
			refuses: rest, begin: do(func(p *proxy) { p.RefuseCalls(text) })})
	}
	for _, together := range []int{1, atOnce} {
		for _, f := range transport {
			f.name += map[int]string{1: ", one by one", atOnce: ", 40 at once"}[together]
			f.together = together
			all = append(all, f)
		}
	}
	return append(all, servers...)
}

// try makes calls while something is wrong, and says what came of them.
func (f fault) try(t *trial) (rows []Row) {
	limit := t.Within
	f.begin(t)
	if f.fresh {
		limit = t.patience
		t.start()
	}
	var answers []answer
	for began := time.Now(); len(answers) < max(f.calls, f.together) && time.Since(began) < t.patience; {
		answers = append(answers, t.calls(f.together)...)
	}
	if do((*proxy).Pass)(t); f.end != nil {
		t.must(f.end(t))
	}
	took, failed := t.untilGranted() // what a client sends again by then counts
	t.count(answers)
	kinds, charged, slowest := map[string]int{}, int64(0), time.Duration(0)
	for _, a := range answers {
		kinds[a.Kind]++
		charged += a.charged
		slowest = max(slowest, a.took)
	}
	tally := strings.TrimPrefix(fmt.Sprint(kinds), "map")
	seen := fmt.Sprintf("%s, %d charged, up to %.2f s", tally, charged, slowest.Seconds())
	for _, a := range answers {
		property, cure := f.judge(a, limit)
		if cure != "" && !slices.ContainsFunc(rows, func(r Row) bool { return r.Cure == cure }) {
			one := fmt.Sprintf("; of these in %.2f s %v, %d charged", a.took.Seconds(), a, a.charged)
			rows = append(rows, Row{property, f.name, seen + one, cure})
		}
	}
	if failed != nil {
		rows = append(rows, Row{"comes back", f.name, fmt.Sprint("not in ", backIn, ": ", failed),
			"after an error that is not an error reply close the connection, and let the next call open a new one"})
	}
	if len(rows) == 0 {
		rows = []Row{{"", f.name, fmt.Sprintf("%s; well in %.2f s", seen, took.Seconds()), ""}}
	}
	return rows
}

// judge holds an answer against what the server has charged for its call. It returns what is wrong, and the cure.
func (f fault) judge(a answer, limit time.Duration) (property, cure string) {
	nothingRan := a.Kind == "refused" || a.Kind == "not sent"
	switch {
	case a.charged > 1:
		return "charged once", "the client sends a call again when its reply is lost: switch off its retries and reconnects"
	case a.took > limit || a.Kind == "no answer":
		return "ends in time", "bound each: connecting, waiting for a connection of the pool, waiting for a reply. " +
			"If COMMAND takes one call at a time, say --processes"
	case nothingRan && a.charged > 0:
		return "tells apart", "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"
	case a.wrong != "" || a.isGrant() && a.charged == 0 && !f.loses:
		return "tells apart", "a reply is Redis's to this call: after a timeout close the connection, its reply may come"
	case f.refuses != "" && !a.is(f.refuses, nil):
		return "tells apart", "an error reply is refused, with its text"
	case f.harmless != "" && !a.isGrant():
		return "comes back", f.harmless
	}
	return "", ""
}
