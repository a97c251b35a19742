package trycaller

import (
	"cmp"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type vectorFile struct {
	Script    string
	Timelines []timeline
	Vectors   []step // of calls.json: each is a timeline
}

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
	files, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	if len(files) == 0 {
		return fmt.Errorf("--vectors: no *.json in %s", folder)
	}
	calls := filepath.Join(folder, "..", "scripts", "calls.json") // of a release
	if _, err := os.Stat(calls); err != nil {
		calls = filepath.Join(folder, "..", "..", "scripts", "calls.json")
	}
	scripts := filepath.Join(folder, "testclock")
	if err := t.start("SLUICE_SCRIPTS=" + scripts); err != nil {
		return err
	}
	defer t.stop()
	steps, row := 0, Row{ReadsRight, "vectors and calls.json", "", ""}
	for _, path := range append(files, calls) {
		var file vectorFile
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		for _, call := range file.Vectors {
			if call.Script != "" { // else it is to be refused, before a call
				call.At = 1795190573204223
				file.Timelines = append(file.Timelines, timeline{"calls.json", []step{call}})
			}
		}
		for _, line := range file.Timelines {
			t.each(t.ctx, "FLUSHALL")
			for i, s := range line.Steps {
				steps++
				s.Script = cmp.Or(s.Script, file.Script)
				wrong, err := t.play(filepath.Join(scripts, s.Script+".lua"), s)
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

// play runs a step of a script's file and says what is wrong. If the step has no reply, it is a timeline of its own:
// the trial makes the call itself first, to know the reply.
func (t *trial) play(path string, s step) (string, error) {
	rdb, clock := t.nodes[0].rdb, []any{"HSET", "sluice:test:clock", "s", s.At / 1e6, "us", s.At % 1e6}
	if err := rdb.Do(t.ctx, clock...).Err(); err != nil {
		return "", err
	}
	var args []any
	for _, word := range bytesOf(append(s.Command, s.Args...)) {
		args = append(args, word)
	}
	if s.Command != nil {
		return "", rdb.Do(t.ctx, args...).Err()
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if s.Reply == nil && s.Error == "" {
		reply, err := rdb.Eval(t.ctx, string(source), s.Keys, args...).Int64Slice()
		if err != nil {
			return "", err
		}
		for _, value := range reply {
			s.Reply = append(s.Reply, integer(value))
		}
		t.each(t.ctx, "FLUSHALL")
		_ = rdb.Do(t.ctx, clock...).Err()
	}
	sum := sha1.Sum(source)
	t.last++
	name := hex.EncodeToString(sum[:])
	a := t.ask(request{t.last, s.Script, name, path, hexes(bytesOf(s.Keys)), hexes(bytesOf(s.Args))})
	if !slices.Equal(a.Reply, s.Reply) || s.Error != "" && (a.Kind != refused || !strings.Contains(a.Error, s.Error)) {
		return fmt.Sprintf("%v, want %v%s", a, s.Reply, s.Error), nil
	}
	return "", nil
}

// bytesOf has a byte for each character.
func bytesOf(texts []string) []string {
	words := make([]string, len(texts))
	for i, text := range texts {
		for _, r := range text {
			words[i] += string([]byte{byte(r)})
		}
	}
	return words
}
