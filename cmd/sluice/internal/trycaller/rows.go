package trycaller

import (
	"cmp"
	_ "embed" // readings
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/localredis"
)

// timeline is a row of its own, or one of the vectors.
type timeline struct {
	Name, Cure, script string // script: of steps that have none
	Steps              []step
}

// step is a call, or a command of an operator.
type step struct {
	At                  int64 // on the clock of the vectors
	Command, Keys, Args []word
	Script, Error       string
	Reply               []json.Number // as it begins
}

// timelines are those of a file; each call of calls.json is one.
func (t *trial) timelines(text []byte, err error) []timeline {
	var file struct {
		Timelines []timeline
		Vectors   []step
	}
	t.must(cmp.Or(err, json.Unmarshal(text, &file)))
	for _, call := range file.Vectors {
		if call.Script != "" { // else a caller is to refuse it
			file.Timelines = append(file.Timelines, timeline{Name: "calls.json", Steps: []step{call}})
		}
	}
	return file.Timelines
}

//go:embed readings.json
var readings string

// readings are what a caller may misread.
func (t *trial) readings() []timeline {
	places := strings.NewReplacer("<prefix>", t.prefix, "<now>", fmt.Sprint(time.Now().UnixMicro()))
	return t.timelines([]byte(places.Replace(readings)), nil)
}

// try does the steps up to one whose answer is wrong.
func (line timeline) try(t *trial) []Row {
	row := Row{"reads right", line.Name, "", ""}
	for i, s := range line.Steps {
		if s.At > 0 {
			t.setClock(s.At)
		}
		if s.Command != nil {
			t.each(s.Command...)
			continue
		}
		script := cmp.Or(s.Script, line.script)
		a := t.programs[0].ask(t.request(script, s.Keys, s.Args...), t.patience)
		isReply := a.Kind == "reply" && slices.Equal(a.Reply[:min(len(a.Reply), len(s.Reply))], s.Reply)
		if row.Seen = a.String(); s.Error == "" && !isReply || s.Error != "" && !a.isError(s.Error) {
			want := cmp.Or(s.Error, fmt.Sprint("a reply that begins ", s.Reply))
			row.Seen = fmt.Sprintf("%v from %s in step %d, want %s", a, script, i+1, want)
			row.Cure = line.Cure
			break
		}
	}
	return []Row{row}
}

const theVectors = "vectors and calls.json"

// playVectors plays the vectors in a folder, each on an empty server, with scripts that read the time from a key. It
// plays calls.json, too, of whose calls no reply is known: in a release it is elsewhere than in the repository.
func (t *trial) playVectors() []Row {
	var texts map[string]string // of scripts that read the time from a key
	text, err := os.ReadFile(filepath.Join(t.Vectors, "testclock.json"))
	t.must(cmp.Or(err, json.Unmarshal(text, &texts)))
	t.writeScripts(texts)
	t.stop()
	t.setClock(time.Now().UnixMicro())
	t.startWell() // the first call of a program may take longer than it may last
	var paths []string
	for _, name := range []string{"*_v*.json", "../scripts/calls.json", "../../scripts/calls.json"} {
		found, _ := filepath.Glob(filepath.Join(t.Vectors, name))
		paths = append(paths, found...)
	}
	timelines := 0
	for _, path := range paths {
		for _, line := range t.timelines(os.ReadFile(path)) {
			timelines++
			line.script = strings.TrimSuffix(filepath.Base(path), ".json")
			line.Cure = "send KEYS and ARGV as they are; read the headers, and README.md beside the vectors"
			t.each("FLUSHALL")
			t.setClock(time.Now().UnixMicro())
			if row := line.try(t)[0]; row.Cure != "" {
				return []Row{{row.Property, theVectors, line.Name + ": " + row.Seen, row.Cure}}
			}
		}
	}
	return []Row{{"reads right", theVectors, fmt.Sprint(timelines, " timelines"), ""}}
}

func (t *trial) setClock(us int64) {
	t.each("HSET", "sluice:test:clock", "s", word(fmt.Sprint(us/1e6)), "us", word(fmt.Sprint(us%1e6)))
}

// asks reports what an ACL must allow: what COMMAND sends from its start on, and what the script calls.
func (t *trial) asks() []Row {
	t.stop()
	if t.kind != theirServer {
		t.each("SCRIPT", "FLUSH")
	}
	t.each("CONFIG", "RESETSTAT")
	t.startWell()
	t.calls(atOnce)
	needed := strings.Fields(strings.ToLower(strings.Join(sluice.ListLogV1().Commands, " ")))
	// They need no right, or are of replicas, or have reset the statistics.
	others := strings.Fields("hello auth quit reset replconf psync config config|resetstat")
	for _, n := range t.nodes[:min(masters, len(t.nodes))] {
		for stat := range n.rdb.InfoMap(t.ctx, "commandstats").Val()["Commandstats"] {
			name := strings.TrimPrefix(stat, "cmdstat_")
			if !slices.Contains(slices.Concat(others, needed), name) {
				needed = append(needed, name)
			}
		}
	}
	if t.Cluster { // while a slot moves
		needed = append(needed, "asking")
	}
	slices.Sort(needed)
	rules := "app on >secret resetchannels ~sluice:* +" + strings.Join(needed, " +")
	row := Row{"asks for little", "ACL SETUSER", rules, ""}
	if slices.Contains(needed, "eval") || slices.Contains(needed, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	return []Row{row}
}

// fault is a row: what goes wrong while calls are made.
type fault struct {
	name, where string
	begin       func(*trial) (end func() error) // nil: it ends when the proxies pass all
	together    int                             // calls at once
	calls       int                             // in all, if more
	fresh       bool                            // COMMAND is started anew when it has begun
	loses       bool                            // the server may lose what it has charged
	refuses     string                          // all calls are answered with an error of this text
	harmless    string                          // all calls are granted, or this cures it
}

// do begins a fault of all proxies: one function after another.
func do(functions ...func(*proxy)) func(*trial) func() error {
	return func(t *trial) func() error {
		for _, n := range t.nodes {
			for _, function := range functions {
				function(n.proxy)
			}
		}
		return nil
	}
}

// transport are the faults of all connections: with calls one by one, and 40 at once.
var transport = []fault{
	{name: "replies are lost", begin: do((*proxy).LoseReplies), calls: atOnce},
	{name: "cut before it is sent", begin: do((*proxy).CutCalls), calls: atOnce},
	{name: "silent at first", begin: do((*proxy).Swallow), fresh: true},
	{name: "silent", begin: do((*proxy).Swallow), calls: 2},
	{name: "replies are late", begin: do(func(p *proxy) { p.Delay(0, time.Hour) }), calls: 2}, // until the fault ends
	{name: "connects hang", begin: do((*proxy).Stall, (*proxy).Disconnect), calls: 2},
	{name: "connections are refused", begin: do((*proxy).Refuse, (*proxy).Disconnect), calls: 5},
}

// servers are the faults of servers. The last one leaves a node of a cluster dead.
var servers = []fault{
	{name: "SCRIPT FLUSH", where: ownServer + ownCluster, together: atOnce,
		begin:    func(t *trial) func() error { t.each("SCRIPT", "FLUSH"); return nil },
		harmless: "after NOSCRIPT send SCRIPT LOAD and EVALSHA again on that connection"},
	{name: "the server restarts", where: ownServer, together: atOnce, loses: true,
		begin: func(t *trial) func() error { t.nodes[0].server.Kill(); return t.nodes[0].server.Restart }},
	{name: "one node is silent, 40 at once", where: ownCluster, together: atOnce,
		begin: func(t *trial) func() error { t.nodes[0].proxy.Swallow(); return nil }},
	{name: "a slot moves", where: ownCluster, together: 1, calls: atOnce,
		begin:    func(t *trial) func() error { return localredis.MoveSlot(movingSlot, t.nodes[0].rdb, t.nodes[1].rdb) },
		harmless: "follow redirections: ASK by ASKING and the call on the node that it names, MOVED by the call there"},
	{name: "a master dies, its replica takes over", where: ownCluster, together: atOnce, loses: true,
		begin: func(t *trial) func() error {
			t.each("CONFIG", "SET", "cluster-node-timeout", "2000")
			t.nodes[0].server.Kill()
			replica := t.nodes[masters].rdb
			isMaster := func() bool { return strings.Contains(replica.Info(t.ctx, "replication").Val(), "role:master") }
			return func() error { return localredis.Await("a replica takes over", isMaster) }
		}},
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
			f.name, f.together = f.name+map[int]string{1: ", one by one", atOnce: ", 40 at once"}[together], together
			all = append(all, f)
		}
	}
	return append(all, servers...)
}

// try makes calls while something is wrong, and says what came of them.
func (f fault) try(t *trial) (rows []Row) {
	limit, end := t.Within, f.begin(t)
	if f.fresh {
		limit = t.patience
		t.start()
	}
	var answers []answer
	for began := time.Now(); len(answers) < max(f.calls, f.together) && time.Since(began) < t.patience; {
		answers = append(answers, t.calls(f.together)...)
	}
	if do((*proxy).Pass)(t); end != nil {
		t.must(end())
	}
	took, failed := t.untilGranted(backIn) // what a client sends again by then counts
	kinds, charged, slowest := map[string]int{}, int64(0), time.Duration(0)
	for i := range answers {
		a := &answers[i]
		for _, n := range t.nodes {
			a.charged += n.rdb.LLen(t.ctx, string(a.key)).Val() // 0 where the key is not
		}
		kinds[a.Kind]++
		charged += a.charged
		slowest = max(slowest, a.took)
	}
	tally := strings.TrimPrefix(fmt.Sprint(kinds), "map")
	seen := fmt.Sprintf("%s, %d charged, up to %.2f s", tally, charged, slowest.Seconds())
	for _, a := range answers {
		property, cure := f.judge(a, limit)
		if cure != "" && !slices.ContainsFunc(rows, func(r Row) bool { return r.Cure == cure }) {
			one := fmt.Sprintf("; one of them after %.2f s %v, %d charged", a.took.Seconds(), a, a.charged)
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
		return "ends in time", "bound each: connecting, waiting for a connection of the pool, or that another call makes, " +
			"waiting for a reply. If COMMAND takes one call at a time, say --processes"
	case nothingRan && a.charged > 0:
		return "tells apart", "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"
	case a.Kind == "wrong reply" || a.isGrant() && a.charged == 0 && !f.loses:
		return "tells apart", "a reply is Redis's to this call: after a timeout close the connection, its reply may come"
	case f.refuses != "" && !a.isError(f.refuses):
		return "tells apart", "an error reply is refused, with its text"
	case f.harmless != "" && !a.isGrant():
		return "comes back", f.harmless
	}
	return "", ""
}
