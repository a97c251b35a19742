package trycaller

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// try makes the call of a reading and judges its answer. The server's time in a reply shows whether numbers are whole.
func (r reading) try(t *trial) error {
	if err := t.startWell(1); err != nil {
		return err
	}
	key := fmt.Sprintf("%s-%d:{%s}:x", t.prefix, t.last, r.subject)
	for _, words := range r.before {
		t.each(each(words, strings.NewReplacer("<key>", key).Replace)...)
	}
	if r.answered != "" {
		t.nodes[0].proxy.RefuseCalls(r.answered)
		defer t.nodes[0].proxy.Pass()
	}
	a := t.programs[0].ask(t.request(r.script, []string{key}, r.args...), t.patience)
	now, err := t.nodes[0].rdb.Time(t.ctx).Result()
	if err != nil {
		return err
	}
	row := Row{r.property, r.name, a.String(), ""}
	if !a.is(r.want) || a.Reply != nil && now.Sub(time.UnixMicro(a.number(4))).Abs() > time.Minute {
		row.Cure = r.cure
	}
	t.report(row)
	return nil
}

// try makes calls while something is wrong, and reports what came of them.
func (f fault) try(t *trial) error {
	limit, together := t.Within, atOnce
	if f.serial > 0 {
		together = 1
	}
	if err := t.startWell(together); err != nil {
		return err
	}
	end := f.begin(t)
	if f.fresh {
		limit += t.startup
		if err := t.start(len(t.programs)); err != nil {
			return err
		}
	}
	var answers []answer
	for began := time.Now(); len(answers) < max(f.serial, together) && time.Since(began) < t.patience; {
		answers = append(answers, t.calls(together, strings.ReplaceAll(f.name, " ", "-"))...)
	}
	if t.proxies((*proxy).Pass); end != nil {
		if err := end(); err != nil {
			return err
		}
	}
	took, failed := t.untilGranted(atOnce, backIn) // what a client sends again by then counts
	if err := t.count(answers); err != nil {
		return err
	}
	rows := f.judge(answers, limit, t.kind)
	if failed != nil {
		rows = append(rows, Row{ComesBack, f.name, fmt.Sprint("not in ", backIn, ": ", failed),
			"after an error that is not an error reply close the connection, and let the next call open a new one"})
	}
	if len(rows) == 0 {
		rows = []Row{{"", f.name, fmt.Sprintf("%s; well in %.2f s", summary(answers), took.Seconds()), ""}}
	}
	for _, row := range rows {
		t.report(row)
	}
	return nil
}

// judge holds each answer against what the server has charged for its call, and returns a row for what is wrong.
func (f fault) judge(answers []answer, limit time.Duration, kind string) (rows []Row) {
	// A cluster answers with redirections, a server that starts with LOADING.
	mute := kind != ownCluster && !f.loses
	for _, check := range []struct {
		property string
		wrong    func(answer) bool
		cure     string
	}{
		{ChargedOnce, func(a answer) bool { return a.charged > 1 },
			"the client sends a call again when its reply is lost: switch off its retries and reconnects"},
		{EndsInTime, func(a answer) bool { return a.took > limit || a.Kind == noAnswer },
			"bound each: connecting, waiting for a connection of the pool, waiting for a reply. " +
				"If COMMAND takes one call at a time, say --processes"},
		{TellsApart, func(a answer) bool {
			nothingRan := a.Kind == refused || a.Kind == notSent
			return nothingRan && (a.charged > 0 || mute && a.Kind == refused) ||
				a.Kind == granted && a.charged == 0 && !f.loses
		}, "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"},
		{TellsApart, func(a answer) bool { return a.wrong != "" },
			"a reply is Redis's to this call: after a timeout close the connection, its reply may come"},
		{ComesBack, func(a answer) bool { return f.harmless != "" && !a.isGrant() }, f.harmless},
	} {
		wrong := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return !check.wrong(a) })
		if len(wrong) > 0 {
			seen := fmt.Sprintf("%d of %d: in %.2f s %v, and %d charged", len(wrong), len(answers),
				wrong[0].took.Seconds(), wrong[0], wrong[0].charged)
			rows = append(rows, Row{check.property, f.name, seen, check.cure})
		}
	}
	return rows
}

// summary is how many answers there were of each kind, and what was charged.
func summary(answers []answer) string {
	var charged int64
	var slowest time.Duration
	kinds := map[string]int{}
	for _, a := range answers {
		charged += a.charged
		slowest = max(slowest, a.took)
		kinds[a.Kind]++
	}
	of := strings.TrimPrefix(fmt.Sprint(kinds), "map")
	return fmt.Sprintf("%s, %d charged, in %.2f s", of, charged, slowest.Seconds())
}

// theCommands is a row, beside ACL SETUSER.
const theCommands = "the commands of list_log"

// asks reports which commands COMMAND sends from its start on, and what an ACL must allow: what the servers execute
// meanwhile. On its own server it lets COMMAND do that and nothing else for a moment.
func (t *trial) asks() error {
	t.stop()
	masters := t.masters()
	if t.kind != theirServer {
		t.each("SCRIPT", "FLUSH")
	}
	t.each("CONFIG", "RESETSTAT")
	if err := t.startWell(1); err != nil {
		return err
	}
	t.calls(atOnce, "asks")
	var sent []string
	needed := each(sluice.ListLogV1().Commands, strings.ToLower)
	for _, n := range masters {
		for _, name := range executed(n.rdb.Info(t.ctx, "commandstats").Val()) {
			if !slices.Contains(needed, name) {
				sent, needed = append(sent, name), append(needed, name)
			}
		}
	}
	slices.Sort(sent)
	slices.Sort(needed)
	row := Row{AsksLittle, theCommands, strings.Join(sent, " "), ""}
	if slices.Contains(sent, "eval") || slices.Contains(sent, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	rules := "~sluice:* +" + strings.Join(needed, " +")
	rights := Row{AsksLittle, "ACL SETUSER", "app on >secret resetchannels " + rules, ""}
	if t.kind == ownServer {
		if err := t.withRights(rules); err != nil {
			rights.Cure = err.Error()
		}
	}
	t.report(row)
	t.report(rights)
	return nil
}

// commandStat is a command that a server has executed: a subcommand has its own from Redis 7.0 on.
var commandStat = regexp.MustCompile(`(?m)^cmdstat_([^:]+):`)

// executed returns the commands in INFO commandstats, without those that need no right, those of replicas and the one
// that has reset the statistics.
func executed(info string) (names []string) {
	others := strings.Fields("hello auth quit reset replconf psync config config|resetstat")
	for _, found := range commandStat.FindAllStringSubmatch(info, -1) {
		if !slices.Contains(others, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// withRights starts COMMAND anew while its user has no other rights.
func (t *trial) withRights(rules string) error {
	t.stop()
	t.each(strings.Fields("ACL SETUSER default reset on nopass " + rules)...)
	defer t.each("ACL", "SETUSER", "default", "~*", "&*", "+@all")
	return t.startWell(1)
}
