package trycaller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/faultproxy"
)

// reading is a call while all is well, whose reply a caller may misread.
type reading struct {
	property, tried, cure string

	script   sluice.Script
	subject  string
	args     []string // the fifth is a member that is stored then
	twice    bool     // the reply is the second call's
	holds    bool     // the key holds a text
	answered string   // by the proxy, in place of Redis

	begins  []integer // the reply; nil: it is an error
	refusal string    // the error has this text
}

func readings() []reading {
	list, zset, every := sluice.ListLogV1(), sluice.ZSetLogV1(), ""
	for b := range 128 {
		every += string([]byte{byte(255 - b)}) // without |, {, } and %
	}
	two, member := []string{"3", "3600000000", "2", "0"}, []string{"9", "3600000000", "1", "0"}
	const refusal = "an error reply is refused, with its text"
	all := []reading{
		{tried: "several permits", script: list, args: two, begins: []integer{2, 1, 0}, cure: "granted is above 0, not 1"},
		{tried: "a denial", script: list, args: two, twice: true, begins: []integer{0, 1},
			cure: "it is a reply, not an error: granted is 0"},
		{tried: "the error BADARG", script: list, args: []string{"0", "0", "0", "0"}, refusal: "BADARG limit", cure: refusal},
		{tried: "the error WRONGTYPE", script: list, args: two, holds: true, refusal: "WRONGTYPE", cure: refusal},
		{tried: "a binary key and id", script: zset, subject: "\x00\xff\n\"", args: append(member[:4:4], every),
			begins: []integer{1, 8, 0}, cure: "send keys and arguments as bytes"},
		{tried: "a number above 2^53", script: zset, args: append(member[:4:4], "9007199254740993"),
			begins: []integer{1, 8, 0}, cure: "send numbers as text or integers, not as floating point"},
	}
	for i := range all {
		all[i].property = ReadsRight
	}
	for _, text := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.", "READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.",
		"MISCONF Redis is configured to save RDB snapshots.", "NOPERM this user has no permissions to run the command",
	} {
		code, rest, _ := strings.Cut(text, " ") // some clients take off the code
		all = append(all, reading{property: TellsApart, tried: "the error reply " + code, cure: refusal,
			script: list, args: two, answered: text, refusal: rest})
	}
	return all
}

// read makes the call.
func (t *trial) read(r reading) error {
	if len(t.programs) == 0 {
		if err := t.startWell(); err != nil {
			return err
		}
	}
	key := fmt.Sprintf("%s-%d:{%s}:ll1", t.prefix, t.last+1, cmp.Or(r.subject, "reads"))
	if r.holds {
		t.each(t.ctx, "SET", key, "x", "EX", "3600")
	}
	if r.answered != "" {
		t.nodes[0].proxy.RefuseCalls(r.answered)
		defer t.nodes[0].proxy.Pass()
	}
	a := t.ask(t.request(r.script, []string{key}, r.args...))
	if r.twice {
		a = t.ask(t.request(r.script, []string{key}, r.args...))
	}
	row := Row{r.property, r.tried, "ok", ""}
	if !t.isRight(r, key, a) {
		row.Seen, row.Cure = a.String(), r.cure
	}
	t.report(row)
	return nil
}

// isRight reports whether an answer is what is wanted, and the id is stored as it was sent.
func (t *trial) isRight(r reading, key string, a answer) bool {
	if r.begins == nil {
		return a.Kind == refused && strings.Contains(a.Error, r.refusal)
	}
	if len(a.Reply) != 5 || !slices.Equal(a.Reply[:len(r.begins)], r.begins) || a.isMisread() {
		return false
	}
	now, err := t.nodes[0].rdb.Time(t.ctx).Result()
	if err != nil || now.Sub(time.UnixMicro(int64(a.Reply[4]))).Abs() > time.Minute {
		return false
	}
	return len(r.args) < 5 || slices.ContainsFunc(t.nodes, func(n *node) bool {
		return n.rdb.ZScore(t.ctx, key, r.args[4]).Err() == nil
	})
}

// theCommands is a row, beside ACL SETUSER.
const theCommands = "the commands of list_log"

// commandName finds a command, with the subcommand if it has one, in what is sent to Redis.
var commandName = regexp.MustCompile(`(?i)\*\d+\r\n\$\d+\r\n(` +
	`(?:acl|client|cluster|command|config|function|latency|memory|module|object|pubsub|script|slowlog)\r\n\$\d+\r\n\w+` +
	`|\w+)\r\n`)

var betweenWords = regexp.MustCompile(`\r\n\$\d+\r\n`)

// asks reports which commands COMMAND sends from its start on, and what an ACL must allow. On its own server it lets
// COMMAND do that and nothing else for a moment.
func (t *trial) asks() error {
	t.proxies((*faultproxy.Proxy).Record)
	if t.Redis == "" {
		t.each(t.ctx, "SCRIPT", "FLUSH")
	}
	if err := t.startWell(); err != nil {
		return err
	}
	t.calls(atOnce, "asks")
	var sent []string
	for _, n := range t.nodes {
		for _, requests := range n.proxy.Recorded() {
			for _, found := range commandName.FindAllStringSubmatch(requests, -1) {
				name := strings.ToLower(betweenWords.ReplaceAllString(found[1], "|"))
				if !slices.Contains([]string{"hello", "auth", "quit", "reset"}, name) { // need no right
					sent = append(sent, name)
				}
			}
		}
	}
	slices.Sort(sent)
	sent = slices.Compact(sent)
	row := Row{AsksLittle, theCommands, strings.Join(sent, " "), ""}
	if slices.Contains(sent, "eval") || slices.Contains(sent, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	for _, command := range sluice.ListLogV1().Commands {
		sent = append(sent, strings.ToLower(command))
	}
	slices.Sort(sent)
	known, err := t.nodes[0].known(t.ctx, slices.Compact(sent))
	if err != nil {
		return err
	}
	rules := "+" + strings.Join(known, " +")
	rights := Row{AsksLittle, "ACL SETUSER", "app on >secret resetchannels ~sluice:* " + rules, ""}
	if t.Redis == "" && !t.Cluster {
		if err := t.allowOnly("~sluice:* " + rules); err != nil {
			rights.Cure = err.Error()
		}
	}
	t.report(row)
	t.report(rights)
	return nil
}

// known returns the commands that a server knows: clients ask for newer ones too, and an ACL refuses their names. A
// server older than Redis 7.0 does not tell about subcommands.
func (n *node) known(ctx context.Context, names []string) ([]string, error) {
	const subcommand = "config|get"
	words := []any{"command", "info", subcommand}
	for _, name := range names {
		words = append(words, name)
	}
	infos, err := n.rdb.Do(ctx, words...).Slice()
	if err != nil {
		return nil, err
	}
	var known []string
	for i, name := range names {
		if infos[1+i] != nil || infos[0] == nil && strings.Contains(name, "|") {
			known = append(known, name)
		}
	}
	return known, nil
}

// allowOnly restricts COMMAND's user for a moment, in which it starts COMMAND again.
func (t *trial) allowOnly(rules string) error {
	set := func(rules string) error {
		words := []any{"ACL", "SETUSER", "default", "reset", "on", "nopass"}
		for rule := range strings.FieldsSeq(rules) {
			words = append(words, rule)
		}
		return t.nodes[0].rdb.Do(t.ctx, words...).Err()
	}
	if err := set(rules); err != nil {
		return err
	}
	err := t.startWell()
	return errors.Join(err, set("~* &* +@all"))
}
