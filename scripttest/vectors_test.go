package scripttest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/proof/model"
	"github.com/sluice-redis/sluice/internal/proof/redistest"
)

var updateVectors = flag.Bool("update", false, "write vectors/*.json")

// The vectors are the timelines of the tables, with the model's answers; so the tables say what the model says.
func TestVectorsAreCurrent(t *testing.T) {
	files := map[string][]byte{"vectors/testclock.json": testClock}
	for _, tab := range tables {
		files[vectorPath(tab.script)] = written(tab.vectors(t))
	}
	files["vectors/SHA256SUMS"] = vectorSums(files)
	for path, want := range files {
		if *updateVectors {
			must(t, os.WriteFile(path, want, 0o644))
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the model and the scripts say (%v)\ncure: make vectors", path, err)
		}
	}
}

// vectorSums is what sha256sum prints in vectors.
func vectorSums(files map[string][]byte) []byte {
	var sums bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(files[path]), strings.TrimPrefix(path, "vectors/"))
	}
	return sums.Bytes()
}

func TestServerVectors(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		eachVector(t, func(t *testing.T, script *sluice.Script, tl vectorTimeline) {
			on := startModelServer(t, server.Addr)
			on.reset(false)
			tl.play(t, on, script)
		})
	})
}

// eachVector reads the files, so that what runs is what others run. Those that a script for many keys repeats of the
// script for one are in no file: they are made here.
func eachVector(t *testing.T, test func(t *testing.T, script *sluice.Script, tl vectorTimeline)) {
	eachTable(t, func(t *testing.T, tab table) {
		timelines := readVectors(t, tab.script).Timelines
		for _, tl := range tab.timelines[:tab.repeated] {
			timelines = append(timelines, tab.vector(t, tl))
		}
		for _, tl := range timelines {
			t.Run(tl.Name, func(t *testing.T) { test(t, tab.script, tl) })
		}
	})
}

func readVectors(t *testing.T, script *sluice.Script) (file vectorFile) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, vectorPath(script))), &file); err != nil {
		t.Fatalf("%s: %v", vectorPath(script), err)
	}
	return file
}

// vectorTarget is a target whose keys can be read.
type vectorTarget interface {
	target
	reader
	// expires is the millisecond at which a key expires, 0 if it does not. Where it counts by the server's clock, it is
	// what is wanted.
	expires(key string, want *vectorValue) int64
}

// play runs a timeline and compares every reply, and what every key of a state holds.
func (tl vectorTimeline) play(t *testing.T, on vectorTarget, script *sluice.Script) {
	holds := map[string]*vectorValue{}
	for i, step := range tl.Steps {
		on.setTime(step.At)
		if step.wantHex(t); step.Command != nil {
			on.do(eachByte(step.Command)...)
		} else {
			keys, args, called := eachByte(step.Keys), eachByte(step.Args), script
			if step.Script != "" {
				called = scriptOf(t, step.Script)
			}
			reply, failed := on.call(called, looks(called, args), keys, args)
			if failed != step.Error || !slices.Equal(reply, step.Reply) {
				t.Errorf("step %d, %q: got %v %q, want %v %q", i+1, args, reply, failed, step.Reply, step.Error)
			}
		}
		for key, value := range step.State {
			if value == nil {
				continue
			}
			if got := on.expires(bytesOf(key), value); got != value.Expires {
				t.Errorf("step %d: %s expires at %d, want %d", i+1, key, got, value.Expires)
			}
		}
		maps.Copy(holds, step.State)
		for key, value := range holds {
			if got, want := encoded(vectorValueOf(stored(on, bytesOf(key), ""))), encoded(value.forever()); got != want {
				t.Errorf("step %d: %s holds %s, want %s", i+1, key, got, want)
			}
		}
	}
}

// wantHex compares the bytes in hexadecimal with the text beside them.
func (s vectorStep) wantHex(t *testing.T) {
	t.Helper()
	if got := hexOf(eachByte(s.Args)...); !slices.Equal(got, s.ArgsHex) {
		t.Errorf("args %q: args_hex is %q, want %q", s.Args, s.ArgsHex, got)
	}
	if got := hexOf(eachByte(s.Command)...); !slices.Equal(got, s.CommandHex) {
		t.Errorf("command %q: command_hex is %q, want %q", s.Command, s.CommandHex, got)
	}
}

func scriptOf(t *testing.T, id string) *sluice.Script {
	for _, script := range sluice.All() {
		if script.File == id+".lua" {
			return &script
		}
	}
	t.Fatalf("no script %s", id)
	return nil
}

func (m modelServer) expires(key string, want *vectorValue) int64 {
	if want.Relative {
		return want.Expires
	}
	reply, _ := m.raw("PEXPIRETIME", key)
	ms, _ := reply.(int64)
	return max(ms, 0)
}

// forever is the value without when it expires.
func (v *vectorValue) forever() *vectorValue {
	if v == nil {
		return nil
	}
	stays := *v
	stays.Expires, stays.Relative = 0, false
	return &stays
}

// vectors are a table's own timelines, answered by the model, and its malformed calls.
func (tab table) vectors(t *testing.T) vectorFile {
	file := vectorFile{Format: 1, Script: strings.TrimSuffix(tab.script.File, ".lua")}
	for _, tl := range tab.timelines[tab.repeated:] {
		file.Timelines = append(file.Timelines, tab.vector(t, tl))
	}
	file.Timelines = append(file.Timelines, tab.malformedVector())
	return file
}

// vector is a timeline, up to where the model does not say what follows.
func (tab table) vector(t *testing.T, tl timeline) vectorTimeline {
	made := vectorTimeline{Name: tl.name}
	store, now := model.Store{}, int64(epoch)
	for _, l := range tl.lines {
		if l.at != "" {
			now = epoch + microseconds(l.at)
		}
		command, isCommand := strings.CutPrefix(l.do, "!")
		step, after, relative := vectorStep{}, store, isCommand
		switch {
		case isCommand && reads(command):
			continue
		case isCommand:
			step, after = tab.vectorCommand(t, store, now, command)
		default:
			called, do := tab.called(l.do)
			args := called.arguments(do)
			outcome := chosen(model.Call(called.script, store, now, called.keysOf(args), args), store, l.want)
			if outcome.Any {
				return made
			}
			if got, ok := called.compare(outcome.Reply, l.want, now); outcome.Err != l.want && !ok {
				t.Errorf("%s, %s: the model says %s %s, the timeline %s", tl.name, l.do, got, outcome.Err, l.want)
			}
			step, after = vectorCall(now, called.keysOf(args), args, outcome), outcome.After
			relative = strings.HasSuffix(called.script.Name, "_return")
			if called.script != tab.script {
				step.Script = strings.TrimSuffix(called.script.File, ".lua")
			}
		}
		step.State = changes(store, after, relative)
		made.Steps, store = append(made.Steps, step), after
	}
	return made
}

// reads reports whether a command of a timeline only looks.
func reads(command string) bool {
	name, _, _ := strings.Cut(command, " ")
	return slices.Contains([]string{"EXISTS", "GET", "GETRANGE", "HMGET", "LINDEX", "LLEN", "LRANGE", "PTTL", "STRLEN",
		"ZCARD", "ZRANGE", "ZSCORE"}, name)
}

func (tab table) vectorCommand(t *testing.T, store model.Store, now int64, command string) (vectorStep, model.Store) {
	words := tab.commandWords(command)
	after, err := store.Do(now, words...)
	must(t, err)
	step := vectorStep{At: now, Command: eachRune(words), CommandHex: hexOf(words...), Keys: []string{}, Args: []string{}}
	return step, after
}

// chosen is the outcome where the model leaves a script the choice: to read what is unreadable, or not to.
func chosen(outcome model.Outcome, before model.Store, want string) model.Outcome {
	if outcome.Or != "" && strings.HasPrefix(want, outcome.Or) {
		return model.Outcome{Err: want, After: before}
	}
	return outcome
}

func vectorCall(now int64, keys, args []string, outcome model.Outcome) vectorStep {
	return vectorStep{At: now, Keys: eachRune(keys), Args: eachRune(args), ArgsHex: hexOf(args...),
		Reply: outcome.Reply, Error: outcome.Err}
}

// malformedVector has of the malformed calls the first and the last that are refused for the same thing.
func (tab table) malformedVector() vectorTimeline {
	made := vectorTimeline{Name: "malformed calls"}
	chosen := map[string][2]int{}
	calls := tab.malformedCalls()
	for i, m := range calls {
		if first, ok := chosen[m.want]; ok {
			chosen[m.want] = [2]int{first[0], i}
		} else {
			chosen[m.want] = [2]int{i, i}
		}
	}
	for i, m := range calls {
		if i == chosen[m.want][0] || i == chosen[m.want][1] {
			outcome := model.Call(tab.script, model.Store{}, epoch, m.keys, m.args)
			made.Steps = append(made.Steps, vectorCall(epoch, m.keys, m.args, outcome))
		}
	}
	return made
}

// changes are the keys that hold something else than before. Relative says that new expiries count by the server's
// clock, as those of strings always do.
func changes(before, after model.Store, relative bool) map[string]*vectorValue {
	changed := map[string]*vectorValue{}
	for key := range before {
		if _, there := after[key]; !there {
			changed[runesOf(key)] = nil
		}
	}
	for key, value := range after {
		if old := before[key]; value.String() != old.String() || value.Expires != old.Expires {
			changed[runesOf(key)] = vectorValueOf(value)
			changed[runesOf(key)].Expires = value.Expires
			changed[runesOf(key)].Relative = value.Expires > 0 && (relative || value.Type == "string")
		}
	}
	return changed
}
