package trycaller

import (
	"strings"

	"github.com/sluice-redis/sluice"
)

// row is something that is tried, on the kinds of stands of where.
type row struct {
	name, where string
	try         func(*trial) error
}

// table returns all rows: what is read, what is asked for, and faults. The last one leaves a node of a cluster dead.
// Faults of calls one by one come first: one program of COMMAND is enough for them.
func table(vectors string) (rows []row) {
	everywhere := theirServer + ownServer + ownCluster
	for _, r := range readings() {
		rows = append(rows, row{r.name, everywhere, r.try})
	}
	for _, r := range errorReplies() { // clients of a cluster follow some
		rows = append(rows, row{r.name, theirServer + ownServer, r.try})
	}
	if vectors != "" {
		rows = append(rows, row{theVectors, ownServer, (*trial).playVectors})
	}
	rows = append(rows, row{theCommands, everywhere, (*trial).asks})
	for _, f := range transport {
		f.name += ", one by one"
		rows = append(rows, row{f.name, everywhere, f.try})
	}
	for _, f := range transport {
		f.name, f.serial = f.name+", 40 at once", 0
		rows = append(rows, row{f.name, everywhere, f.try})
	}
	for _, f := range servers {
		rows = append(rows, row{f.name, f.where, f.try})
	}
	return rows
}

// reading is a row: a call while all is well, whose reply a caller may misread.
type reading struct {
	property, name string

	script   string
	subject  string
	args     []string
	before   [][]string // commands of the stand
	answered string     // by the proxy, in place of Redis

	want string // of answer.is
	cure string
}

func readings() []reading {
	every := ""
	for b := range 128 {
		every += string([]byte{byte(255 - b)}) // without |, {, } and %
	}
	const list, zset = "list_log_v1", "zset_log_v1"
	two := []string{"3", "3600000000", "2", "0"}
	member := func(id string) []string { return []string{"9", "3600000000", "1", "0", id} }
	// Two ids are there already. A call of one of them is granted and changes nothing: 7 remain.
	stored := func(id string) [][]string {
		return [][]string{eval(sluice.ZSetLogV1(), member("a")), eval(sluice.ZSetLogV1(), member(id))}
	}
	const large = "9007199254740993"
	return []reading{
		{ReadsRight, "several permits", list, "reads", two, nil, "", "reply [2 1 0 ", "granted is above 0, not 1"},
		{ReadsRight, "a denial", list, "reads", two, [][]string{eval(sluice.ListLogV1(), two)}, "", "reply [0 1 ",
			"it is a reply, not an error: granted is 0"},
		{ReadsRight, "the error BADARG", list, "reads", []string{"0", "0", "0", "0"}, nil, "", "BADARG limit", refusal},
		{ReadsRight, "the error WRONGTYPE", list, "reads", two, [][]string{{"SET", "<key>", "x", "EX", "3600"}}, "",
			"WRONGTYPE", refusal},
		{ReadsRight, "a binary key and id", zset, "\x00\xff\n\"", member(every), stored(every), "", "reply [1 7 0 ",
			"send keys and arguments as bytes"},
		{ReadsRight, "a number above 2^53", zset, "reads", member(large), stored(large), "", "reply [1 7 0 ",
			"send numbers as text or integers, not as floating point"},
	}
}

const refusal = "an error reply is refused, with its text"

// eval is a command that calls a script.
func eval(script sluice.Script, args []string) []string {
	return append([]string{"EVAL", script.Source, "1", "<key>"}, args...)
}

func errorReplies() (rows []reading) {
	for _, text := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots.", "NOPERM this user has no permissions to run the command",
	} {
		code, rest, _ := strings.Cut(text, " ") // some clients take off the code
		args := []string{"3", "3600000000", "1", "0"}
		rows = append(rows, reading{TellsApart, "the error reply " + code, "list_log_v1", "reads", args, nil, text,
			rest, refusal})
	}
	return rows
}

// fault is a row: what goes wrong while calls are made.
type fault struct {
	name, where string
	begin       func(*trial) (end func() error) // nil: the proxies pass all, and that is the end
	serial      int                             // calls one by one; 0: 40 at once
	fresh       bool                            // COMMAND is started anew when it has begun
	loses       bool                            // the server may lose what it has charged
	harmless    string                          // all calls are granted, or this cures it
}

// do is a fault of all proxies: one function after another.
func do(functions ...func(*proxy)) func(*trial) (end func() error) {
	return func(t *trial) func() error {
		for _, function := range functions {
			t.proxies(function)
		}
		return nil
	}
}

// transport are the faults of all connections: with calls one by one, and 40 at once.
var transport = []fault{
	{name: "replies are lost", begin: do((*proxy).LoseReplies), serial: atOnce},
	{name: "cut before it is sent", begin: do((*proxy).CutCalls), serial: atOnce},
	{name: "silent at first", begin: do((*proxy).Swallow), serial: 1, fresh: true},
	{name: "silent", begin: do((*proxy).Swallow), serial: 2},
	{name: "connects hang", begin: do((*proxy).Stall, (*proxy).Disconnect), serial: 2},
	{name: "connections are refused", begin: do((*proxy).Refuse, (*proxy).Disconnect), serial: 5},
}

// servers are the faults of servers, with 40 calls at once.
var servers = []fault{
	{name: "SCRIPT FLUSH", where: ownServer + ownCluster, begin: func(t *trial) func() error {
		t.each("SCRIPT", "FLUSH")
		return nil
	}, harmless: "after NOSCRIPT send SCRIPT LOAD and EVALSHA again on that connection"},
	{name: "the server restarts", where: ownServer, loses: true, begin: func(t *trial) func() error {
		t.nodes[0].server.Kill()
		return t.nodes[0].server.Restart
	}},
	{name: "one node is silent, 40 at once", where: ownCluster, begin: func(t *trial) func() error {
		t.nodes[0].proxy.Swallow()
		return nil
	}},
	{name: "a slot moves", where: ownCluster, begin: (*trial).moveSlot, serial: atOnce,
		harmless: "follow redirections: ASK by ASKING and the call on the node that it names, MOVED by the call there"},
	{name: "a master dies, its replica takes over", where: ownCluster, loses: true, begin: (*trial).failOver},
}
