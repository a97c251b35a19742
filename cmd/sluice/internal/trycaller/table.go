package trycaller

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluice-redis/sluice/internal/faultproxy"
)

// item is a row of the table.
type item struct {
	name string
	try  func(*trial) error
}

// items are all rows that the stand can try. The last one leaves a node of a cluster dead.
func (t *trial) items() (items []item) {
	kind := map[bool]string{true: "cluster", false: "server"}[t.Cluster]
	for _, r := range readings() {
		if r.answered == "" || !t.Cluster { // clients of a cluster follow some error replies
			items = append(items, item{r.name, r.read})
		}
	}
	if t.Vectors != "" && !t.Cluster {
		items = append(items, item{theVectors, (*trial).playVectors})
	}
	items = append(items, item{theCommands, (*trial).asks})
	for _, f := range faults(!t.Cluster) {
		if f.where == "" || t.Redis == "" && strings.Contains(f.where, kind) {
			items = append(items, item{f.name, f.meet})
		}
	}
	return items
}

// reading is a row: a call while all is well, whose reply a caller may misread.
type reading struct {
	property, name string

	script   string
	subject  string
	args     []string // the fifth is a member that is stored then
	twice    bool     // the answer is that to the second call
	holds    bool     // the key holds a text
	answered string   // by the proxy, in place of Redis

	want string // the answer begins with it
	cure string
}

func readings() []reading {
	every := ""
	for b := range 128 {
		every += string([]byte{byte(255 - b)}) // without |, {, } and %
	}
	const refusal, list, zset = "an error reply is refused, with its text", "list_log_v1", "zset_log_v1"
	two := []string{"3", "3600000000", "2", "0"}
	member := func(id string) []string { return []string{"9", "3600000000", "1", "0", id} }
	rows := []reading{
		{name: "several permits", script: list, args: two, want: "reply [2 1 0 ", cure: "granted is above 0, not 1"},
		{name: "a denial", script: list, args: two, twice: true, want: "reply [0 1 ",
			cure: "it is a reply, not an error: granted is 0"},
		{name: "the error BADARG", script: list, args: []string{"0", "0", "0", "0"}, want: "BADARG limit", cure: refusal},
		{name: "the error WRONGTYPE", script: list, args: two, holds: true, want: "WRONGTYPE", cure: refusal},
		{name: "a binary key and id", script: zset, subject: "\x00\xff\n\"", args: member(every), want: "reply [1 8 0 ",
			cure: "send keys and arguments as bytes"},
		{name: "a number above 2^53", script: zset, args: member("9007199254740993"), want: "reply [1 8 0 ",
			cure: "send numbers as text or integers, not as floating point"},
	}
	for i := range rows {
		rows[i].property = ReadsRight
	}
	for _, text := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots.", "NOPERM this user has no permissions to run the command",
	} {
		code, rest, _ := strings.Cut(text, " ") // some clients take off the code
		rows = append(rows, reading{property: TellsApart, name: "the error reply " + code, script: list, args: two,
			answered: text, want: rest, cure: refusal})
	}
	return rows
}

// fault is a row: what goes wrong while calls are made.
type fault struct {
	name     string
	where    string // server, cluster or both, of the trial's own; "": on any, also with --redis
	begin    func(*trial) (end func() error, err error)
	serial   int      // calls one by one; 0: 40 at once
	fresh    bool     // COMMAND is started anew when it has begun
	loses    bool     // the server may lose what it has charged
	mute     bool     // nothing that is sent to a caller has an error reply
	harmless string   // all calls are granted, or this cures it
	subject  []string // of all keys
}

type proxy = faultproxy.Proxy

// proxied is a fault of all proxies: one function after another.
func proxied(do ...func(*proxy)) func(*trial) (func() error, error) {
	return func(t *trial) (func() error, error) {
		for _, do := range do {
			t.proxies(do)
		}
		return t.pass, nil
	}
}

// faults are the rows. With calls one by one they come first: one program of COMMAND is enough.
func faults(mute bool) (rows []fault) {
	var together []fault
	silent := proxied((*proxy).Swallow)
	for _, f := range []fault{
		{name: "replies are lost", serial: atOnce, begin: proxied((*proxy).LoseReplies)},
		{name: "cut before it is sent", serial: atOnce, begin: proxied((*proxy).CutCalls)},
		{name: "silent at first", serial: 1, fresh: true, begin: silent},
		{name: "silent", serial: 1, begin: silent},
		{name: "silent again", serial: 2, begin: func(t *trial) (func() error, error) {
			_, _ = silent(t)
			t.calls(len(t.programs), "silent")
			_ = t.pass()
			_, _ = t.untilGranted(atOnce, backIn)
			return silent(t)
		}},
		{name: "connects hang", serial: 2, begin: proxied((*proxy).Stall, (*proxy).Disconnect)},
		{name: "connections are refused", serial: 5, begin: proxied((*proxy).Refuse, (*proxy).Disconnect)},
	} {
		f.mute = mute
		both := f
		f.name, both.name, both.serial = f.name+", one by one", f.name+", 40 at once", 0
		rows, together = append(rows, f), append(together, both)
	}
	return append(append(rows, together...),
		fault{name: "SCRIPT FLUSH", where: "server, cluster", begin: (*trial).flushScripts,
			harmless: "after NOSCRIPT send SCRIPT LOAD and EVALSHA again on that connection"},
		fault{name: "the server restarts", where: "server", loses: true, begin: func(t *trial) (func() error, error) {
			t.nodes[0].server.Kill()
			return t.nodes[0].server.Restart, nil
		}},
		fault{name: "one node is silent, 40 at once", where: "cluster", begin: func(t *trial) (func() error, error) {
			t.nodes[0].proxy.Swallow()
			return t.pass, nil
		}},
		fault{name: "a slot moves", where: "cluster", serial: atOnce, subject: []string{"mover"},
			harmless: "follow redirections: ASK by ASKING and the call on the node that it names, MOVED by the call there",
			begin:    func(t *trial) (func() error, error) { return t.moveSlot(t.ctx, "{mover}") }},
		fault{name: "a master dies, its replica takes over", where: "cluster", loses: true,
			begin: func(t *trial) (func() error, error) {
				t.masters(t.ctx)[0].server.Kill()
				return func() error { return t.awaitFailover(t.ctx) }, nil
			}},
	)
}

// meet makes calls while something is wrong, and reports what came of them.
func (f fault) meet(t *trial) error {
	limit, atOnceNow := t.Within, atOnce
	if f.serial > 0 {
		atOnceNow = 1
	}
	if err := t.startWell(atOnceNow); err != nil {
		return err
	}
	end, err := f.begin(t)
	if err != nil {
		return err
	}
	started := make(chan time.Duration, 1)
	if f.fresh {
		go t.awaitConnections(t.accepted()+int64(len(t.programs)), started)
		if err := t.start(len(t.programs)); err != nil {
			return err
		}
	}
	var answers []answer
	var keys []string
	for began := time.Now(); len(answers) < max(f.serial, atOnceNow) && time.Since(began) < 2*t.patience; {
		a, more := t.calls(atOnceNow, strings.ReplaceAll(f.name, " ", "-"), f.subject...)
		answers, keys = append(answers, a...), append(keys, more...)
	}
	select {
	case took := <-started:
		limit += took
	default:
	}
	if err := end(); err != nil {
		return err
	}
	back := Row{ComesBack, f.name, "", ""} // what a client sends again by then counts
	took, failed := t.untilGranted(atOnce, backIn, f.subject...)
	back.Seen = fmt.Sprintf("%.2f s", took.Seconds())
	if failed != nil {
		back.Seen = fmt.Sprint("not in ", backIn, ": ", failed)
		back.Cure = "after an error that is not an error reply close the connection, and let the next call open a new one"
	}
	if i := firstNotGranted(answers); f.harmless != "" && i >= 0 {
		back.Seen, back.Cure = answers[i].String(), f.harmless
	}
	charged, err := t.charged(t.ctx, keys)
	if err != nil {
		return err
	}
	t.report(append(f.count(answers, charged, limit), back)...)
	return nil
}

// count holds each answer against what the server has charged for its call, and looks for the slowest.
func (f fault) count(answers []answer, charged []int64, limit time.Duration) []Row {
	once, inTime, apart := Row{Property: ChargedOnce}, Row{Property: EndsInTime}, Row{Property: TellsApart}
	var permits, twice int64
	var slowest time.Duration
	kinds := map[string]int{}
	const misled = "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"
	for i, a := range answers {
		permits += charged[i]
		twice += min(1, charged[i]/2)
		slowest = max(slowest, a.took)
		kinds[a.Kind]++
		if a.Kind == noAnswer {
			inTime.Seen = " " + a.Error
		}
		nothingRan := a.Kind == refused || a.Kind == notSent
		switch {
		case a.wrong != "":
			apart.Seen = a.wrong
			apart.Cure = "a reply is Redis's to this call: after a timeout close the connection, its reply may come"
		case a.Kind == refused && f.mute:
			apart.Seen, apart.Cure = fmt.Sprintf("%v, and Redis answered nothing", a), misled
		case a.Kind == granted && charged[i] == 0 && !f.loses, nothingRan && charged[i] > 0:
			apart.Seen, apart.Cure = fmt.Sprintf("%v, and %d charged", a, charged[i]), misled
		}
	}
	once.Seen = fmt.Sprintf("%d of %d", permits, len(answers))
	if twice > 0 {
		once.Seen = fmt.Sprintf("%d of %d twice or more", twice, len(answers))
		once.Cure = "the client sends a call again when its reply is lost: switch off its retries and reconnects"
	}
	if inTime.Seen != "" || slowest > limit {
		inTime.Cure = "bound each: connecting, waiting for a connection of the pool, waiting for a reply. " +
			"If COMMAND takes one call at a time, say --processes"
	}
	inTime.Seen = fmt.Sprintf("%.2f s%s", slowest.Seconds(), inTime.Seen)
	if apart.Seen == "" {
		for _, kind := range []string{granted, refused, notSent, unknown, noAnswer} {
			if kinds[kind] > 0 {
				apart.Seen += fmt.Sprintf(", %d %s", kinds[kind], kind)
			}
		}
		apart.Seen = strings.TrimPrefix(apart.Seen, ", ")
	}
	once.Tried, inTime.Tried, apart.Tried = f.name, f.name, f.name
	return []Row{once, inTime, apart}
}
