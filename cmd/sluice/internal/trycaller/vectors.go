package trycaller

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// theVectors is a row.
const theVectors = "vectors and calls.json"

// timeline is played on an empty server.
type timeline struct {
	Name  string
	Steps []step
}

// step is a call, or a command of an operator. Strings have a character for each byte.
type step struct {
	At                  int64
	Command, Keys, Args []string
	Script, Error       string
	Reply               []json.Number
}

// playVectors plays all timelines and the calls of calls.json, with the scripts that read the time from a key.
func (t *trial) playVectors() error {
	folder, err := filepath.Abs(t.Vectors)
	if err != nil {
		return err
	}
	timelines, err := readTimelines(folder)
	if err != nil {
		return fmt.Errorf("--vectors: %w", err)
	}
	defer func(scripts string) { t.scripts = scripts }(t.scripts)
	t.scripts = filepath.Join(folder, "testclock")
	t.stop()
	defer t.stop()
	t.setClock(1795190573e6)
	if err := t.startWell(1); err != nil { // the first call of a program may take longer than it may last
		return err
	}
	row := Row{ReadsRight, theVectors, fmt.Sprint(len(timelines), " timelines"), ""}
	for _, line := range timelines {
		t.each("FLUSHALL")
		for i, s := range line.Steps {
			if wrong := t.play(s); wrong != "" && row.Cure == "" {
				row.Seen = fmt.Sprintf("%s, %s, step %d: %s", s.Script, line.Name, i+1, wrong)
				row.Cure = "send KEYS and ARGV as they are; read the headers, and README.md beside the vectors"
			}
		}
	}
	t.report(row)
	return nil
}

// readTimelines reads the vectors in a folder, and calls.json: each of its calls is a timeline of a step without a
// reply. That file is elsewhere in a release than in the repository.
func readTimelines(folder string) (all []timeline, err error) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	calls, _ := filepath.Glob(filepath.Join(folder, "../scripts/calls.json"))
	if len(calls) == 0 {
		calls = []string{filepath.Join(folder, "../../scripts/calls.json")}
	}
	for _, path := range append(files, calls...) {
		var file struct {
			Script    string
			Timelines []timeline
			Vectors   []step
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(text, &file)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		for _, line := range file.Timelines {
			for i, s := range line.Steps {
				line.Steps[i].Script = cmp.Or(s.Script, file.Script)
			}
			all = append(all, line)
		}
		for _, call := range file.Vectors {
			if call.Script != "" { // else it is to be refused, before a call
				call.At = 1795190573204223
				all = append(all, timeline{"calls.json", []step{call}})
			}
		}
	}
	return all, nil
}

// play runs a step and says what is wrong. If the step has no reply, the trial makes the call itself first.
func (t *trial) play(s step) (wrong string) {
	t.setClock(s.At)
	if s.Command != nil {
		t.each(each(s.Command, bytesOf)...)
		return ""
	}
	keys, args := each(s.Keys, bytesOf), each(s.Args, bytesOf)
	r, want := t.request(s.Script, keys, args...), cmp.Or(s.Error, fmt.Sprint("reply ", s.Reply))
	if s.Reply == nil && s.Error == "" {
		source, _ := os.ReadFile(r.File)
		reply := t.nodes[0].rdb.Eval(t.ctx, string(source), keys, each(args, anyOf)...)
		want = fmt.Sprint("reply ", reply.Val())
		t.each("FLUSHALL")
		t.setClock(s.At)
	}
	if a := t.programs[0].ask(r, t.patience); !a.is(want) {
		return fmt.Sprintf("%v, want %s", a, want)
	}
	return ""
}

func (t *trial) setClock(us int64) {
	t.each("HSET", "sluice:test:clock", "s", fmt.Sprint(us/1e6), "us", fmt.Sprint(us%1e6))
}

// bytesOf has a byte for each character.
func bytesOf(text string) string {
	var word []byte
	for _, r := range text {
		word = append(word, byte(r))
	}
	return string(word)
}
