package trycaller

import (
	"slices"
	"strings"
)

// row is something that is tried, on the kinds of stands of where.
type row struct {
	name, where string
	together    int // calls at once for which COMMAND is started
	try         func(*trial) []Row
}

const (
	alone      = theirServer + ownServer
	everywhere = alone + ownCluster
)

// The names of two rows.
const (
	theVectors = "vectors and calls.json"
	theRights  = "ACL SETUSER"
)

// table returns the rows of the stand that --only names: what is read, what is asked for, and faults. The last one
// leaves a node of a cluster dead. Calls one by one come first: one program of COMMAND is enough for them.
func (t *trial) table() (rows []row) {
	for _, line := range t.readings() {
		rows = append(rows, row{line.Name, everywhere, 1, func(t *trial) []Row { return []Row{line.play(t)} }})
	}
	if t.Vectors != "" {
		rows = append(rows, row{theVectors, ownServer, 0, (*trial).playVectors})
	}
	rows = append(rows, row{theRights, everywhere, 0, (*trial).asks})
	faults := errorReplies()
	for _, together := range []int{1, atOnce} {
		for _, f := range transport {
			f.name += map[int]string{1: ", one by one", atOnce: ", 40 at once"}[together]
			f.where, f.together = everywhere, together
			faults = append(faults, f)
		}
	}
	for _, f := range append(faults, servers...) {
		rows = append(rows, row{f.name, f.where, f.together, f.try})
	}
	return slices.DeleteFunc(rows, func(r row) bool {
		return !strings.Contains(r.where, t.kind) || !strings.Contains(r.name, t.Only)
	})
}

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
		for _, function := range functions {
			t.proxies(function)
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

// servers are the faults of servers.
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
		begin: (*trial).moveSlot, end: func(t *trial) error { return t.endMove() },
		harmless: "follow redirections: ASK by ASKING and the call on the node that it names, MOVED by the call there"},
	{name: "a master dies, its replica takes over", where: ownCluster, together: atOnce, loses: true,
		begin: (*trial).failOver, end: (*trial).awaitMasters},
}

// errorReplies are what the proxy answers. Clients of a cluster follow some.
func errorReplies() (faults []fault) {
	for _, text := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots.", "NOPERM this user has no permissions to run the command",
	} {
		code, rest, _ := strings.Cut(text, " ") // some clients take off the code
		faults = append(faults, fault{name: "the error reply " + code, where: alone, together: 1, refuses: rest,
			begin: do(func(p *proxy) { p.RefuseCalls(text) })})
	}
	return faults
}
