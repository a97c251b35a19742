package trycaller

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// try makes calls while something is wrong, and says what came of them.
func (f fault) try(t *trial) []Row {
	limit := t.Within
	f.begin(t)
	if f.fresh {
		limit = t.patience
		t.start(len(t.programs))
	}
	var answers []answer
	for began := time.Now(); len(answers) < max(f.calls, f.together) && time.Since(began) < t.patience; {
		answers = append(answers, t.calls(f.together)...)
	}
	if t.proxies((*proxy).Pass); f.end != nil {
		t.must(f.end(t))
	}
	took, failed := t.untilGranted(atOnce, backIn) // what a client sends again by then counts
	t.count(answers)
	rows := f.judge(answers, limit)
	if failed != nil {
		rows = append(rows, Row{ComesBack, f.name, fmt.Sprint("not in ", backIn, ": ", failed),
			"after an error that is not an error reply close the connection, and let the next call open a new one"})
	}
	if len(rows) == 0 {
		rows = []Row{{"", f.name, fmt.Sprintf("%s; well in %.2f s", summary(answers), took.Seconds()), ""}}
	}
	return rows
}

// judge holds each answer against what the server has charged for its call, and returns a row for what is wrong.
func (f fault) judge(answers []answer, limit time.Duration) (rows []Row) {
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
			return nothingRan && a.charged > 0 || a.isGrant() && a.charged == 0 && !f.loses
		}, "only an error reply proves that nothing ran: a lost connection or a timeout is unknown"},
		{TellsApart, func(a answer) bool { return a.wrong != "" },
			"a reply is Redis's to this call: after a timeout close the connection, its reply may come"},
		{TellsApart, func(a answer) bool { return f.refuses != "" && !a.isRefused(f.refuses) },
			"an error reply is refused, with its text"},
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

// commandStat is a command that a server has executed: a subcommand has its own from Redis 7.0 on.
var commandStat = regexp.MustCompile(`(?m)^cmdstat_([^:]+):`)

// asks reports what an ACL must allow: what COMMAND sends from its start on, and what the script calls. On a server of
// its own COMMAND may do that and nothing else for a moment.
func (t *trial) asks() []Row {
	t.stop()
	if t.kind != theirServer {
		t.each("SCRIPT", "FLUSH")
	}
	t.each("CONFIG", "RESETSTAT")
	t.startWell(1)
	t.calls(atOnce)
	needed := strings.Fields(strings.ToLower(strings.Join(sluice.ListLogV1().Commands, " ")))
	// They need no right, or are of replicas, or have reset the statistics.
	others := strings.Fields("hello auth quit reset replconf psync config config|resetstat")
	for _, n := range t.masters() {
		for _, found := range commandStat.FindAllStringSubmatch(n.rdb.Info(t.ctx, "commandstats").Val(), -1) {
			if !slices.Contains(slices.Concat(others, needed), found[1]) {
				needed = append(needed, found[1])
			}
		}
	}
	slices.Sort(needed)
	rules := "~sluice:* +" + strings.Join(needed, " +")
	row := Row{AsksLittle, theRights, "app on >secret resetchannels " + rules, ""}
	if slices.Contains(needed, "eval") || slices.Contains(needed, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	if t.kind == ownServer {
		t.each("ACL", "SETUSER", "default", "reset", "on", "nopass", "~sluice:*")
		for _, name := range needed {
			t.each("ACL", "SETUSER", "default", word("+"+name))
		}
		t.start(1)
		if _, failed := t.untilGranted(1, backIn); failed != nil {
			row.Cure = "it wants more: " + failed.String()
		}
		t.each("ACL", "SETUSER", "default", "~*", "&*", "+@all")
	}
	return []Row{row}
}
