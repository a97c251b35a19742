package trycaller

import (
	"cmp"
	_ "embed" // readings
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sluice-redis/sluice"
)

// timeline is a row of its own, or one of the vectors.
type timeline struct {
	Name, Cure string
	Steps      []step

	script string // of steps that have none
}

// step is a call, or a command of an operator.
type step struct {
	At                  int64 // on the clock of the vectors
	Command, Keys, Args []word
	Script, Error       string
	Reply               []json.Number // as it begins
}

const theVectors = "vectors and calls.json"

//go:embed readings.json
var readings string

// readings are what a caller may misread.
func (t *trial) readings() (all []timeline) {
	places := strings.NewReplacer("<prefix>", t.prefix, "<now>", fmt.Sprint(time.Now().UnixMicro()))
	t.must(json.Unmarshal([]byte(places.Replace(readings)), &all))
	return all
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
		begins := a.Reply[:min(len(s.Reply), len(a.Reply))]
		isReply := s.Error == "" && a.Kind == "reply" && a.wrong == "" && slices.Equal(begins, s.Reply)
		if row.Seen = a.String(); !isReply && (s.Error == "" || !a.isRefused(s.Error)) {
			row.Seen = fmt.Sprintf("%v from %s in step %d, want %v %s", a, script, i+1, s.Reply, s.Error)
			row.Cure = line.Cure
			break
		}
	}
	return []Row{row}
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
	t.startWell()
	t.calls(atOnce)
	needed := strings.Fields(strings.ToLower(strings.Join(sluice.ListLogV1().Commands, " ")))
	// They need no right, or are of replicas, or have reset the statistics.
	others := strings.Fields("hello auth quit reset replconf psync config config|resetstat")
	for _, n := range t.nodes[:min(masters, len(t.nodes))] {
		for _, found := range commandStat.FindAllStringSubmatch(n.rdb.Info(t.ctx, "commandstats").Val(), -1) {
			if !slices.Contains(slices.Concat(others, needed), found[1]) {
				needed = append(needed, found[1])
			}
		}
	}
	slices.Sort(needed)
	rules := "app on >secret resetchannels ~sluice:* +" + strings.Join(needed, " +")
	row := Row{"asks for little", "ACL SETUSER", rules, ""}
	if slices.Contains(needed, "eval") || slices.Contains(needed, "eval_ro") {
		row.Cure = "call EVALSHA: a helper for scripts that falls back to EVAL wants a right that runs any script"
	}
	if t.kind == ownServer {
		t.each("ACL", "SETUSER", "default", "reset", "on", "nopass", "~sluice:*")
		for _, name := range needed {
			t.each("ACL", "SETUSER", "default", word("+"+name))
		}
		t.start()
		if _, failed := t.untilGranted(); failed != nil {
			row.Cure = "it wants more: " + failed.String()
		}
		t.each("ACL", "SETUSER", "default", "~*", "&*", "+@all")
	}
	return []Row{row}
}

// playVectors plays the vectors in a folder, each on an empty server, with scripts that read the time from a key. It
// plays calls.json, too, of whose calls no reply is known: in a release it is elsewhere than in the repository.
func (t *trial) playVectors() []Row {
	timelines := 0
	folder, err := filepath.Abs(t.Vectors)
	t.must(err)
	t.scripts = filepath.Join(folder, "testclock")
	t.stop()
	t.setClock(time.Now().UnixMicro())
	t.startWell() // the first call of a program may take longer than it may last
	glob := func(pattern string) []string {
		files, _ := filepath.Glob(filepath.Join(folder, pattern))
		return files
	}
	for _, path := range slices.Concat(glob("*.json"), glob("../scripts/calls.json"), glob("../../scripts/calls.json")) {
		var file struct {
			Script    string
			Timelines []timeline
			Vectors   []step
		}
		text, err := os.ReadFile(path)
		t.must(errors.Join(err, json.Unmarshal(text, &file)))
		for _, call := range file.Vectors {
			if call.Script != "" { // else it is to be refused, before a call
				file.Timelines = append(file.Timelines, timeline{Name: "calls.json", Steps: []step{call}})
			}
		}
		for _, line := range file.Timelines {
			timelines++
			line.script = file.Script
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
