package scripttest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-redis/sluice"
	"github.com/sluice-redis/sluice/internal/model"
	"github.com/sluice-redis/sluice/internal/redistest"
)

var updateVectors = flag.Bool("update", false, "write vectors/*.json")

// The vectors are the timelines of the tables, with the model's answers; so the tables say what the model says.
func TestVectorsAreCurrent(t *testing.T) {
	for _, tab := range tables {
		path := vectorPath(tab.script)
		want := written(tab.vectors(t))
		if *updateVectors {
			if err := os.WriteFile(path, want, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the model says (%v)\ncure: make vectors", path, err)
		}
	}
}

func TestVectors(t *testing.T) {
	eachVector(t, func(t *testing.T, script *sluice.Script, tl vectorTimeline) {
		h := startHarness(t, true)
		tl.play(t, h, script, h.expires)
	})
}

func TestServerVectors(t *testing.T) {
	eachServer(t, func(t *testing.T, server *redistest.Server) {
		eachVector(t, func(t *testing.T, script *sluice.Script, tl vectorTimeline) {
			on := startModelServer(t, server.Addr)
			on.reset(false)
			tl.play(t, on, script, nil)
		})
	})
}

// eachVector reads the files, so that what runs is what others run.
func eachVector(t *testing.T, test func(t *testing.T, script *sluice.Script, tl vectorTimeline)) {
	for _, script := range sluice.All() {
		for _, tl := range readVectors(t, &script).Timelines {
			t.Run(script.Name+"/"+tl.Name, func(t *testing.T) { test(t, &script, tl) })
		}
	}
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
}

// play runs a timeline and compares every reply, and what every key of a state holds. expires says when a key does,
// where that can be known.
func (tl vectorTimeline) play(t *testing.T, on vectorTarget, script *sluice.Script, expires func(key string) int64) {
	holds := map[string]*vectorValue{}
	for i, step := range tl.Steps {
		on.setTime(step.At)
		if step.Command != nil {
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
			if value != nil && expires != nil && expires(key) != value.Expires {
				t.Errorf("step %d: %s expires at %d, want %d", i+1, key, expires(key), value.Expires)
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

func scriptOf(t *testing.T, id string) *sluice.Script {
	for _, script := range sluice.All() {
		if script.File == id+".lua" {
			return &script
		}
	}
	t.Fatalf("no script %s", id)
	return nil
}

// expires is the millisecond at which a key expires that does not yet; 0 if it does not.
func (h *harness) expires(key string) int64 {
	ttl, _ := h.raw("PTTL", key)
	if ms := ttl.(int64); ms >= 0 {
		return h.redis.Now()/1000 + ms
	}
	return 0
}

// forever is the value without when it expires.
func (v *vectorValue) forever() *vectorValue {
	if v == nil {
		return nil
	}
	stays := *v
	stays.Expires = 0
	return &stays
}

// vectors are a table's timelines, answered by the model, and its malformed calls.
func (tab table) vectors(t *testing.T) vectorFile {
	file := vectorFile{Script: strings.TrimSuffix(tab.script.File, ".lua")}
	for _, tl := range tab.timelines {
		file.Timelines = append(file.Timelines, tab.vector(t, tl))
	}
	return vectorFile{file.Script, append(file.Timelines, tab.malformedVector())}
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
		step, after := vectorStep{}, store
		switch {
		case isCommand && reads(command):
			continue
		case isCommand:
			step, after = tab.vectorCommand(t, store, now, command)
		default:
			called, do := tab.called(l.do)
			args := called.arguments(do)
			outcome := chosen(model.Call(called.script, store, now, called.keys, args), store, l.want)
			if outcome.Any {
				return made
			}
			if got, ok := called.compare(outcome.Reply, l.want, now); outcome.Err != l.want && !ok {
				t.Errorf("%s, %s: the model says %s %s, the timeline %s", tl.name, l.do, got, outcome.Err, l.want)
			}
			step, after = vectorCall(now, called.keys, args, outcome), outcome.After
			if called.script != tab.script {
				step.Script = strings.TrimSuffix(called.script.File, ".lua")
			}
		}
		step.State = changes(store, after)
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
	if err != nil {
		t.Fatal(err)
	}
	return vectorStep{At: now, Command: eachRune(words)}, after
}

// chosen is the outcome where the model leaves a script the choice: to read what is unreadable, or not to.
func chosen(outcome model.Outcome, before model.Store, want string) model.Outcome {
	if outcome.Or != "" && outcome.Or == want {
		return model.Outcome{Err: outcome.Or, After: before}
	}
	return outcome
}

func vectorCall(now int64, keys, args []string, outcome model.Outcome) vectorStep {
	return vectorStep{At: now, Keys: eachRune(keys), Args: eachRune(args), Reply: outcome.Reply, Error: outcome.Err}
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

// changes are the keys that hold something else than before.
func changes(before, after model.Store) map[string]*vectorValue {
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
		}
	}
	return changed
}
