package trycaller

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// read makes the call.
func (r reading) read(t *trial) error {
	if err := t.startWell(1); err != nil {
		return err
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
	row := Row{r.property, r.name, "ok", ""}
	if !r.isRight(t, key, a) {
		row.Seen, row.Cure = a.String(), r.cure
	}
	t.report(row)
	return nil
}

// isRight reports whether an answer is what is wanted, with the server's time, and the id is stored as it was sent.
func (r reading) isRight(t *trial, key string, a answer) bool {
	if !strings.HasPrefix(r.want, "reply") {
		return a.Kind == refused && strings.Contains(a.Error, r.want)
	}
	now, err := t.nodes[0].rdb.Time(t.ctx).Result()
	return err == nil && len(a.Reply) == 5 && strings.HasPrefix(a.String(), r.want) &&
		now.Sub(time.UnixMicro(int64(a.Reply[4]))).Abs() < time.Minute &&
		(len(r.args) < 5 || slices.ContainsFunc(t.nodes, func(n *node) bool {
			return n.rdb.ZScore(t.ctx, key, r.args[4]).Err() == nil
		}))
}

// theCommands is a row, beside ACL SETUSER.
const theCommands = "the commands of list_log"

// asks reports which commands COMMAND sends from its start on, and what an ACL must allow: what the servers execute
// meanwhile. On its own server it lets COMMAND do that and nothing else for a moment.
func (t *trial) asks() error {
	t.stop()
	if t.Redis == "" {
		t.each(t.ctx, "SCRIPT", "FLUSH")
	}
	before := t.executed()
	before["info"] += min(3, len(t.nodes)) // that is how executed asks
	if err := t.startWell(1); err != nil {
		return err
	}
	t.calls(atOnce, "asks")
	var sent []string
	needed := each(sluice.ListLogV1().Commands, strings.ToLower)
	for name, count := range t.executed() {
		if count > before[name] && !slices.Contains(needed, name) {
			sent = append(sent, name)
		}
	}
	needed = append(needed, sent...)
	slices.Sort(sent)
	slices.Sort(needed)
	row := Row{AsksLittle, theCommands, strings.Join(sent, " "), ""}
	if slices.Contains(sent, "eval") || slices.Contains(sent, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	rules := "~sluice:* +" + strings.Join(slices.Compact(needed), " +")
	rights := Row{AsksLittle, "ACL SETUSER", "app on >secret resetchannels " + rules, ""}
	if t.Redis == "" && !t.Cluster {
		if err := t.allowOnly(rules); err != nil {
			rights.Cure = err.Error()
		}
	}
	t.report(row)
	t.report(rights)
	return nil
}

// commandStat is a command that a server has executed: a subcommand has its own from Redis 7.0 on.
var commandStat = regexp.MustCompile(`(?m)^cmdstat_(\S+):calls=(\d+),`)

// executed counts the commands that the server has executed, or the masters of a cluster, without those that need no
// right and those of replicas.
func (t *trial) executed() map[string]int {
	counts := map[string]int{}
	for _, n := range t.nodes[:min(3, len(t.nodes))] {
		for _, found := range commandStat.FindAllStringSubmatch(n.rdb.Info(t.ctx, "commandstats").Val(), -1) {
			count, _ := strconv.Atoi(found[2])
			counts[found[1]] += count
		}
	}
	for _, name := range []string{"hello", "auth", "quit", "reset", "replconf", "psync"} {
		delete(counts, name)
	}
	return counts
}

// allowOnly restricts COMMAND's user for a moment, in which it starts COMMAND again.
func (t *trial) allowOnly(rules string) error {
	set := func(rules string) error {
		words := strings.Fields("ACL SETUSER default reset on nopass " + rules)
		return t.nodes[0].rdb.Do(t.ctx, each(words, anyOf)...).Err()
	}
	if err := set(rules); err != nil {
		return err
	}
	t.stop()
	err := t.startWell(1)
	return errors.Join(err, set("~* &* +@all"))
}
