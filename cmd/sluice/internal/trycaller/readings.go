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
		if row.Seen = a.String(); !a.is(s.Error, s.Reply) {
			row.Seen = fmt.Sprintf("%v from %s in step %d, want %v %s", a, script, i+1, s.Reply, s.Error)
			row.Cure = line.Cure
			break
		}
	}
	return []Row{row}
}

// playVectors plays the vectors in a folder, each on an empty server, with scripts that read the time from a key. It
// plays calls.json, too, of whose calls no reply is known: in a release it is elsewhere than in the repository.
func (t *trial) playVectors() []Row {
	timelines := 0
	var texts map[string]string // of scripts that read the time from a key
	t.must(read(filepath.Join(t.Vectors, "testclock.json"), &texts))
	t.must(t.writeScripts(texts))
	t.stop()
	t.setClock(time.Now().UnixMicro())
	t.startWell() // the first call of a program may take longer than it may last
	glob := func(pattern string) []string {
		files, _ := filepath.Glob(filepath.Join(t.Vectors, pattern))
		return files
	}
	calls := slices.Concat(glob("../scripts/calls.json"), glob("../../scripts/calls.json"))
	for _, path := range append(glob("*_v*.json"), calls...) {
		var file struct {
			Script    string
			Timelines []timeline
			Vectors   []step
		}
		t.must(read(path, &file))
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

func read(path string, into any) error {
	text, err := os.ReadFile(path)
	return cmp.Or(err, json.Unmarshal(text, into))
}

func (t *trial) setClock(us int64) {
	t.each("HSET", "sluice:test:clock", "s", word(fmt.Sprint(us/1e6)), "us", word(fmt.Sprint(us%1e6)))
}
