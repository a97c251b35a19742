package trycaller

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// theVectors is a row.
const theVectors = "vectors and calls.json"

type timeline struct {
	Name  string
	Steps []step
}

type step struct {
	At                  int64
	Command, Keys, Args []string // a byte for each character
	Script, Error       string
	Reply               []integer
}

// playVectors plays all timelines and the calls of calls.json, with the scripts that read the time from a key.
func (t *trial) playVectors() error {
	folder, err := filepath.Abs(t.Vectors)
	if err != nil {
		return err
	}
	var files []string // calls.json is elsewhere in a release than in the repository
	for _, pattern := range []string{"*.json", "../scripts/calls.json", "../../scripts/calls.json"} {
		found, _ := filepath.Glob(filepath.Join(folder, pattern))
		files = append(files, found...)
	}
	if len(files) < 2 {
		return fmt.Errorf("--vectors: no *.json in %s, or no calls.json in scripts beside it", folder)
	}
	defer func(scripts string) { t.scripts = scripts }(t.scripts)
	t.scripts = filepath.Join(folder, "testclock")
	t.stop()
	defer t.stop()
	t.each(t.ctx, "HSET", "sluice:test:clock", "s", 1795190573, "us", 0)
	if err := t.startWell(1); err != nil { // the first call of a program may take longer than it may last
		return err
	}
	steps, row := 0, Row{ReadsRight, theVectors, "", ""}
	for _, path := range files {
		timelines, err := readTimelines(path)
		if err != nil {
			return err
		}
		for _, line := range timelines {
			t.each(t.ctx, "FLUSHALL")
			for i, s := range line.Steps {
				steps++
				wrong, err := t.play(s)
				if err != nil {
					return err
				}
				if wrong != "" && row.Cure == "" {
					row.Seen = fmt.Sprintf("%s, %s, step %d: %s", s.Script, line.Name, i+1, wrong)
					row.Cure = "send KEYS and ARGV as they are; read the headers, and README.md beside the vectors"
				}
			}
		}
	}
	row.Seen = cmp.Or(row.Seen, fmt.Sprint(steps, " steps"))
	t.report(row)
	return nil
}

func readTimelines(path string) ([]timeline, error) {
	var file struct {
		Script    string
		Timelines []timeline
		Vectors   []step // of calls.json: each is a timeline
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, call := range file.Vectors {
		if call.Script != "" { // else it is to be refused, before a call
			call.At = 1795190573204223
			file.Timelines = append(file.Timelines, timeline{"calls.json", []step{call}})
		}
	}
	for _, line := range file.Timelines {
		for i, s := range line.Steps {
			line.Steps[i].Script = cmp.Or(s.Script, file.Script)
		}
	}
	return file.Timelines, nil
}

// play runs a step and says what is wrong. If the step has no reply, it is a timeline of its own: the trial makes the
// call itself first, to know the reply.
func (t *trial) play(s step) (string, error) {
	rdb, clock := t.nodes[0].rdb, []any{"HSET", "sluice:test:clock", "s", s.At / 1e6, "us", s.At % 1e6}
	if err := rdb.Do(t.ctx, clock...).Err(); err != nil {
		return "", err
	}
	keys, args := each(s.Keys, bytesOf), each(s.Args, bytesOf)
	if s.Command != nil {
		return "", rdb.Do(t.ctx, each(each(s.Command, bytesOf), anyOf)...).Err()
	}
	r := t.request(s.Script, keys, args...)
	if s.Reply == nil && s.Error == "" {
		source, err := os.ReadFile(r.File)
		if err != nil {
			return "", err
		}
		reply, err := rdb.Eval(t.ctx, string(source), keys, each(args, anyOf)...).Int64Slice()
		if err != nil {
			return "", err
		}
		for _, value := range reply {
			s.Reply = append(s.Reply, integer(value))
		}
		t.each(t.ctx, "FLUSHALL")
		_ = rdb.Do(t.ctx, clock...).Err()
	}
	a := t.ask(r)
	if !slices.Equal(a.Reply, s.Reply) || s.Error != "" && (a.Kind != refused || !strings.Contains(a.Error, s.Error)) {
		return fmt.Sprintf("%v, want %v%s", a, s.Reply, s.Error), nil
	}
	return "", nil
}
