package trycaller

import (
	"cmp"
	_ "embed" // readings
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
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

//go:embed readings.json
var readings string

// readings are what a caller may misread while all is well.
func (t *trial) readings() (all []timeline) {
	places := strings.NewReplacer("<prefix>", t.prefix, "<now>", fmt.Sprint(time.Now().UnixMicro()))
	t.must(json.Unmarshal([]byte(places.Replace(readings)), &all))
	return all
}

// play does the steps of a timeline, up to one whose answer is wrong.
func (line timeline) play(t *trial) Row {
	row := Row{ReadsRight, line.Name, "", ""}
	for i, s := range line.Steps {
		if s.At > 0 {
			t.setClock(s.At)
		}
		script := cmp.Or(s.Script, line.script)
		if s.Command != nil {
			t.each(s.Command...)
		}
		if s.Command != nil || script == "" { // such a call of calls.json is to be refused before it is sent
			continue
		}
		a := t.programs[0].ask(t.request(script, s.Keys, s.Args...), t.patience)
		row.Seen = a.String()
		if !s.wants(a) {
			row.Seen = fmt.Sprintf("%v from %s in step %d, want %v %s", a, script, i+1, s.Reply, s.Error)
			row.Cure = line.Cure
			break
		}
	}
	return row
}

// wants reports whether an answer is the one of the step.
func (s step) wants(a answer) bool {
	if s.Error != "" {
		return a.isRefused(s.Error)
	}
	return a.Kind == replied && a.wrong == "" && slices.Equal(a.Reply[:min(len(s.Reply), len(a.Reply))], s.Reply)
}

// playVectors plays all timelines with the scripts that read the time from a key, each on an empty server.
func (t *trial) playVectors() []Row {
	timelines, err := readTimelines(t.Vectors)
	t.must(err)
	defer func(scripts string) {
		t.scripts = scripts
		t.stop()
	}(t.scripts)
	t.scripts, err = filepath.Abs(filepath.Join(t.Vectors, "testclock"))
	t.must(err)
	t.stop()
	t.setClock(time.Now().UnixMicro())
	t.startWell(1) // the first call of a program may take longer than it may last
	for _, line := range timelines {
		t.each("FLUSHALL")
		t.setClock(time.Now().UnixMicro()) // for calls.json
		if row := line.play(t); row.Cure != "" {
			row.Tried, row.Seen = theVectors, line.Name+": "+row.Seen
			return []Row{row}
		}
	}
	return []Row{{ReadsRight, theVectors, fmt.Sprint(len(timelines), " timelines"), ""}}
}

// readTimelines reads the vectors in a folder, and calls.json, of whose calls no reply is known. That file is elsewhere
// in a release than in the repository.
func readTimelines(folder string) (all []timeline, err error) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	for _, scripts := range []string{"../scripts", "../../scripts"} {
		calls, _ := filepath.Glob(filepath.Join(folder, scripts, "calls.json"))
		files = append(files, calls...)
	}
	for _, path := range files {
		var file struct {
			Script    string
			Timelines []timeline
			Vectors   []step
		}
		text, failed := os.ReadFile(path)
		err = errors.Join(err, failed, json.Unmarshal(text, &file))
		for _, call := range file.Vectors {
			file.Timelines = append(file.Timelines, timeline{Name: "calls.json", Steps: []step{call}})
		}
		for _, line := range file.Timelines {
			line.script = file.Script
			line.Cure = "send KEYS and ARGV as they are; read the headers, and README.md beside the vectors"
			all = append(all, line)
		}
	}
	return all, err
}

func (t *trial) setClock(us int64) {
	t.each("HSET", "sluice:test:clock", "s", word(fmt.Sprint(us/1e6)), "us", word(fmt.Sprint(us%1e6)))
}
